//! Notifications of members: about required actions, and about events that concern them.
//!
//! An operation calls `tell` in its own transaction with a `Notice`; this module determines the recipients, by role. A
//! notice has a key, so that the same event is notified once, however many replicas notice it. A member sees only
//! notices about a consortium to which they still belong. Texts name jobs, datasets, workers and organizations, never
//! addresses of people or data.
//!
//! To add a notice: a kind in `undertone_api::notification`, a variant of `Notice` with its line in
//! `notification/notice.rs`, and the call.

mod access;
pub mod credential;
pub mod job;
mod notice;
mod silent;
#[cfg(test)]
mod tests;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, Condition, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _, QueryOrder as _, QuerySelect as _,
};
use undertone_api::id::NotificationId;
use undertone_api::notification::{Notification, NotificationKind, NotificationQuery, NotificationSwitches};
use undertone_api::page::{Page, PageQuery};
use undertone_api::problem::Violation;
use uuid::Uuid;

use crate::auth::{Actor, Operation, Place, policy};
use crate::ctx::Ctx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::{notification, notification_switch};

pub(crate) use access::AccessNotice;
pub(crate) use notice::{MemberNotice, tell};
pub use silent::look;

/// Returns the caller's notifications, newest first.
///
/// # Errors
/// `validation_failed` for an invalid cursor.
pub async fn list(ctx: &Ctx, actor: &Actor, query: &NotificationQuery) -> Result<Page<Notification>, Error> {
    policy::check(actor, Operation::ReadNotifications, Place::Server)?;
    let mut find = own(actor);
    if query.unread == Some(true) {
        find = find.filter(notification::Column::ReadAt.is_null());
    }
    if let Some(kind) = &query.kind {
        find = find.filter(notification::Column::Kind.eq(kind.to_text()));
    }
    if let Some(cursor) = &query.cursor {
        let wrong = |_| Error::validation(vec![Violation::new("cursor", "give the `next` of the page before")]);
        find = find.filter(notification::Column::Id.lt(Uuid::parse_str(cursor).map_err(wrong)?));
    }
    let size = u64::from(PageQuery { cursor: None, limit: query.limit }.size());
    let mut rows = find.order_by_desc(notification::Column::Id).limit(size + 1).all(ctx.db.read()).await?;
    let more = rows.len() as u64 > size;
    rows.truncate(size as usize);
    let next = rows.last().filter(|_| more).map(|row| row.id.to_string());
    Ok(Page { items: rows.into_iter().map(Into::into).collect(), next })
}

/// Returns the number of the caller's unread notifications.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn unread(ctx: &Ctx, actor: &Actor) -> Result<u64, Error> {
    policy::check(actor, Operation::ReadNotifications, Place::Server)?;
    Ok(own(actor).filter(notification::Column::ReadAt.is_null()).count(ctx.db.read()).await?)
}

/// Marks a notification as read. A repetition changes nothing.
///
/// # Errors
/// 404 when the caller has no notification with this id.
pub async fn read(ctx: &Ctx, actor: &Actor, id: NotificationId) -> Result<Notification, Error> {
    policy::check(actor, Operation::MarkNotifications, Place::Server)?;
    let row = ctx
        .db
        .write("read notification", async |tx| {
            let row = own(actor).filter(notification::Column::Id.eq(id.0)).one(tx).await?;
            let row = row.ok_or_else(|| Error::not_found("notification"))?;
            let row = notification::Model { read_at: row.read_at.or_else(|| Some(ctx.now())), ..row };
            Ok(row.into_active_model().reset_all().update(tx).await?)
        })
        .await?;
    Ok(row.into())
}

/// Marks all as read; returns the number of those that were unread.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn read_all(ctx: &Ctx, actor: &Actor) -> Result<u64, Error> {
    policy::check(actor, Operation::MarkNotifications, Place::Server)?;
    ctx.db
        .write("read all notifications", async |tx| {
            let marked = notification::Entity::update_many()
                .col_expr(notification::Column::ReadAt, sea_orm::sea_query::Expr::value(ctx.now()))
                .filter(visible_to(actor))
                .filter(notification::Column::ReadAt.is_null())
                .exec(tx)
                .await?;
            Ok(marked.rows_affected)
        })
        .await
}

/// Returns the caller's notification settings.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn switches(ctx: &Ctx, actor: &Actor) -> Result<NotificationSwitches, Error> {
    policy::check(actor, Operation::ReadNotifications, Place::Server)?;
    let rows = notification_switch::Entity::find()
        .filter(notification_switch::Column::MemberId.eq(actor.id().0))
        .order_by_asc(notification_switch::Column::Kind)
        .all(ctx.db.read())
        .await?;
    Ok(NotificationSwitches { off: rows.iter().map(|row| *row.kind).collect() })
}

/// Sets the caller's notification settings. Earlier notifications stay.
///
/// # Errors
/// Never for a signed-in member, unless the database fails.
pub async fn set_switches(
    ctx: &Ctx,
    actor: &Actor,
    switches: &NotificationSwitches,
) -> Result<NotificationSwitches, Error> {
    policy::check(actor, Operation::MarkNotifications, Place::Server)?;
    let mut off: Vec<NotificationKind> = Vec::new();
    for kind in &switches.off {
        if kind.can_be_switched_off() && !off.contains(kind) {
            off.push(*kind);
        }
    }
    ctx.db
        .write("set notification switches", async |tx| {
            notification_switch::Entity::delete_many()
                .filter(notification_switch::Column::MemberId.eq(actor.id().0))
                .exec(tx)
                .await?;
            for kind in &off {
                let row = notification_switch::Model { member_id: actor.id().0, kind: (*kind).into() };
                row.into_active_model().insert(tx).await?;
            }
            Ok(())
        })
        .await?;
    self::switches(ctx, actor).await
}

/// Selects the caller's own notifications that they may still know.
fn own(actor: &Actor) -> sea_orm::Select<notification::Entity> {
    notification::Entity::find().filter(visible_to(actor))
}

/// Selects the caller's own notifications, apart from those of consortia that the caller has left.
fn visible_to(actor: &Actor) -> Condition {
    let here = actor.consortia.keys().map(|consortium| consortium.0);
    let mut condition = Condition::any()
        .add(notification::Column::ConsortiumId.is_null())
        .add(notification::Column::ConsortiumId.is_in(here));
    if actor.member.operator {
        condition = Condition::all();
    }
    Condition::all().add(notification::Column::MemberId.eq(actor.id().0)).add(condition)
}
