//! The owners' answers to a proposed job: from a steward, given here, or from a site's policy, signed with the site's
//! key. Either approval is enough for the consortium (the site decides again for itself before it runs). Either refusal
//! refuses the job. All answers are stored.
//!
//! An answer belongs to one manifest, and a job has only one: a changed spec makes another job. If the budget or the
//! dataset changes while other owners still decide, `revocation` revokes the answer. Jobs within a steward's standing limit
//! (`limit`) are approved automatically. `review` builds the page for manual approval; `waiting` lists pending
//! approvals.

pub mod consent;
pub mod limit;
mod revocation;
#[cfg(test)]
mod tests;
mod total;

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use serde_json::json;
use undertone_api::id::{DatasetId, JobId, OrganizationId, WorkerId};
use undertone_api::job::{Job, JobState, JobStep, PartyTerms, RefuseRequest};
use undertone_api::problem::{Code, Violation};
use undertone_api::signed::{self, Consent, Signed, SignedApproval, SiteDecision};
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::{JsonColumn, to_json};
use crate::model::decision::DecisionSource;
use crate::model::participant::ApprovalState;
use crate::model::{decision, job, participant, worker};
use crate::rule::job::{load_job, load_readable_job};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::job::state;
use crate::service::react;
use crate::service::terms;
use crate::view::job as view;

pub use crate::view::approval::review::{review, review_terms, site_approvals};
pub use crate::view::approval::waiting::{WaitingApproval, waiting};
pub use limit::{limit_set, limit_withdraw, limits, limits_version};
pub(crate) use revocation::{refuse_outdated, revoke_answers};

/// The author of a site's answer, in words.
const SITE_POLICY: &str = "site policy";

/// Approves a job for one dataset, as a steward of the dataset's owner.
///
/// # Errors
/// 403 unless the caller is a steward there, `wrong_state` when the job no longer waits for answers, and as
/// [`approve_signed`] where the dataset's site verifies signatures.
pub async fn approve(ctx: &Ctx, actor: &Actor, job: JobId, dataset: DatasetId) -> Result<Job, Error> {
    approve_signed(ctx, actor, job, dataset, None, None).await
}

/// Approves as [`approve`], and only the manifest with the given digest, if there is one: the manifest that the steward
/// read. The signature goes to the dataset's site, which verifies it.
///
/// # Errors
/// As [`approve`], `precondition_failed` when the job has another manifest, `validation_failed` without a signature
/// that the site demands, `bad_signature` when the signature does not approve this manifest with a key that the site
/// pins.
pub async fn approve_signed(
    ctx: &Ctx,
    actor: &Actor,
    job: JobId,
    dataset: DatasetId,
    manifest: Option<&str>,
    signature: Option<&SignedApproval>,
) -> Result<Job, Error> {
    approve_with_terms(ctx, actor, job, dataset, manifest, signature, None).await
}

/// Approves as [`approve_signed`], with an answer to the terms that the proposal leaves to the dataset's owner; without
/// one each term keeps the proposal's value. Where the dataset's site verifies signatures, the signed answer counts.
///
/// # Errors
/// As [`approve_signed`]; `validation_failed` with every term outside its range, `wrong_state` when another answer of the
/// dataset is in force, `bad_signature` when `terms` differ from the signed ones.
pub async fn approve_with_terms(
    ctx: &Ctx,
    actor: &Actor,
    job: JobId,
    dataset: DatasetId,
    manifest: Option<&str>,
    signature: Option<&SignedApproval>,
    terms: Option<&PartyTerms>,
) -> Result<Job, Error> {
    signature.map(consent::check_size).transpose()?;
    let answer = StewardAnswer::Approve { manifest, signature, terms };
    self::answer(ctx, actor, job, dataset, answer).await
}

/// A steward's answer to a proposed job.
#[derive(Debug, Clone, Copy)]
enum StewardAnswer<'a> {
    /// It may run on the dataset, with these terms.
    Approve {
        /// The digest of the manifest that the steward read.
        manifest: Option<&'a str>,
        /// The steward's signature.
        signature: Option<&'a SignedApproval>,
        /// The answer to the open terms.
        terms: Option<&'a PartyTerms>,
    },
    /// It may not run, for this reason.
    Refuse(&'a str),
}

