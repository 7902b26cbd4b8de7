//! `undertone propose`: a request to the owners of the data.

use std::fmt::Write as _;
use std::path::PathBuf;

use undertone_api::job::{Approval, Job};

use super::read_job;
use crate::client::RestClient;
use crate::output::{StandardOutput, format_word};
use crate::{CommandAnswer, CommandResult, ConsortiumOption};

/// The options of `propose`.
#[derive(Debug, clap::Args)]
pub(crate) struct ProposeOptions {
    /// The job, JSON with `title`, `kind` and `spec`; `-` is the standard input.
    file: PathBuf,
    #[command(flatten)]
    consortium: ConsortiumOption,
}

/// Proposes a job.
pub(crate) async fn run(options: &ProposeOptions, out: &mut StandardOutput) -> CommandResult {
    let document = read_job(&options.file)?;
    let mut client = RestClient::open()?;
    let consortium = client.choose_consortium(options.consortium.consortium.as_deref()).await?;
    let job: Job = client.post_once(&format!("/consortia/{}/jobs", consortium.id), &document).await?;
    out.print(&job, format_proposal)?;
    Ok(CommandAnswer::Positive)
}

/// Returns the id, the state, and the owners whose answer is missing.
fn format_proposal(job: &Job) -> String {
    let summary = &job.summary;
    let mut text = format!("{}\n\"{}\" is {}.\n", summary.id, summary.title, format_word(&summary.state));
    for party in job.participants.iter().filter(|party| party.approval == Approval::Pending) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {} waits for {}", party.dataset_name, party.organization_name);
    }
    text
}
