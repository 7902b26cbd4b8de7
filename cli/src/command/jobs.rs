//! `undertone jobs`: the jobs of a consortium.

use clap::ValueEnum;
use undertone_api::job::JobSummary;

use crate::client::RestClient;
use crate::output::{StandardOutput, format_table, format_word};
use crate::{CommandAnswer, CommandResult, ConsortiumOption};

/// The options of `jobs`.
#[derive(Debug, clap::Args)]
pub(crate) struct JobsOptions {
    #[command(flatten)]
    consortium: ConsortiumOption,
    /// List jobs in this state.
    #[arg(long, value_name = "STATE")]
    state: Option<StateFilter>,
}

/// The state of a job, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateFilter {
    /// Waiting for the owners of its datasets.
    Proposed,
    /// Approved; waiting for its workers.
    Queued,
    /// Running at its workers.
    Running,
    /// Held by a party.
    Paused,
    /// Completed.
    Finished,
    /// Ended by an error.
    Failed,
    /// Ended by a person.
    Cancelled,
    /// Refused by an owner or by a budget.
    Refused,
}

/// Lists the jobs.
pub(crate) async fn run(options: &JobsOptions, out: &mut StandardOutput) -> CommandResult {
    let mut client = RestClient::open()?;
    let consortium = client.choose_consortium(options.consortium.consortium.as_deref()).await?;
    let state = options.state.and_then(|state| state.to_possible_value());
    let query = state.map_or(String::new(), |state| format!("state={}&", state.get_name()));
    let jobs: Vec<JobSummary> = client.list(&format!("/consortia/{}/jobs", consortium.id), &query).await?;
    out.print(&jobs, |jobs| {
        let row = |job: &JobSummary| {
            vec![
                job.id.to_string(),
                job.kind.clone(),
                format_word(&job.state),
                format!("{}/{}", job.rounds_done, job.rounds),
                job.proposed_by.clone(),
                job.title.clone(),
            ]
        };
        let head = ["ID", "KIND", "STATE", "ROUNDS", "PROPOSED BY", "TITLE"];
        format_table(&head, &jobs.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(CommandAnswer::Positive)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;
    use undertone_api::job::JobState;

    use super::StateFilter;

    #[test]
    fn each_option_is_a_state() {
        for state in StateFilter::value_variants() {
            let value = state.to_possible_value().expect("it is listed");
            let word = serde_json::Value::from(value.get_name());
            assert!(serde_json::from_value::<JobState>(word).is_ok(), "{state:?}");
        }
        assert_eq!(StateFilter::value_variants().len(), 8);
    }
}
