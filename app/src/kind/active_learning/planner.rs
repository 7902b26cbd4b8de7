//! The planner: a plain form, and beside it what every owner would have left and which thresholds would do. The server makes all of
//! it, with the code that decides; with a script the numbers follow the form by themselves, without one it is recalculated.

#![expect(unreachable_pub, reason = "the server macro makes what it generates public")]

pub(super) mod cost;
mod form;

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, DraftId};

use super::plan::Plan;
use crate::call::Fault;

pub(super) use form::planner;

/// The kind's word in addresses.
const WORD: &str = "active-learning";
/// Where a plan is saved as a draft.
pub(super) const SAVE: &str = "/ui/draft-active-learning";
/// The form's id, by which fields outside it are of it.
pub(super) const FORM: &str = "plan-active-learning";

/// Proposes a plan, and with it the draft from which it was opened; gives the new job's address. An island that asks is
/// given a problem in words, as HTML, with its status.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem), to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-active-learning")]
pub async fn propose_questions(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    ask: Plan,
) -> Result<String, Fault> {
    use crate::kind::posted::Posted;
    use undertone_api::job::Spec;
    let posted = Posted::new(consortium, (draft, version), &ask.title, "ask", &ask);
    posted.propose(|datasets| ask.spec(datasets).map(Spec::ActiveLearning)).await
}

/// Saves a plan as a draft, which nobody is asked about; in the draft from which it was opened, if it was.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "draft-active-learning")]
pub async fn save_questions(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    ask: Plan,
) -> Result<(), Fault> {
    use crate::kind::posted::Posted;
    use undertone_api::job::Spec;
    let posted = Posted::new(consortium, (draft, version), &ask.title, "ask", &ask);
    posted.save(|datasets| ask.spec(datasets).map(Spec::ActiveLearning)).await
}

/// What a plan would cost, as HTML; or what is wrong with it.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "weigh-active-learning")]
pub async fn weigh_questions(consortium: ConsortiumId, ask: Plan) -> Result<String, Fault> {
    let backend = crate::backend::backend()?;
    let datasets = backend.datasets(consortium).await?;
    let private = |id: &undertone_api::id::DatasetId| {
        let is_it = |dataset: &undertone_api::dataset::Dataset| {
            dataset.id == *id && dataset.visibility != undertone_api::dataset::Visibility::Public
        };
        datasets.iter().any(is_it)
    };
    let asked = ask.joining().map(|part| part.dataset).filter(private).collect();
    let standings = backend.standings(consortium, asked).await?;
    Ok(cost::told(&ask, &datasets, &standings, consortium))
}
