//! New jobs from existing ones: a clone is a draft to be changed, a retry is the same job proposed again.

use undertone_api::id::{ConsortiumId, JobId};
use undertone_api::job::{Job, JobDraft, JobState, NewDraft, NewJob};

use super::draft;
use super::propose::{ProposalOrigin, submit};
use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::rule::job::load_readable_job;

/// Begins a draft with a job's title and spec, whatever the job's state. The job's approvals and charges are not
/// copied.
///
/// # Errors
/// 404 when the caller may not know the job, 403 unless they are a researcher there, `too_large` when there are too
/// many drafts.
pub async fn clone_spec(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<JobDraft, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    let consortium = ConsortiumId(row.consortium_id);
    policy::check(actor, Operation::WriteDraft, Place::Consortium(consortium))?;
    let spec = &*row.spec;
    let new = NewDraft::from_spec(&row.title, &spec).map_err(|error| Error::internal("cloning a job", error))?;
    draft::begin(ctx, actor, consortium, &new, Some(id)).await
}

/// Proposes a failed, cancelled or refused job again: the same spec under a new manifest. It needs new approvals and
/// new charges; the releases of the first job stay spent.
///
/// # Errors
/// 404 and 403 as usual, `wrong_state` for a job in any other state, and as [`propose`](super::propose()).
pub async fn retry(ctx: &Ctx, actor: &Actor, id: JobId) -> Result<Job, Error> {
    let row = load_readable_job(ctx, actor, id).await?;
    let consortium = ConsortiumId(row.consortium_id);
    policy::check(actor, Operation::ProposeJob, Place::Consortium(consortium))?;
    let now = *row.state;
    if !matches!(now, JobState::Failed | JobState::Cancelled | JobState::Refused) {
        return Err(Error::wrong_state(format!(
            "the job is {}: one that failed, was cancelled or refused is retried; any can be cloned",
            now.label()
        )));
    }
    let new = NewJob { title: row.title.clone(), spec: (*row.spec).clone() };
    submit(ctx, actor, consortium, new, ProposalOrigin::Job(id)).await
}
