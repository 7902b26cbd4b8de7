//! The planner: a plain form, and beside it what the account would have left, what is to be expected, and what each number of
//! colluding recognizers would learn. The server makes all of it; nothing here needs a script.

#![expect(unreachable_pub, reason = "the server macro makes what it generates public")]

pub(super) mod cost;
mod form;

use leptos::prelude::*;
use undertone_api::id::{ConsortiumId, DraftId};

use super::plan::Plan;
use crate::call::Fault;
use crate::kind::posted::Posted;

pub(super) use form::planner;

/// Where a plan is proposed.
const PROPOSE: &str = "/ui/propose-transcription";
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
