//! Challenges: what a worker must sign to prove its key. One waits for each worker, for a minute and one answer, at every replica of
//! the server and through a restart.

use sea_orm::{ActiveModelTrait as _, EntityTrait as _, IntoActiveModel as _};
use time::Duration;
use undertone_api::id::WorkerId;
use undertone_api::problem::Code;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::entity::{challenge, worker};

/// How long a challenge may wait for its answer.
pub(crate) const PATIENCE: Duration = Duration::minutes(1);

/// Asks a worker something new. Whoever is no worker of ours is asked as well, and nothing waits for their answer.
///
/// # Errors
/// When the database does not answer.
pub async fn ask(ctx: &Ctx, worker: WorkerId) -> Result<String, Error> {
    let asked = ctx.random.secret();
    if worker::Entity::find_by_id(worker.0).one(ctx.db.read()).await?.is_none() {
        return Ok(asked);
    }
    let row = challenge::Model { worker_id: worker.0, challenge: asked.clone(), asked_at: ctx.now() };
    ctx.db
        .write("ask worker", async |tx| {
            challenge::Entity::delete_by_id(worker.0).exec(tx).await?;
            Ok(row.clone().into_active_model().insert(tx).await?)
        })
        .await?;
    Ok(asked)
}

/// What a worker was asked, once.
///
/// # Errors
/// `unauthenticated` when nothing was asked, or too long ago.
pub async fn take(ctx: &Ctx, worker: WorkerId) -> Result<String, Error> {
    let none = || Error::problem(Code::Unauthenticated, "ask for a challenge first, and answer it within a minute");
    if challenge::Entity::find_by_id(worker.0).one(ctx.db.read()).await?.is_none() {
        return Err(none());
    }
    let asked = ctx
        .db
        .write("take challenge", async |tx| {
            let asked = challenge::Entity::find_by_id(worker.0).one(tx).await?;
            challenge::Entity::delete_by_id(worker.0).exec(tx).await?;
            Ok(asked)
        })
        .await?;
    asked.filter(|row| ctx.now() - row.asked_at < PATIENCE).map(|row| row.challenge).ok_or_else(none)
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use undertone_api::problem::Code;

    use super::{ask, take};
    use crate::service::world::World;
    use crate::testing::on_both;

    on_both! {
        async fn a_challenge_is_taken_once_within_a_minute_at_any_replica(app: &TestApp) {
            let world = World::new(&app.ctx, 1, 8.0).await;
            let worker = world.sites[1].worker;
            let other = app.restarted().await.ctx;
            let asked = ask(&app.ctx, worker).await.expect("asked");
            assert_eq!(take(&other, worker).await.expect("known there too"), asked);
            assert_eq!(take(&app.ctx, worker).await.expect_err("taken").code(), Code::Unauthenticated);
            ask(&other, worker).await.expect("asked");
            let newer = ask(&app.ctx, worker).await.expect("asked");
            assert_eq!(take(&other, worker).await.expect("the last one asked"), newer);
            ask(&app.ctx, worker).await.expect("asked");
            app.clock.advance(Duration::seconds(61));
            assert_eq!(take(&app.ctx, worker).await.expect_err("too late").code(), Code::Unauthenticated);
            let stranger = app.ctx.id();
            ask(&app.ctx, stranger).await.expect("nobody is told who works here");
            assert_eq!(take(&app.ctx, stranger).await.expect_err("no worker").code(), Code::Unauthenticated);
        }
    }
}
