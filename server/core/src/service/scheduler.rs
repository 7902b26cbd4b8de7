//! The scheduler of periodic tasks. Every replica runs it, and each finds the work that another has done already.
//!
//! To add a task: a function that checks for due work and does it, safe to run at several replicas at once, and a line
//! in `round`.

use std::time::Duration;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::finish;
use crate::service::job;
use crate::service::model::storage;
use crate::service::{attempt, audit_log, factor, notification};

/// The interval of the tasks.
const EVERY: Duration = Duration::from_secs(15);

/// Runs all tasks every 15 seconds, until the server stops.
pub async fn keep(ctx: Ctx) {
    loop {
        if let Err(error) = round(&ctx).await {
            // `into_problem` logs it; the next round tries again.
            let _ = error.into_problem();
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = ctx.shutdown.cancelled() => return,
        }
    }
}

async fn round(ctx: &Ctx) -> Result<(), Error> {
    ctx.keys.reload(ctx.now());
    ctx.signer.reload(ctx.now());
    factor::reseal(ctx).await?;
    finish::finish_silent(ctx).await?;
    job::lapse(ctx).await?;
    storage::expire_unfinished(ctx).await?;
    attempt::forget_old(ctx).await?;
    audit_log::seal(ctx).await?;
    notification::look(ctx).await
}