/// Refuses a job for one dataset, as a steward of the dataset's owner. The whole job is then refused.
///
/// # Errors
/// As [`approve`], and `validation_failed` without a reason.
pub async fn refuse(
    ctx: &Ctx,
    actor: &Actor,
    job: JobId,
    dataset: DatasetId,
    refuse: &RefuseRequest,
) -> Result<Job, Error> {
    let reason = refuse.reason.trim();
    if !(1..=1000).contains(&reason.chars().count()) {
        let violation = Violation::new("reason", "give a reason of 1 to 1,000 characters: the proposer reads it");
        return Err(Error::validation(vec![violation]));
    }
    answer(ctx, actor, job, dataset, StewardAnswer::Refuse(reason)).await
}

async fn answer(
    ctx: &Ctx,
    actor: &Actor,
    job: JobId,
    dataset: DatasetId,
    answer: StewardAnswer<'_>,
) -> Result<Job, Error> {
    load_readable_job(ctx, actor, job).await?;
    let (refusal, manifest, signature, terms) = match answer {
        StewardAnswer::Approve { manifest, signature, terms } => (None, manifest, signature, terms),
        StewardAnswer::Refuse(reason) => (Some(reason), None, None, None),
    };
    let part = part(ctx.db.read(), job, dataset).await?;
    policy::check(actor, Operation::DecideJob, Place::Organization(OrganizationId(part.organization_id)))?;
    let row = ctx
        .db
        .write("decide job", async |tx| {
            let part = self::part(tx, job, dataset).await?;
            let row = load_job(tx, job).await?;
            if row.state != JobState::Proposed {
                return Err(Error::wrong_state(format!("the job is {}", row.state.label())));
            }
            if part.approval == ApprovalState::NotNeeded {
                return Err(Error::wrong_state("the dataset is public: nobody has to agree"));
            }
            if manifest.is_some_and(|manifest| !manifest.eq_ignore_ascii_case(&row.digest)) {
                let detail = format!("the job's manifest is {}: read it, and decide about that one", row.digest);
                return Err(Error::problem(Code::PreconditionFailed, detail));
            }
            let steward_approved = refusal.is_none();
            let by = actor.member.name.as_str();
            let (part, consent) = if steward_approved {
                let site = consent::load_rule(tx, part.dataset_id).await?;
                let (consent, signed) = consent::steward_consent(site.as_ref(), signature, &row.digest, job, dataset)?;
                let terms = consent::agreed_terms(signed.as_ref(), terms)?;
                let part = terms::accept_answer(ctx, tx, &row, part, &terms, by).await?;
                (part, Some(JsonColumn::new(consent)?))
            } else {
                (part, None)
            };
            log(ctx, tx, &row, &part, actor.into(), refusal).await?;
            record(ctx, tx, &part, DecisionSource::Steward, by, refusal, signature.map(DecisionEvidence::Steward))
                .await?;
            let part = participant::Model { steward_approved, consent, ..part };
            Box::pin(apply(ctx, tx, actor.into(), row, part, by, refusal)).await
        })
        .await?;
    react::after_job_change(ctx, JobId(row.id)).await;
    view::view_job(ctx, actor, row).await
}

/// Accepts a site's signed answer. The same answer again changes nothing.
///
/// # Errors
/// `bad_signature` when the site's key did not sign it or it answers another manifest.
pub async fn decide(ctx: &Ctx, worker: WorkerId, signed: &Signed) -> Result<(), Error> {
    let job = ctx
        .db
        .write("site decides", async |tx| {
            let site = worker::Entity::find_by_id(worker.0).one(tx).await?.ok_or_else(|| Error::not_found("worker"))?;
            let key = signed::public_key(&site.public_key)
                .map_err(|error| Error::internal("reading a worker's key", error))?;
            let bad = |detail: String| Error::problem(Code::BadSignature, detail);
            let decision: SiteDecision = signed.open(&key).map_err(|error| bad(error.to_string()))?;
            let row = load_job(tx, decision.job).await?;
            let part = part(tx, decision.job, decision.dataset).await?;
            if part.worker_id != worker.0 {
                return Err(Error::not_found("job"));
            }
            if !row.is_named_by(&decision.manifest)? {
                return Err(bad("the decision answers another manifest".to_owned()));
            }
            // An approval may become a refusal, but not the reverse: a refused job is over.
            let is_recorded =
                if decision.approve { part.site_answered } else { part.approval == ApprovalState::Refused };
            if is_recorded || part.approval == ApprovalState::NotNeeded {
                return Ok(decision.job);
            }
            let mut refusal = (!decision.approve).then_some(decision.reason.as_str());
            let mut part = part;
            if decision.approve && row.state == JobState::Proposed {
                part = terms::accept_answer(ctx, tx, &row, part, &decision.terms, SITE_POLICY).await?;
            } else if decision.approve && !terms::agrees_with(&row, decision.dataset, &decision.terms)? {
                refusal = Some("the site answered with other terms than the final manifest has");
            }
            log(ctx, tx, &row, &part, AuditAuthor::Worker(worker), refusal).await?;
            record(ctx, tx, &part, DecisionSource::Site, SITE_POLICY, refusal, Some(DecisionEvidence::Site(signed)))
                .await?;
            let site = JsonColumn::new(Consent::Site)?;
            let consent = part.consent.clone().or_else(|| refusal.is_none().then_some(site));
            let part = participant::Model { site_answered: true, consent, ..part };
            Box::pin(apply(ctx, tx, AuditAuthor::Worker(worker), row, part, SITE_POLICY, refusal)).await?;
            Ok(decision.job)
        })
        .await?;
    react::after_job_change(ctx, job).await;
    Ok(())
}

