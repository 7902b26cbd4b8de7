//! Revocation of answers: a steward approved a job in view of a budget and a dataset, and one of them changed before
//! all owners answered. After a change of the budget, the steward must answer again. After a change of the dataset, the
//! manifest is wrong and the job is refused. Reserved jobs are not affected.

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use undertone_api::dataset::Dataset;
use undertone_api::id::{DatasetId, JobId, LineageId, OrganizationId};
use undertone_api::job::{Charge, JobState, JobStep};
use undertone_api::signed::Consent;

use super::{SITE_POLICY, record};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::{ColumnEnum as _, JsonColumn};
use crate::model::decision::DecisionSource;
use crate::model::participant::ApprovalState;
use crate::model::{job, participant};
use crate::rule::job::load_job;
use crate::service::audit_log::AuditAuthor;
use crate::service::job::state;
use crate::service::terms;

/// Revokes the answers of stewards and of their limits to proposed jobs about a lineage whose budget was changed. The
/// answers of the site's own policy stay: it does not consider the server's budget.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn revoke_answers(ctx: &Ctx, tx: &Tx, owner: OrganizationId, lineage: LineageId) -> Result<(), Error> {
    let of_line = participant::Entity::find()
        .filter(participant::Column::OrganizationId.eq(owner.0))
        .filter(participant::Column::LineageId.eq(lineage.0))
        .filter(participant::Column::StewardApproved.eq(true));
    for part in filter_proposed(tx, of_line.all(tx).await?).await? {
        let reason = "the dataset's budget was changed after the approval";
        record(ctx, tx, &part, DecisionSource::Void, "this server", Some(reason), None).await?;
        let part = if part.site_answered {
            part
        } else {
            let row = load_job(tx, JobId(part.job_id)).await?;
            terms::revoke_answer(tx, &row, part).await?
        };
        let (approval, by) = if part.site_answered {
            (ApprovalState::Approved, Some(SITE_POLICY.to_owned()))
        } else {
            (ApprovalState::Pending, None)
        };
        let part = participant::Model {
            approval: approval.into(),
            approval_by: by,
            approval_reason: Some(reason.to_owned()),
            steward_approved: false,
            consent: if part.site_answered { Some(JsonColumn::new(Consent::Site)?) } else { None },
            limit_id: None,
            ..part
        };
        part.into_active_model().reset_all().update(tx).await?;
    }
    Ok(())
}

/// Refuses proposed jobs whose manifest no longer describes a dataset correctly.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn refuse_outdated(ctx: &Ctx, tx: &Tx, dataset: &Dataset) -> Result<(), Error> {
    let of_dataset = participant::Entity::find().filter(participant::Column::DatasetId.eq(dataset.id.0));
    for part in filter_proposed(tx, of_dataset.all(tx).await?).await? {
        let row = load_job(tx, JobId(part.job_id)).await?;
        let manifest = row.manifest()?;
        let id = DatasetId(part.dataset_id);
        let Some(entry) = manifest.participants.iter().find(|party| party.dataset == id) else { continue };
        let same = entry.lineage == dataset.lineage
            && entry.worker == dataset.worker
            && entry.units == manifest.spec.units(dataset)
            && Charge::reconcile(manifest.spec.cost(dataset), entry.charge.as_ref()).is_some();
        if !same {
            let reason = format!("`{}` has changed since the job was proposed: propose it again", part.dataset_name);
            record(ctx, tx, &part, DecisionSource::Void, "this server", Some(&reason), None).await?;
            state::step(ctx, tx, AuditAuthor::System, row, JobStep::Refuse, Some(reason)).await?;
        }
    }
    Ok(())
}

/// Returns the participants whose job is still proposed.
async fn filter_proposed(
    connection: &impl ConnectionTrait,
    parts: Vec<participant::Model>,
) -> Result<Vec<participant::Model>, Error> {
    let waiting = job::Entity::find()
        .filter(job::Column::Id.is_in(parts.iter().map(|part| part.job_id)))
        .filter(job::Column::State.eq(JobState::Proposed.to_text()))
        .all(connection)
        .await?;
    let is_waiting = |part: &participant::Model| waiting.iter().any(|row| row.id == part.job_id);
    Ok(parts.into_iter().filter(is_waiting).collect())
}
