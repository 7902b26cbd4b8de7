//! Counts sign-in attempts, for all replicas together; see [`Door`] for the counters and their limits.
//!
//! Unauthenticated callers make attempts, so this module never uses the single writer: a reader sees a closed counter,
//! and each count is one statement on its own row ([`Db::write_concurrent`](crate::db::Db::write_concurrent)). Counters are taken in the
//! same order everywhere, addresses first, so that two attempts never deadlock on each other's rows.
//!
//! To guard one more entry point: a variant of [`Door`], [`enter`] before the comparison, [`forgive`] in the
//! transaction of a successful attempt.

#[cfg(test)]
mod tests;

use sea_orm::sea_query::{CaseStatement, Expr, ExprTrait as _, OnConflict, Query};
use sea_orm::{ColumnTrait as _, ConnectionTrait as _, EntityTrait as _, QueryFilter as _};
use serde_json::json;
use time::OffsetDateTime;
use undertone_api::id::MemberId;
use undertone_api::problem::{Code, Problem};

use crate::auth::{DAY, Door, Place};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::metrics::Limit;
use crate::model::attempt;
use crate::service::audit_log::{self, AuditAction, AuditAuthor, NewAuditEntry};

/// Counts one attempt on each of the counters.
///
/// # Errors
/// `rate_limited`, with the seconds until it opens, when one of them is closed: then nothing is counted.
pub(super) async fn enter(ctx: &Ctx, doors: &[Door]) -> Result<(), Error> {
    for door in doors {
        let row = attempt::Entity::find_by_id(door.key()).one(ctx.db.read()).await?;
        if let Some(row) = row.filter(|row| row.count >= door.most() && row.ends_at > ctx.now()) {
            return Err(rate_limited(ctx, row.ends_at));
        }
    }
    ctx.db
        .write_concurrent("count an attempt", async |tx| {
            for door in doors {
                if count(ctx, tx, door).await?.is_none() {
                    let row = attempt::Entity::find_by_id(door.key()).one(tx).await?;
                    return Err(rate_limited(ctx, row.map_or_else(|| ctx.now() + door.window(), |row| row.ends_at)));
                }
            }
            Ok(())
        })
        .await
}

/// Takes back a successful attempt: a member's counter is deleted, a shared address is decremented.
pub(super) async fn forgive(tx: &Tx, doors: &[Door]) -> Result<(), Error> {
    for door in doors {
        if door.is_shared() {
            let less = Expr::col(attempt::Column::Count).sub(1);
            let update = attempt::Entity::update_many().col_expr(attempt::Column::Count, less);
            let this = update.filter(attempt::Column::KeyHash.eq(door.key()));
            this.filter(attempt::Column::Count.gt(0)).exec(tx).await?;
        } else {
            attempt::Entity::delete_by_id(door.key()).exec(tx).await?;
        }
    }
    Ok(())
}

/// Deletes counters of a member after another proof of identity.
pub(super) async fn reopen(tx: &Tx, doors: &[Door]) -> Result<(), Error> {
    let keys = doors.iter().map(Door::key);
    attempt::Entity::delete_many().filter(attempt::Column::KeyHash.is_in(keys)).exec(tx).await?;
    Ok(())
}

/// Returns the number of attempts on a counter in its present window, and the start of the window.
///
/// # Errors
/// When the database fails.
pub(super) async fn attempts(ctx: &Ctx, tx: &Tx, door: &Door) -> Result<(i32, OffsetDateTime), Error> {
    let row = attempt::Entity::find_by_id(door.key()).one(tx).await?.filter(|row| row.ends_at > ctx.now());
    Ok(row.map_or_else(|| (0, ctx.now()), |row| (row.count, row.began_at)))
}

