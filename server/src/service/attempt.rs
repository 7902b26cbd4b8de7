//! Counts attempts to get in, for all replicas alike: see [`Door`] for what is counted and how often it may be wrong.
//!
//! To guard one more way in: a variant of [`Door`], [`enter`] before anything is compared, [`forgive`] in the transaction
//! of what was right.

#[cfg(test)]
mod tests;

use sea_orm::{ActiveModelTrait as _, ColumnTrait as _, EntityTrait as _, IntoActiveModel as _, QueryFilter as _};
use undertone_api::problem::{Code, Problem};

use crate::auth::{Door, WINDOW};
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::service::entity::attempt;

/// Counts one attempt at each of the doors.
///
/// # Errors
/// `rate_limited`, with the seconds until it opens, when one of them is closed: then nothing is counted.
pub(super) async fn enter(ctx: &Ctx, doors: &[Door]) -> Result<(), Error> {
    ctx.db.write("count an attempt", async |tx| count(ctx, tx, doors).await).await
}

/// Takes an attempt back, because it was right: whoever it was starts anew, and an address is forgiven this one.
pub(super) async fn forgive(tx: &Tx, doors: &[Door]) -> Result<(), Error> {
    for door in doors {
        let Some(row) = attempt::Entity::find_by_id(door.key()).one(tx).await? else { continue };
        if matches!(door, Door::Address(_)) && row.count > 1 {
            let count = row.count - 1;
            attempt::Model { count, ..row }.into_active_model().reset_all().update(tx).await?;
        } else {
            attempt::Entity::delete_by_id(row.key_hash).exec(tx).await?;
        }
    }
    Ok(())
}

async fn count(ctx: &Ctx, tx: &Tx, doors: &[Door]) -> Result<(), Error> {
    let now = ctx.now();
    attempt::Entity::delete_many().filter(attempt::Column::BeganAt.lte(now - WINDOW)).exec(tx).await?;
    for door in doors {
        match attempt::Entity::find_by_id(door.key()).one(tx).await? {
            None => {
                let row = attempt::Model { key_hash: door.key(), began_at: now, count: 1 };
                row.into_active_model().insert(tx).await?;
            }
            Some(row) if row.count >= door.most() => {
                let left = (row.began_at + WINDOW - now).whole_seconds().clamp(1, WINDOW.whole_seconds()) as u32;
                let minutes = left.div_ceil(60);
                let detail = format!("too many wrong attempts; wait {minutes} minutes");
                return Err(Problem::new(Code::RateLimited, detail).after(left).into());
            }
            Some(row) => {
                let count = row.count + 1;
                attempt::Model { count, ..row }.into_active_model().reset_all().update(tx).await?;
            }
        }
    }
    Ok(())
}
