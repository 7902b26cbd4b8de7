//! The planner: a plain form, and beside it what the account would have left, what is to be expected, and what each number of
//! colluding recognizers would learn. The server makes all of it, with the code that decides; with a script the numbers follow the
//! form by themselves, without one it is recalculated.

#![expect(unreachable_pub, reason = "the server macro makes what it generates public")]

pub(super) mod cost;
mod form;
mod knobs;

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, DraftId};

use super::plan::Plan;
use crate::call::Fault;
use crate::kind::posted::Posted;

pub(super) use form::planner;

/// The kind's word in addresses.
const WORD: &str = "transcription";
/// Where a plan is saved as a draft.
pub(super) const SAVE: &str = "/ui/draft-transcription";
/// The form's id, by which fields outside it are of it.
pub(super) const FORM: &str = "plan-transcription";

/// Proposes a plan, and with it the draft from which it was opened; gives the new job's address.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem), to a browser that posts the form itself.
#[server(prefix = "/ui", endpoint = "propose-transcription")]
pub async fn propose_transcription(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    hear: Plan,
) -> Result<String, Fault> {
    use undertone_api::job::Spec;
    let posted = Posted::new(consortium, (draft, version), &hear.title, "hear", &hear);
    posted.propose(|_| hear.spec().map(Spec::Transcription)).await
}

/// Saves a plan as a draft, which nobody is asked about; in the draft from which it was opened, if it was.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "draft-transcription")]
pub async fn save_transcription(
    consortium: ConsortiumId,
    #[server(default)] draft: Option<DraftId>,
    #[server(default)] version: Option<u64>,
    hear: Plan,
) -> Result<(), Fault> {
    use undertone_api::job::Spec;
    let posted = Posted::new(consortium, (draft, version), &hear.title, "hear", &hear);
    posted.save(|_| hear.spec().map(Spec::Transcription)).await
}

/// What a plan would cost and what is to be expected of it, as HTML; or what is wrong with it.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "weigh-transcription")]
pub async fn weigh_transcription(consortium: ConsortiumId, hear: Plan) -> Result<String, Fault> {
    use undertone_api::dataset::Visibility;
    let backend = crate::backend::backend()?;
    let datasets = backend.datasets(consortium).await?;
    let chosen = datasets.iter().find(|dataset| dataset.id == hear.dataset);
    let standings = match chosen.filter(|dataset| dataset.visibility != Visibility::Public) {
        Some(dataset) => vec![(dataset.id, backend.standing(dataset.id).await?)],
        None => Vec::new(),
    };
    Ok(cost::told(&hear, &datasets, &standings, consortium))
}