/// Notes a failed attempt in the audit log, of a member or of an account that does not exist. Of each, it notes the
/// first, tenth, hundredth, ... failure of a window: entries are permanent, and unauthenticated callers decide the
/// number of attempts.
///
/// It runs concurrently with the response, so that the response time does not depend on the existence of the member.
pub(super) fn note_failure(ctx: &Ctx, member: Option<MemberId>, what: AuditAction) {
    let ctx = ctx.clone();
    let noting = async move {
        if let Err(error) = note(&ctx, member, what).await {
            // `into_problem` logs it, once.
            let _ = error.into_problem();
        }
    };
    // Uses the writer's turns of the caller, not those of the server.
    tokio::spawn(WorkOwner::current().scope(noting));
}

async fn note(ctx: &Ctx, member: Option<MemberId>, what: AuditAction) -> Result<(), Error> {
    let door = Door::Failures(member);
    let failures =
        ctx.db.write_concurrent("count a failure", async |tx| count(ctx, tx, &door).await).await?.unwrap_or_default();
    if !is_power_of_ten(failures) {
        return Ok(());
    }
    let subject = member.map(|member| ("member", member.to_string()));
    let detail = json!({ "failures": failures });
    audit_log::note(ctx, NewAuditEntry { by: AuditAuthor::Nobody, what, place: Place::Server, subject, detail }).await
}

/// Deletes expired windows.
///
/// # Errors
/// When the database fails.
pub(super) async fn forget_old(ctx: &Ctx) -> Result<(), Error> {
    let is_old = attempt::Column::EndsAt.lte(ctx.now());
    if attempt::Entity::find().filter(is_old.clone()).one(ctx.db.read()).await?.is_none() {
        return Ok(());
    }
    ctx.db
        .write_concurrent("forget attempts", async |tx| {
            attempt::Entity::delete_many().filter(is_old.clone()).exec(tx).await?;
            Ok(())
        })
        .await
}

/// Counts one attempt, and begins a window where there is none. Returns the number of attempts; `None` when the counter
/// is closed, and then nothing is counted.
async fn count(ctx: &Ctx, tx: &Tx, door: &Door) -> Result<Option<i32>, Error> {
    use attempt::Column::{BeganAt, Count, EndsAt, KeyHash};
    let now = ctx.now();
    let end = now + door.window();
    let began_column = || Expr::col((attempt::Entity, BeganAt));
    let ended = || Expr::col((attempt::Entity, EndsAt));
    let count_column = || Expr::col((attempt::Entity, Count));
    let is_over = || ended().lte(now);
    let next = CaseStatement::new().case(is_over(), 1).finally(count_column().add(1));
    let since = CaseStatement::new().case(is_over(), now).finally(began_column());
    let until = CaseStatement::new().case(is_over(), end).finally(ended());
    let upsert = OnConflict::column(KeyHash)
        .value(Count, next)
        .value(BeganAt, since)
        .value(EndsAt, until)
        .action_and_where(is_over().or(count_column().lt(door.most())))
        .to_owned();
    let insert = Query::insert()
        .into_table(attempt::Entity)
        .columns([KeyHash, BeganAt, EndsAt, Count])
        .values_panic([door.key().into(), now.into(), end.into(), 1.into()])
        .on_conflict(upsert)
        .returning_col(Count)
        .to_owned();
    let row = tx.query_one(&insert).await?;
    Ok(row.map(|row| row.try_get::<i32>("", "count")).transpose()?)
}

fn rate_limited(ctx: &Ctx, ends_at: OffsetDateTime) -> Error {
    ctx.metrics.reach(Limit::WrongAttempts);
    let seconds_left = (ends_at - ctx.now()).whole_seconds().clamp(1, DAY.whole_seconds()) as u32;
    let minutes = seconds_left.div_ceil(60);
    let detail = format!("too many wrong attempts; wait {minutes} minutes");
    Problem::new(Code::RateLimited, detail).with_retry_after(seconds_left).into()
}

const fn is_power_of_ten(mut number: i32) -> bool {
    while number >= 10 && number % 10 == 0 {
        number /= 10;
    }
    number == 1
}
