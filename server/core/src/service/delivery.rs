//! Sends security notices by e-mail and to the webhook. Members cannot switch them off.
//!
//! A notice is queued in the transaction that makes it, so a restart loses none. Each attempt first claims its row and
//! sets the time of the next attempt, so that only one of several replicas sends it. A failed notice is sent again
//! after a minute, then after twice as long each time, at most six hours; after `MOST_ATTEMPTS` it is given up. The
//! dashboard shows it all the same.

#[cfg(test)]
mod tests;

use std::time::Duration as Pause;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, PaginatorTrait as _,
    QueryFilter as _, QueryOrder as _,
};
use time::Duration;
use undertone_api::notification::NotificationKind;
use uuid::Uuid;

use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum as _;
use crate::model::notice_delivery::NoticeChannel;
use crate::model::{member, notice_delivery};
use crate::outbound::{Channels, OutboundError, OutboundNotice};

/// The highest number of queued notices; the dashboard alone shows further ones.
pub const MOST_WAITING: u64 = 10_000;
/// The number of attempts after which a notice is given up: about 32 hours.
pub const MOST_ATTEMPTS: i32 = 14;
/// The time from the first attempt to the second. It is longer than an attempt takes.
const FIRST_PAUSE: Duration = Duration::minutes(1);
/// The longest time between two attempts.
const LONGEST_PAUSE: Duration = Duration::hours(6);
/// The interval between checks of the queue.
const EVERY: Pause = Pause::from_secs(5);
/// The number of notices sent between two checks for a shutdown.
const AT_A_TIME: usize = 20;

/// Queues a security notice for the configured channels. Other kinds are not sent.
///
/// # Errors
/// When the database fails.
pub(crate) async fn enqueue(
    ctx: &Ctx,
    tx: &Tx,
    recipient: Uuid,
    kind: NotificationKind,
    text: &str,
) -> Result<(), Error> {
    let configured = [
        (NoticeChannel::Mail, ctx.config.mail.server.is_some()),
        (NoticeChannel::Webhook, ctx.config.webhook.url.is_some()),
    ];
    let channels: Vec<NoticeChannel> =
        configured.into_iter().filter(|(_, is_on)| *is_on).map(|(channel, _)| channel).collect();
    if kind.can_be_switched_off() || channels.is_empty() {
        return Ok(());
    }
    if notice_delivery::Entity::find().count(tx).await? + channels.len() as u64 > MOST_WAITING {
        tracing::error!(
            most = MOST_WAITING,
            "security notices are not sent: too many wait for the mail server or webhook"
        );
        return Ok(());
    }
    for channel in channels {
        let row = notice_delivery::Model {
            id: ctx.id::<Uuid>(),
            member_id: recipient,
            channel: channel.into(),
            kind: kind.into(),
            text: text.to_owned(),
            at: ctx.now(),
            attempts: 0,
            due_at: ctx.now(),
        };
        row.into_active_model().insert(tx).await?;
    }
    Ok(())
}

/// Sends due notices, every 5 seconds, until the server stops.
pub async fn keep(ctx: Ctx) {
    let channels = match Channels::new(&ctx.config) {
        Ok(Channels { mail: None, webhook: None }) => return,
        Ok(channels) => channels,
        Err(error) => {
            tracing::error!(%error, "security notices cannot be sent");
            return;
        }
    };
    loop {
        if let Err(error) = deliver_due(&ctx, &channels).await {
            // `into_problem` logs it; the next round tries again.
            let _ = error.into_problem();
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

/// Sends due notices, at most 20. Returns the number of attempts.
///
/// # Errors
/// When the database fails.
pub(crate) async fn deliver_due(ctx: &Ctx, channels: &Channels) -> Result<usize, Error> {
    for attempt in 0..AT_A_TIME {
        if ctx.shutdown.is_cancelled() {
            return Ok(attempt);
        }
        let Some(row) = claim(ctx).await? else { return Ok(attempt) };
        let outcome = send(ctx, channels, &row).await?;
        settle(ctx, &row, outcome).await?;
    }
    Ok(AT_A_TIME)
}

/// Claims the notice that is due first, and sets the time of its next attempt.
async fn claim(ctx: &Ctx) -> Result<Option<notice_delivery::Model>, Error> {
    let due = || {
        notice_delivery::Entity::find()
            .filter(notice_delivery::Column::DueAt.lte(ctx.now()))
            .order_by_asc(notice_delivery::Column::DueAt)
    };
    // Most of the time nothing is due; this check avoids a transaction.
    if due().one(ctx.db.read()).await?.is_none() {
        return Ok(None);
    }
    ctx.db
        .write("claim notice", async |tx| {
            let Some(row) = due().one(tx).await? else { return Ok(None) };
            let due_at = ctx.now() + pause(row.attempts);
            let row = notice_delivery::Model { attempts: row.attempts + 1, due_at, ..row };
            Ok(Some(row.into_active_model().reset_all().update(tx).await?))
        })
        .await
}

/// Returns the time to the next attempt, after `attempts` before this one.
fn pause(attempts: i32) -> Duration {
    let factor = 1_i32.checked_shl(attempts.clamp(0, 16).unsigned_abs()).unwrap_or(i32::MAX);
    (FIRST_PAUSE * factor).min(LONGEST_PAUSE)
}

async fn send(
    ctx: &Ctx,
    channels: &Channels,
    row: &notice_delivery::Model,
) -> Result<Result<(), OutboundError>, Error> {
    let kind = *row.kind;
    let notice = OutboundNotice {
        id: row.id,
        member: row.member_id,
        kind: row.kind.to_text(),
        label: kind.label(),
        text: row.text.clone(),
        at: row.at,
    };
    let off = Err(OutboundError::Unusable("a channel that is switched off"));
    Ok(match *row.channel {
        NoticeChannel::Webhook => match &channels.webhook {
            Some(webhook) => webhook.send(&notice, ctx.now()).await,
            None => off,
        },
        NoticeChannel::Mail => {
            match (&channels.mail, member::Entity::find_by_id(row.member_id).one(ctx.db.read()).await?) {
                (Some(mail), Some(person)) => mail.send(&person.email, &ctx.addresses.http, &notice).await,
                _ => off,
            }
        }
    })
}

/// Deletes a notice that was delivered or given up.
async fn settle(ctx: &Ctx, row: &notice_delivery::Model, sent: Result<(), OutboundError>) -> Result<(), Error> {
    let id = row.id;
    let channel = row.channel.to_text();
    let channel = channel.as_str();
    let attempts = row.attempts;
    match sent {
        Ok(()) => tracing::debug!(notice.id = %id, notice.channel = channel, "a security notice was sent"),
        Err(error) if attempts < MOST_ATTEMPTS => {
            tracing::warn!(notice.id = %id, notice.channel = channel, attempts, %error, "a security notice was not sent; it is tried again");
            return Ok(());
        }
        Err(error) => {
            tracing::error!(notice.id = %id, notice.channel = channel, attempts, %error, "a security notice is given up");
        }
    }
    ctx.db
        .write("settle notice", async |tx| {
            notice_delivery::Entity::delete_by_id(id).exec(tx).await?;
            Ok(())
        })
        .await
}
