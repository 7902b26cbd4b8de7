//! The freezes of lineages. Nothing new is reserved on a frozen lineage.

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use undertone_api::id::{LineageId, OrganizationId};
use undertone_api::problem::Code;
use uuid::Uuid;

use super::request::ChargeRequest;
use crate::auth::Place;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{freeze, job, participant};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::notification::{self, MemberNotice};

/// The author of a freeze in the table.
const AUDIT: &str = "audit";

/// Freezes a participant's lineage, unless it is frozen already.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn freeze_lineage(ctx: &Ctx, tx: &Tx, part: &participant::Model, reason: &str) -> Result<(), Error> {
    let last = load_last(tx, part.organization_id.into(), part.lineage_id.into()).await?;
    if last.as_ref().is_some_and(|row| row.frozen) {
        return Ok(());
    }
    let row = freeze::Model {
        organization_id: part.organization_id,
        lineage_id: part.lineage_id,
        number: last.map_or(1, |row| row.number + 1),
        dataset_id: part.dataset_id,
        job_id: part.job_id,
        frozen: true,
        reason: reason.to_owned(),
        by: AUDIT.to_owned(),
        at: ctx.now(),
    };
    let number = row.number;
    row.into_active_model().insert(tx).await?;
    if let Some(job) = job::Entity::find_by_id(part.job_id).one(tx).await? {
        let notice = MemberNotice::DatasetFrozen { consortium: job.consortium_id, part, number, reason };
        notification::tell(ctx, tx, notice).await?;
    }
    let act = NewAuditEntry {
        by: AuditAuthor::System,
        what: AuditAction::DatasetFrozen,
        place: Place::Organization(part.organization_id.into()),
        subject: Some(("dataset", part.dataset_id.to_string())),
        detail: json!({ "job": part.job_id, "reason": reason }),
    };
    audit_log::record(ctx, tx, act).await?;
    Ok(())
}

/// Checks that none of a job's lineages is frozen.
///
/// # Errors
/// `account_frozen` with the names of the frozen ones.
pub(crate) async fn refuse_frozen(connection: &impl ConnectionTrait, asks: &[ChargeRequest]) -> Result<(), Error> {
    let rows = freeze::Entity::find()
        .filter(freeze::Column::OrganizationId.is_in(asks.iter().map(|ask| ask.organization.0)))
        .filter(freeze::Column::LineageId.is_in(asks.iter().map(|ask| ask.lineage.0)))
        .order_by_asc(freeze::Column::Number)
        .all(connection)
        .await?;
    let frozen_lineages = find_frozen(rows);
    let mut frozen = Vec::new();
    for ask in asks {
        if let Some(row) = frozen_lineages.get(&(ask.organization.0, ask.lineage.0)) {
            frozen.push(format!("`{}` is frozen: {}", ask.dataset_name, row.reason));
        }
    }
    if frozen.is_empty() {
        return Ok(());
    }
    frozen.push("a steward of its owner clears it when it is mended, here and at the site".to_owned());
    Err(Error::problem(Code::AccountFrozen, frozen.join("; ")))
}

/// Returns the freezes in force, by lineage. `rows` are in the order of their numbers: the last of a lineage decides.
pub(crate) fn find_frozen(rows: Vec<freeze::Model>) -> HashMap<(Uuid, Uuid), freeze::Model> {
    let mut last: HashMap<_, _> = rows.into_iter().map(|row| ((row.organization_id, row.lineage_id), row)).collect();
    last.retain(|_, row| row.frozen);
    last
}

pub(crate) async fn load_last(
    connection: &impl ConnectionTrait,
    organization: OrganizationId,
    lineage: LineageId,
) -> Result<Option<freeze::Model>, Error> {
    Ok(load_rows(connection, organization, lineage).await?.into_iter().next())
}

pub(crate) async fn load_rows(
    connection: &impl ConnectionTrait,
    organization: OrganizationId,
    lineage: LineageId,
) -> Result<Vec<freeze::Model>, Error> {
    Ok(freeze::Entity::find()
        .filter(freeze::Column::OrganizationId.eq(organization.0))
        .filter(freeze::Column::LineageId.eq(lineage.0))
        .order_by_desc(freeze::Column::Number)
        .all(connection)
        .await?)
}
