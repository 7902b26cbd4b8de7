//! `undertone jobs`: the jobs of a consortium.

use clap::builder::{PossibleValue, PossibleValuesParser};
use undertone_api::job::{JobState, JobSummary};

use crate::client::RestClient;
use crate::output::{StandardOutput, format_table, format_word};
use crate::{CommandAnswer, CommandResult, ConsortiumOption};

/// The options of `jobs`.
#[derive(Debug, clap::Args)]
pub(crate) struct JobsOptions {
    #[command(flatten)]
    consortium: ConsortiumOption,
    /// List jobs in this state.
    #[arg(long, value_name = "STATE", value_parser = list_states())]
    state: Option<String>,
}

/// Returns the words of the states of jobs, as values of an option.
fn list_states() -> PossibleValuesParser {
    PossibleValuesParser::new(JobState::ALL.iter().map(|state| PossibleValue::new(state.word()).help(state.label())))
}

/// Lists the jobs.
pub(crate) async fn run(options: &JobsOptions, out: &mut StandardOutput) -> CommandResult {
    let mut client = RestClient::open()?;
    let consortium = client.choose_consortium(options.consortium.consortium.as_deref()).await?;
    let query = options.state.as_ref().map_or(String::new(), |state| format!("state={state}&"));
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
    use clap::builder::TypedValueParser as _;
    use undertone_api::job::JobState;

    use super::list_states;

    #[test]
    fn each_state_is_a_value_of_the_option() {
        let values: Vec<_> = list_states().possible_values().into_iter().flatten().collect();
        assert_eq!(values.len(), JobState::ALL.len());
        for value in values {
            let word = serde_json::Value::from(value.get_name());
            assert!(serde_json::from_value::<JobState>(word).is_ok(), "{value:?}");
        }
    }
}
