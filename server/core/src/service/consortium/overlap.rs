//! The cross-organization rule: the declarations about people in several organizations, with author and time.
//!
//! A declaration is a claim that weakens the consortium's promise, so each is kept; the last is in force. It is read
//! when a certificate is made and never changes an earlier certificate. No budget depends on it: every organization's
//! account is independent.

use std::collections::HashMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
    QueryOrder as _,
};
use serde_json::json;
use undertone_api::consortium::{NewOverlap, OverlapRule};
use undertone_api::id::ConsortiumId;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::JsonColumn;
use crate::model::overlap;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};
use crate::service::version::ExpectedVersion;

/// Declares the rule from now on.
///
/// # Errors
/// 404 and 403 as usual; `validation_failed` when a claim has no grounds.
pub async fn attest(ctx: &Ctx, actor: &Actor, id: ConsortiumId, new: &NewOverlap) -> Result<OverlapRule, Error> {
    attest_if(ctx, actor, id, new, &ExpectedVersion::Anything).await
}

/// Declares the rule as [`attest`] does, if the earlier declarations have the version that the caller expects.
///
/// # Errors
/// As [`attest`]; `precondition_failed` when they have another version.
pub async fn attest_if(
    ctx: &Ctx,
    actor: &Actor,
    id: ConsortiumId,
    new: &NewOverlap,
    expected: &ExpectedVersion,
) -> Result<OverlapRule, Error> {
    policy::check(actor, Operation::AttestOverlap, Place::Consortium(id))?;
    let violations = new.check();
    if !violations.is_empty() {
        return Err(Error::validation(violations));
    }
    let row = ctx
        .db
        .write("attest overlap", async |tx| {
            let mut declared = rows(tx, [id.0]).await?;
            let last = declared.last().map_or(0, |row| row.sequence);
            expected.check(&declared.drain(..).rev().map(OverlapRule::from).collect::<Vec<_>>())?;
            let row = overlap::Model {
                consortium_id: id.0,
                sequence: last + 1,
                overlap: JsonColumn::new(new.overlap)?,
                statement: new.statement.trim().to_owned(),
                member_id: actor.id().0,
                attested_by: actor.member.name.clone(),
                attested_at: ctx.now(),
            };
            let act = NewAuditEntry {
                by: AuditAuthor::from(actor),
                what: AuditAction::OverlapAttested,
                place: Place::Consortium(id),
                subject: Some(("overlap", row.sequence.to_string())),
                detail: json!({ "overlap": new.overlap }),
            };
            audit_log::record(ctx, tx, act).await?;
            Ok(row.into_active_model().insert(tx).await?)
        })
        .await?;
    tracing::info!(consortium.id = %id, overlap = row.overlap.text(), "a cross-organization rule was declared");
    Ok(row.into())
}

/// Returns every declaration of a consortium, the last first; none while the default applies.
///
/// # Errors
/// 404 when the caller may not know the consortium.
pub async fn history(ctx: &Ctx, actor: &Actor, id: ConsortiumId) -> Result<Vec<OverlapRule>, Error> {
    policy::check(actor, Operation::ReadConsortium, Place::Consortium(id))?;
    Ok(rows(ctx.db.read(), [id.0]).await?.into_iter().rev().map(Into::into).collect())
}

/// Returns the rules in force, by consortium, without consortia under the default.
///
/// # Errors
/// When the database fails, or a stored value cannot be read.
pub(crate) async fn in_force(
    connection: &impl ConnectionTrait,
    consortia: impl IntoIterator<Item = Uuid>,
) -> Result<HashMap<Uuid, OverlapRule>, Error> {
    // The last row of each wins, because they come in order.
    Ok(rows(connection, consortia).await?.into_iter().map(|row| (row.consortium_id, row.into())).collect())
}

/// Returns the rows of consortia, in order within each.
async fn rows(
    connection: &impl ConnectionTrait,
    consortia: impl IntoIterator<Item = Uuid>,
) -> Result<Vec<overlap::Model>, Error> {
    Ok(overlap::Entity::find()
        .filter(overlap::Column::ConsortiumId.is_in(consortia))
        .order_by_asc(overlap::Column::Sequence)
        .all(connection)
        .await?)
}
