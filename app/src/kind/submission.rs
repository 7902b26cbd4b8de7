//! Handling of a planner's posted form, for every kind: a job, a draft, or the draft from which it was opened. A
//! failure redirects a plain browser back to the planner with all its input, so that it need not be repeated. A kind
//! adds its own server functions, which name its plan, and calls these.

use undertone_api::dataset::Dataset;
use undertone_api::id::{ConsortiumId, DraftId};
use undertone_api::job::{Job, NewDraft, NewJob, Spec};
use undertone_api::plan::NewPlan;
use undertone_api::problem::{Code, Problem, Violation};
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::service;
use undertone_server_core::service::version::ExpectedVersion;

use crate::fault::Fault;
use crate::message::{PageMessage, leave};
use crate::path;
use crate::reply;
use crate::request::{Answer, DashboardRequest};

/// The longest address with a plan for the way back, bytes: proxies commonly accept at most 8 KiB of a request's first
/// line.
const LONGEST_ADDRESS: usize = 7500;

/// A planner's form.
pub(super) struct PlanSubmission {
    /// The consortium of the plan.
    pub(super) consortium: ConsortiumId,
    /// The draft from which it was opened, and its version then.
    pub(super) draft: Option<(DraftId, u64)>,
    /// The job's title.
    pub(super) title: String,
    /// The plan in the form of the planner's address.
    pub(super) plan: String,
}

impl PlanSubmission {
    /// Makes the form with this plan, under the name of its fields in the form.
    pub(super) fn new<P: serde::Serialize>(
        consortium: ConsortiumId,
        draft: (Option<DraftId>, Option<u64>),
        title: &str,
        name: &str,
        plan: &P,
    ) -> Self {
        let plan = serde_qs::to_string(&std::collections::BTreeMap::from([(name, plan)])).unwrap_or_default();
        // A form without a version has read none. No draft has version 0, so such a form is rejected as outdated.
        let draft = draft.0.map(|id| (id, draft.1.unwrap_or(0)));
        Self { consortium, draft, title: title.to_owned(), plan }
    }

    /// Proposes the plan; returns the new job's address. An island receives a problem as HTML, with its status.
    ///
    /// # Errors
    /// The problem, to a browser that posts the form itself.
    pub(super) async fn propose(
        self,
        spec: impl FnOnce(&[Dataset]) -> Result<Spec, Vec<Violation>> + Send,
    ) -> Result<String, Fault> {
        let request = DashboardRequest::from_context()?;
        let proposal = async {
            let ctx = request.ctx();
            let actor = request.actor()?;
            let datasets = service::dataset::list(ctx, actor, self.consortium).await?;
            let spec = spec(&datasets).map_err(Problem::validation)?;
            let job = NewJob { title: self.title.clone(), spec };
            match self.draft {
                Some(draft) => Box::pin(propose_draft(ctx, actor, self.consortium, draft, job)).await,
                None => Ok(Box::pin(service::job::propose(ctx, actor, self.consortium, job)).await?),
            }
        };
        let address = proposal.await.map(|job| path::job(self.consortium, job.summary.id));
        if !reply::wants_html() {
            return Ok(address.unwrap_or_else(reply::problem_html));
        }
        match address {
            Err(problem) if self.draft.is_some() => self.redirect_back(problem).map(|()| String::new()),
            address => {
                let message = Some("The job was proposed to the owners of its data.".to_owned());
                reply::land(address.clone(), Clone::clone, message)?;
                Ok(address.unwrap_or_default())
            }
        }
    }

    /// Proposes another job than the plan itself, and leaves the draft from which it was opened unchanged. A failure
    /// shows the planner with all input; success shows the new job with the `message`.
    ///
    /// # Errors
    /// The problem, to a program.
    pub(super) async fn propose_beside(
        self,
        spec: impl FnOnce(&[Dataset]) -> Result<Spec, Vec<Violation>> + Send,
        message: &str,
    ) -> Result<(), Fault> {
        let request = DashboardRequest::from_context()?;
        let proposal = async {
            let (ctx, actor) = (request.ctx(), request.actor()?);
            let datasets = service::dataset::list(ctx, actor, self.consortium).await?;
            let spec = spec(&datasets).map_err(Problem::validation)?;
            let job = NewJob { title: self.title.clone(), spec };
            Ok(Box::pin(service::job::propose(ctx, actor, self.consortium, job)).await?)
        };
        match proposal.await {
            Ok(job) => {
                let to = |job: &Job| path::job(self.consortium, job.summary.id);
                reply::land(Answer::Ok(job), to, Some(message.to_owned()))
            }
            Err(problem) => self.redirect_back(problem),
        }
    }