async fn apply(
    ctx: &Ctx,
    tx: &Tx,
    hand: AuditAuthor,
    row: job::Model,
    mut part: participant::Model,
    by: &str,
    refusal: Option<&str>,
) -> Result<job::Model, Error> {
    let (now, owner) = (*row.state, part.organization_name.clone());
    if let Some(reason) = refusal {
        part.approval = ApprovalState::Refused.into();
        part.approval_by = Some(by.to_owned());
        part.approval_reason = Some(reason.to_owned());
    } else if part.approval == ApprovalState::Pending || part.steward_approved {
        part.approval = ApprovalState::Approved.into();
        // A person's name takes precedence over a policy's.
        if part.approval_by.is_none() || by != SITE_POLICY {
            part.approval_by = Some(by.to_owned());
        }
    }
    part.into_active_model().reset_all().update(tx).await?;
    match (refusal, now) {
        (None, JobState::Proposed) => Box::pin(state::admit(ctx, tx, hand, row)).await,
        (Some(reason), JobState::Proposed) => {
            state::step(ctx, tx, hand, row, JobStep::Refuse, Some(format!("{owner}, {by}: {reason}"))).await
        }
        // The site refuses after all others approved: it will not run, so the job cannot complete.
        (Some(reason), JobState::Queued | JobState::Running | JobState::Paused) => {
            state::step(ctx, tx, hand, row, JobStep::Fail, Some(format!("{owner}, {by}: {reason}"))).await
        }
        _ => Ok(row),
    }
}

/// Records an answer in the owner's audit log.
async fn log(
    ctx: &Ctx,
    tx: &Tx,
    row: &job::Model,
    part: &participant::Model,
    by: AuditAuthor,
    refusal: Option<&str>,
) -> Result<(), Error> {
    let act = NewAuditEntry {
        by,
        what: if refusal.is_none() { AuditAction::JobApproved } else { AuditAction::JobRefused },
        place: Place::Organization(OrganizationId(part.organization_id)),
        subject: Some(("job", row.id.to_string())),
        detail: json!({ "dataset": part.dataset_id, "manifest": row.digest, "reason": refusal }),
    };
    audit_log::record(ctx, tx, act).await
}

/// The evidence of an answer.
#[derive(Debug, Clone, Copy)]
enum DecisionEvidence<'a> {
    /// A site's signed decision.
    Site(&'a Signed),
    /// A steward's signed approval.
    Steward(&'a SignedApproval),
}

async fn record(
    ctx: &Ctx,
    tx: &Tx,
    part: &participant::Model,
    source: DecisionSource,
    by: &str,
    refusal: Option<&str>,
    evidence: Option<DecisionEvidence<'_>>,
) -> Result<(), Error> {
    let payload = match evidence {
        None => None,
        Some(DecisionEvidence::Site(signed)) => Some(signed.payload.clone()),
        Some(DecisionEvidence::Steward(approval)) => Some(to_json(approval)?),
    };
    let signature = match evidence {
        Some(DecisionEvidence::Site(signed)) => Some(signed.signature.clone()),
        Some(DecisionEvidence::Steward(_)) | None => None,
    };
    let row = decision::Model {
        id: ctx.id::<Uuid>(),
        job_id: part.job_id,
        dataset_id: part.dataset_id,
        source: source.into(),
        approve: refusal.is_none(),
        by: by.to_owned(),
        reason: refusal.unwrap_or_default().to_owned(),
        payload,
        signature,
        at: ctx.now(),
    };
    row.into_active_model().insert(tx).await?;
    Ok(())
}

async fn part(
    connection: &impl sea_orm::ConnectionTrait,
    job: JobId,
    dataset: DatasetId,
) -> Result<participant::Model, Error> {
    participant::Entity::find_by_id((job.0, dataset.0))
        .one(connection)
        .await?
        .ok_or_else(|| Error::not_found("dataset in this job"))
}
