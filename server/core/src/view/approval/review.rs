//! The basis of an owner's decision: the manifest byte for byte, its cost now, and the disclosures to each recipient.

use undertone_api::id::{ConsortiumId, DatasetId, JobId};
use undertone_api::job::{Disclosure, DisclosureForm, JobReview, JobState, PartyTerms, Spec, disclosures};
use undertone_api::signed::{Signed, SiteApproval};

use crate::auth::Actor;
use crate::ctx::Ctx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::rule::job::load_readable_job;
use crate::service::approval::consent;
use crate::service::{dataset, plan};

/// Returns the approval rules and keys of the sites of a job's datasets, without those that their workers do not state.
///
/// # Errors
/// 404 when the caller may not know the job.
pub async fn site_approvals(ctx: &Ctx, actor: &Actor, job: JobId) -> Result<Vec<(DatasetId, SiteApproval)>, Error> {
    let row = load_readable_job(ctx, actor, job).await?;
    let manifest = row.manifest()?;
    let datasets: Vec<DatasetId> = manifest.participants.iter().map(|party| party.dataset).collect();
    consent::load_rules(ctx.db.read(), &datasets).await
}

/// Returns the use of a dataset by a job. Every reader of the job may read it: it contains nothing beyond the manifest.
///
/// # Errors
/// 404 when the caller may not know the job, or the dataset is not in it.
pub async fn review(ctx: &Ctx, actor: &Actor, job: JobId, dataset: DatasetId) -> Result<JobReview, Error> {
    review_terms(ctx, actor, job, dataset, &PartyTerms::default()).await
}

/// Returns the same under an answer to the terms that the proposal leaves to the dataset's owner: the cost of the answer,
/// before it is given.
///
/// # Errors
/// As [`review`], and `validation_failed` with every term outside its range.
pub async fn review_terms(
    ctx: &Ctx,
    actor: &Actor,
    job: JobId,
    dataset: DatasetId,
    terms: &PartyTerms,
) -> Result<JobReview, Error> {
    let row = load_readable_job(ctx, actor, job).await?;
    let mut manifest = row.manifest()?;
    let violations = manifest.spec.check_terms(dataset, terms);
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    manifest.spec = manifest.spec.with_terms(dataset, terms);
    let absent = || Error::not_found("dataset in this job");
    let entry = manifest.participants.iter().find(|party| party.dataset == dataset).ok_or_else(absent)?;
    let datasets = dataset::in_consortium(ctx.db.read(), ConsortiumId(row.consortium_id)).await?;
    let own = datasets.iter().find(|row| row.id == dataset).ok_or_else(absent)?;
    let (state, spec): (JobState, &Spec) = (*row.state, &manifest.spec);
    let cost = match &entry.charge {
        // In later states the cost is reserved and already subtracted from the remaining budget.
        Some(_) if state == JobState::Proposed => {
            plan::party(ctx, WorkOwner::from(actor), spec, &datasets, own).await?
        }
        _ => None,
    };
    let epsilon = cost.as_ref().and_then(|cost| cost.epsilon);
    let priced = |disclosure: Disclosure| {
        let covered = matches!(disclosure.form, DisclosureForm::Protected | DisclosureForm::Derived);
        Disclosure { epsilon: epsilon.filter(|_| covered), ..disclosure }
    };
    let learned = disclosures(spec, own, &datasets).into_iter().map(priced).collect();
    let not_after = manifest.limits.as_ref().map(|limits| limits.not_after);
    Ok(JobReview {
        job,
        dataset,
        state,
        digest: row.digest,
        server_key: hex::encode(ctx.signer.verifying_key().to_bytes()),
        answer_by: row.answer_by.filter(|_| state == JobState::Proposed),
        not_after,
        terms: if manifest.awaits_terms() { spec.open_terms(dataset) } else { Vec::new() },
        cost,
        learned,
        approval: consent::load_rule(ctx.db.read(), dataset.0).await?,
        manifest: Signed { payload: row.manifest, signature: row.signature },
    })
}
