//! What becomes of a planner's form once it is posted, whatever the kind: a job, a draft, or the draft from which it was
//! opened. What cannot be done leads a plain browser back to the planner with everything that it wrote, so nothing is typed
//! twice. A kind adds its own server functions, which name its plan, and calls these.

use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DraftId};
use undertone_api::job::{Job, NewDraft, NewJob, Spec};
use undertone_api::problem::{Code, Problem, Violation};

use crate::backend::{Answer, Backend};
use crate::call::Fault;
use crate::call::native::{self, Word};
use crate::path;

/// Most bytes of an address that carries a plan back: proxies commonly take no more than 8 KiB of a request's first line.
const LONGEST_ADDRESS: usize = 7500;

/// A planner's form.
pub(super) struct Posted {
    /// Where the job is planned.
    pub(super) consortium: ConsortiumId,
    /// The draft that it was opened from, and its version then.
    pub(super) draft: Option<(DraftId, u64)>,
    /// The job's title.
    pub(super) title: String,
    /// The plan as an address of the planner holds it.
    pub(super) plan: String,
}

impl Posted {
    /// The form with this plan, under the name that its fields have in the form.
    pub(super) fn new<P: serde::Serialize>(
        consortium: ConsortiumId,
        draft: (Option<DraftId>, Option<u64>),
        title: &str,
        name: &str,
        plan: &P,
    ) -> Self {
        let plan = serde_qs::to_string(&std::collections::BTreeMap::from([(name, plan)])).unwrap_or_default();
        // Whoever names no version has read none. No draft has version 0, so they are told.
        let draft = draft.0.map(|id| (id, draft.1.unwrap_or(0)));
        Self { consortium, draft, title: title.to_owned(), plan }
    }

    /// Proposes the plan; gives the new job's address. An island that asks is given a problem in words, as HTML, with its
    /// status.
    ///
    /// # Errors
    /// The backend's problem, to a browser that posts the form itself.
    pub(super) async fn propose(
        self,
        spec: impl FnOnce(&[Dataset]) -> Result<Spec, Vec<Violation>> + Send,
    ) -> Result<String, Fault> {
        let backend = crate::backend::backend()?;
        let proposed = async {
            let datasets = backend.datasets(self.consortium).await?;
            let spec = spec(&datasets).map_err(Problem::validation)?;
            let job = NewJob { title: self.title.clone(), spec };
            match self.draft {
                Some(draft) => spent(backend.as_ref(), self.consortium, draft, job).await,
                None => backend.propose(self.consortium, job).await,
            }
        };
        let proposed = proposed.await.map(|job| path::job(self.consortium, job.summary.id));
        if !native::wants_html() {
            return Ok(proposed.unwrap_or_else(native::told));
        }
        match proposed {
            Err(problem) if self.draft.is_some() => self.back(problem).map(|()| String::new()),
            proposed => {
                let said = Some("The job is proposed to the owners of its data.".to_owned());
                native::land(proposed.clone(), Clone::clone, said)?;
                Ok(proposed.unwrap_or_default())
            }
        }
    }

    /// Saves the plan as a draft, which nobody is asked about: in the draft from which it was opened, if it was.
    ///
    /// # Errors
    /// The backend's problem, to a program.
    pub(super) async fn save(
        self,
        spec: impl FnOnce(&[Dataset]) -> Result<Spec, Vec<Violation>> + Send,
    ) -> Result<(), Fault> {
        let backend = crate::backend::backend()?;
        let read = async {
            let datasets = backend.datasets(self.consortium).await?;
            written(&self.title, &spec(&datasets).map_err(Problem::validation)?)
        };
        let new = match read.await {
            Ok(new) => new,
            Err(problem) => return self.back(problem),
        };
        let (answer, said) = match self.draft {
            Some((id, version)) => (backend.write_draft(id, new.clone(), version).await, "The draft is saved."),
            None => (backend.begin_draft(self.consortium, new.clone()).await, "The plan is saved as a draft."),
        };
        let consortium = self.consortium;
        let to = move |draft: &undertone_api::job::Draft| path::draft(consortium, draft.id);
        match answer {
            Err(problem) if problem.code == Code::PreconditionFailed && self.address().is_none() => {
                let kept = backend.begin_draft(consortium, new).await;
                let said =
                    "Somebody changed the draft in the meantime. What you wrote is kept here, as a draft of its own.";
                native::land(kept, to, Some(said.to_owned()))
            }
            Err(problem) => self.back(problem),
            saved => native::land(saved, to, Some(said.to_owned())),
        }
    }

    /// The planner's address with all that was written; nothing when it would be too long.
    fn address(&self) -> Option<String> {
        let draft = self.draft.map(|(id, version)| format!("draft={id}&version={version}&")).unwrap_or_default();
        let address = format!("{}?{draft}{}", path::plan(self.consortium), self.plan);
        (address.len() <= LONGEST_ADDRESS).then_some(address)
    }

    /// Tells a problem over the planner with all that was written.
    fn back(&self, problem: Problem) -> Result<(), Fault> {
        match self.address() {
            Some(address) if native::wants_html() => {
                native::leave(&Word::Problem(problem));
                leptos_axum::redirect(&address);
                Ok(())
            }
            _ => native::land(Err::<(), _>(problem), |()| String::new(), None),
        }
    }
}

/// Writes a draft and makes it the job. What would be refused is refused before it is written: the form still names the
/// version that there is.
async fn spent(
    backend: &dyn Backend,
    consortium: ConsortiumId,
    (draft, version): (DraftId, u64),
    job: NewJob,
) -> Answer<Job> {
    let plan = backend.plan(consortium, job.clone()).await?;
    if !plan.violations.is_empty() {
        return Err(Problem::validation(plan.violations));
    }
    if !plan.refusals.is_empty() {
        let missing = plan.refusals.iter().any(|refusal| refusal.limit <= 0.0);
        let (code, told) = if missing {
            (Code::BudgetMissing, "A dataset has no budget for this: its steward can set one.")
        } else {
            (Code::BudgetExceeded, "A budget does not admit it.")
        };
        return Err(Problem { refusals: plan.refusals, ..Problem::new(code, told) });
    }
    backend.write_draft(draft, written(&job.title, &job.spec)?, version).await?;
    backend.propose_draft(draft).await
}

fn written(title: &str, spec: &Spec) -> Answer<NewDraft> {
    NewDraft::of(title, spec).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use undertone_api::id::{ConsortiumId, DraftId};
    use uuid::Uuid;

    use super::{LONGEST_ADDRESS, Posted};

    fn posted(title: &str) -> Posted {
        let (consortium, draft) = (ConsortiumId(Uuid::from_u128(1)), DraftId(Uuid::from_u128(2)));
        Posted::new(consortium, (Some(draft), Some(3)), title, "plan", &BTreeMap::from([("title", title)]))
    }

    #[test]
    fn what_was_written_is_carried_back_with_the_version_that_was_read() {
        let address = posted("a b").address().expect("it is short");
        assert!(address.contains("&version=3&plan") && address.ends_with("a+b"), "{address}");
    }

    #[test]
    fn an_address_that_proxies_would_not_take_is_not_made() {
        let base = posted("").address().expect("it is short").len();
        assert!(posted(&"x".repeat(LONGEST_ADDRESS - base)).address().is_some());
        assert!(posted(&"x".repeat(LONGEST_ADDRESS - base + 1)).address().is_none());
    }
}