    /// Saves the plan as a draft, without a request for approval; it replaces the draft from which it was opened, if
    /// any.
    ///
    /// # Errors
    /// The problem, to a program.
    pub(super) async fn save(
        self,
        spec: impl FnOnce(&[Dataset]) -> Result<Spec, Vec<Violation>> + Send,
    ) -> Result<(), Fault> {
        let request = DashboardRequest::from_context()?;
        let draft = async {
            let datasets = service::dataset::list(request.ctx(), request.actor()?, self.consortium).await?;
            new_draft(&self.title, &spec(&datasets).map_err(Problem::validation)?)
        };
        let new = match draft.await {
            Ok(new) => new,
            Err(problem) => return self.redirect_back(problem),
        };
        let ctx = request.ctx();
        let actor = request.actor()?;
        let (answer, message) = if let Some((id, version)) = self.draft {
            let expected = ExpectedVersion::Anything;
            let answer = service::job::draft_update(ctx, actor, id, &new, Some(version), &expected).await;
            (answer, "The draft was saved.")
        } else {
            let answer = service::job::draft_create(ctx, actor, self.consortium, &new).await;
            (answer, "The plan was saved as a draft.")
        };
        let consortium = self.consortium;
        let to = move |draft: &undertone_api::job::JobDraft| path::draft(consortium, draft.id);
        match answer {
            Err(error) if error.code() == Code::PreconditionFailed && self.return_address().is_none() => {
                let copy = service::job::draft_create(ctx, actor, consortium, &new).await;
                let message = "The draft was changed in the meantime. Your version was saved as a separate draft.";
                reply::land(copy, to, Some(message.to_owned()))
            }
            Err(error) => self.redirect_back(error.into_problem()),
            saved => reply::land(saved, to, Some(message.to_owned())),
        }
    }

    /// Returns the planner's address with all input; `None` if it would be too long.
    fn return_address(&self) -> Option<String> {
        let draft = self.draft.map(|(id, version)| format!("draft={id}&version={version}&")).unwrap_or_default();
        let address = format!("{}?{draft}{}", path::plan(self.consortium), self.plan);
        (address.len() <= LONGEST_ADDRESS).then_some(address)
    }

    /// Shows a problem above the planner with all input.
    fn redirect_back(&self, problem: Problem) -> Result<(), Fault> {
        match self.return_address() {
            Some(address) if reply::wants_html() => {
                leave(&PageMessage::Problem(problem));
                leptos_axum::redirect(&address);
                Ok(())
            }
            _ => reply::land(Err::<(), _>(problem), |()| String::new(), None),
        }
    }
}

/// Replaces a draft and proposes it. Checks the plan first, so that a refused draft is not written and the form still
/// names the present version.
async fn propose_draft(
    ctx: &Ctx,
    actor: &Actor,
    consortium: ConsortiumId,
    (draft, version): (DraftId, u64),
    job: NewJob,
) -> Answer<Job> {
    let plan = service::plan::plan(ctx, actor, &NewPlan { consortium, job: job.clone() }).await?;
    if !plan.violations.is_empty() {
        return Err(Problem::validation(plan.violations));
    }
    if !plan.refusals.is_empty() {
        let missing = plan.refusals.iter().any(|refusal| refusal.limit <= 0.0);
        let (code, detail) = if missing {
            (Code::BudgetMissing, "A dataset has no budget for this unit; its steward can set one.")
        } else {
            (Code::BudgetExceeded, "A budget does not admit the job.")
        };
        return Err(Problem { refusals: plan.refusals, ..Problem::new(code, detail) });
    }
    let new = new_draft(&job.title, &job.spec)?;
    service::job::draft_update(ctx, actor, draft, &new, Some(version), &ExpectedVersion::Anything).await?;
    Ok(service::job::draft_propose(ctx, actor, draft).await?)
}

fn new_draft(title: &str, spec: &Spec) -> Answer<NewDraft> {
    NewDraft::from_spec(title, spec).map_err(|error| Problem::new(Code::Internal, error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use undertone_api::id::{ConsortiumId, DraftId};
    use uuid::Uuid;

    use super::{LONGEST_ADDRESS, PlanSubmission};

    fn posted(title: &str) -> PlanSubmission {
        let consortium = ConsortiumId(Uuid::from_u128(1));
        let draft = DraftId(Uuid::from_u128(2));
        PlanSubmission::new(consortium, (Some(draft), Some(3)), title, "plan", &BTreeMap::from([("title", title)]))
    }

    #[test]
    fn return_address_has_input_and_version() {
        let address = posted("a b").return_address().expect("it is short");
        assert!(address.contains("&version=3&plan") && address.ends_with("a+b"), "{address}");
    }

    #[test]
    fn too_long_return_address_is_omitted() {
        let base = posted("").return_address().expect("it is short").len();
        assert!(posted(&"x".repeat(LONGEST_ADDRESS - base)).return_address().is_some());
        assert!(posted(&"x".repeat(LONGEST_ADDRESS - base + 1)).return_address().is_none());
    }
}
