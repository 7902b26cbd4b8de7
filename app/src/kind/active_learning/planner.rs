//! The planner: a plain form, with every owner's remaining budget and the sufficient thresholds beside it. The server
//! computes all of it, with the code that decides. With a script the numbers follow the form automatically, without one
//! a button recalculates it.

#![expect(unreachable_pub, reason = "the server macro makes what it generates public")]

pub(super) mod cost;
mod form;

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, DraftId};
use undertone_server_core::service;

use super::plan::QuestionPlan;
use crate::fault::Fault;
use crate::request::DashboardRequest;

pub(super) use form::render_planner;

/// The kind's word in addresses.
const WORD: &str = "active-learning";
/// The address that saves a plan as a draft.
pub(super) const SAVE: &str = "/ui/draft-active-learning";
/// The form's id, to which fields outside it refer.
pub(super) const FORM: &str = "plan-active-learning";

/// Proposes a plan, and with it the draft from which it was opened; returns the new job's address. An island receives a
/// problem as HTML, with its status.
///
/// # Errors
/// The operation's problem, to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-active-learning")]
pub async fn propose_questions(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    ask: QuestionPlan,
) -> Result<String, Fault> {
    use crate::kind::submission::PlanSubmission;
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &ask.title, "ask", &ask);
    submission.propose(|datasets| ask.spec(datasets).map(Spec::ActiveLearning)).await
}

/// Saves a plan as a draft, without a request for approval; it replaces the draft from which it was opened, if any.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "draft-active-learning")]
pub async fn save_questions(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    ask: QuestionPlan,
) -> Result<(), Fault> {
    use crate::kind::submission::PlanSubmission;
    use undertone_api::job::Spec;
    let submission = PlanSubmission::new(consortium, (draft, version), &ask.title, "ask", &ask);
    submission.save(|datasets| ask.spec(datasets).map(Spec::ActiveLearning)).await
}

/// Returns the cost of a plan, or its violations, as HTML.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "weigh-active-learning")]
pub async fn weigh_questions(consortium: ConsortiumId, ask: QuestionPlan) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let datasets = service::dataset::list(request.ctx(), request.actor()?, consortium).await?;
    let private = |id: &undertone_api::id::DatasetId| {
        let is_it = |dataset: &undertone_api::dataset::Dataset| {
            dataset.id == *id && dataset.visibility != undertone_api::dataset::Visibility::Public
        };
        datasets.iter().any(is_it)
    };
    let parts = ask.participants().chain(ask.measured());
    let private_logs: Vec<_> = parts.map(|part| part.dataset).filter(private).collect();
    let standings = service::budget::standings(request.ctx(), request.actor()?, consortium, &private_logs).await?;
    Ok(cost::render_cost(&ask, &datasets, &standings, consortium))
}
