//! What is done by the time and not by a request: every replica does it, and each finds what another has done already.
//!
//! To add a duty: a function that looks and does what is due, safe to run at several replicas at once, and a line in `round`.

use std::time::Duration;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::service::job::{self, state};
use crate::service::model::storage;
use crate::service::{attempt, audit_log, factor, notification};

/// How often duties are done.
const EVERY: Duration = Duration::from_secs(15);

/// Does all duties every 15 seconds, until the server stops.
pub async fn keep(ctx: Ctx) {
    loop {
        if let Err(error) = round(&ctx).await {
            // The log has it now; the next round tries again.
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
    state::finish_silent(ctx).await?;
    job::lapse(ctx).await?;
    storage::expire_unfinished(ctx).await?;
    attempt::forget_old(ctx).await?;
    audit_log::seal(ctx).await?;
    notification::look(ctx).await
}
