//! A member's sessions: the list, and the end of one or of all others. [`session`](super::session) begins and renews
//! sessions.

#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _, QueryOrder as _,
    Select,
};
use serde_json::json;
use undertone_api::account::OpenSession;
use undertone_api::id::{MemberId, SessionId};

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::{half_session, session};
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};

/// The highest number of sessions of a member: a further one ends the longest unused.
pub(crate) const MOST: usize = 100;

/// Returns the caller's sessions, the last used first.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn list(ctx: &Ctx, actor: &Actor) -> Result<Vec<OpenSession>, Error> {
    policy::check(actor, Operation::EndSession, Place::Server)?;
    let rows = open(ctx, actor.id())
        .order_by_desc(session::Column::RotatedAt)
        .order_by_desc(session::Column::Id)
        .all(ctx.db.read())
        .await?;
    let to_open_session = |row: session::Model| OpenSession {
        id: row.id.into(),
        current: actor.session() == Some(row.id.into()),
        agent: row.agent,
        address: row.network,
        created_at: row.created_at,
        used_at: row.rotated_at,
        expires_at: row.expires_at,
    };
    Ok(rows.into_iter().map(to_open_session).collect())
}

/// Ends a session of the caller with immediate effect, possibly the present one.
///
/// # Errors
/// 404 for a session that is over or belongs to another member.
pub async fn end(ctx: &Ctx, actor: &Actor, id: SessionId) -> Result<(), Error> {
    policy::check(actor, Operation::EndSession, Place::Server)?;
    ctx.db
        .write("end session", async |tx| {
            let row = open(ctx, actor.id()).filter(session::Column::Id.eq(id.0)).one(tx).await?;
            let row = row.ok_or_else(|| Error::not_found("session"))?;
            session::Model { ended_at: Some(ctx.now()), ..row }.into_active_model().reset_all().update(tx).await?;
            let subject = Some(("session", id.to_string()));
            let (by, what, place) = (AuditAuthor::from(actor), AuditAction::SessionEnded, Place::Server);
            audit_log::record(ctx, tx, NewAuditEntry { by, what, place, subject, detail: json!({}) }).await
        })
        .await?;
    ctx.changes().notify_standings();
    Ok(())
}

/// Ends every session of the caller but the present one; returns their number.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn end_others(ctx: &Ctx, actor: &Actor) -> Result<u64, Error> {
    policy::check(actor, Operation::EndSession, Place::Server)?;
    let ended = ctx
        .db
        .write("end other sessions", async |tx| {
            let ended = end_all(ctx, tx, actor.id(), actor.session()).await?;
            let subject = Some(("member", actor.id().to_string()));
            let (by, what, place) = (AuditAuthor::from(actor), AuditAction::SessionsEnded, Place::Server);
            let detail = json!({ "sessions_ended": ended });
            audit_log::record(ctx, tx, NewAuditEntry { by, what, place, subject, detail }).await?;
            Ok(ended)
        })
        .await?;
    ctx.changes().notify_standings();
    Ok(ended)
}

/// Ends every session of a member except `keep`, and every sign-in in progress; returns the number of sessions.
pub(super) async fn end_all(ctx: &Ctx, tx: &Tx, member: MemberId, keep: Option<SessionId>) -> Result<u64, Error> {
    half_session::Entity::delete_many().filter(half_session::Column::MemberId.eq(member.0)).exec(tx).await?;
    let mut ended = 0;
    for row in open(ctx, member).all(tx).await? {
        if Some(SessionId(row.id)) != keep {
            session::Model { ended_at: Some(ctx.now()), ..row }.into_active_model().reset_all().update(tx).await?;
            ended += 1;
        }
    }
    Ok(ended)
}

/// Ends the longest unused sessions of a member so that one more is within the limit.
pub(super) async fn make_room(ctx: &Ctx, tx: &Tx, member: MemberId) -> Result<(), Error> {
    let rows = open(ctx, member).order_by_desc(session::Column::RotatedAt).all(tx).await?;
    for row in rows.into_iter().skip(MOST - 1) {
        session::Model { ended_at: Some(ctx.now()), ..row }.into_active_model().reset_all().update(tx).await?;
    }
    Ok(())
}

/// Selects a member's open sessions.
fn open(ctx: &Ctx, member: MemberId) -> Select<session::Entity> {
    session::Entity::find()
        .filter(session::Column::MemberId.eq(member.0))
        .filter(session::Column::EndedAt.is_null())
        .filter(session::Column::ExpiresAt.gt(ctx.now()))
}
