//! The planner: a plain form, with the account's remainder, the expected cost, and the privacy loss to each number of
//! colluding recognizers beside it. The server computes all of it, with the code that decides. With a script the
//! numbers follow the form automatically, without one a button recalculates it.

#![expect(unreachable_pub, reason = "the server macro makes what it generates public")]

pub(super) mod cost;
mod distance;
mod form;
mod variants;

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, DraftId};
use undertone_server_core::service;

use super::plan::TranscriptionPlan;
use crate::fault::Fault;
use crate::kind::submission::PlanSubmission;
use crate::request::DashboardRequest;

pub(super) use form::render_planner;

/// The kind's word in addresses.
const WORD: &str = "transcription";
/// The address that saves a plan as a draft.
pub(super) const SAVE: &str = "/ui/draft-transcription";
/// The form's id, to which fields outside it refer.
pub(super) const FORM: &str = "plan-transcription";

/// Proposes a plan, and with it the draft from which it was opened; returns the new job's address.
///
/// # Errors
/// The operation's problem, to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-transcription")]
pub async fn propose_transcription(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    hear: TranscriptionPlan,
) -> Result<String, Fault> {
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &hear.title, "hear", &hear);
    submission.propose(|_| hear.spec().map(Spec::Transcription)).await
}

/// Saves a plan as a draft, without a request for approval; it replaces the draft from which it was opened, if any.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "draft-transcription")]
pub async fn save_transcription(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    hear: TranscriptionPlan,
) -> Result<(), Fault> {
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &hear.title, "hear", &hear);
    submission.save(|_| hear.spec().map(Spec::Transcription)).await
}

/// Returns the charge and the expected cost of a plan, or its violations, as HTML.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "weigh-transcription")]
pub async fn weigh_transcription(consortium: ConsortiumId, hear: TranscriptionPlan) -> Result<String, Fault> {
    use undertone_api::dataset::Visibility;
    let request = DashboardRequest::from_context()?;
    let datasets = service::dataset::list(request.ctx(), request.actor()?, consortium).await?;
    let dataset = datasets.iter().find(|dataset| dataset.id == hear.dataset);
    let standings = match dataset.filter(|dataset| dataset.visibility != Visibility::Public) {
        Some(dataset) => {
            vec![(dataset.id, service::budget::balances(request.ctx(), request.actor()?, dataset.id).await?)]
        }
        None => Vec::new(),
    };
    Ok(cost::render_cost(&hear, &datasets, &standings, consortium))
}
