//! Watching a job: its progress whenever it changes, until it is over. Rights are asked again at every look, so that whoever loses
//! them, or whose key ends, sees no more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream;
use tonic::Status;
use undertone_api::id::{JobId, MemberId};
use undertone_api::job::Progress;
use undertone_api::problem::{Code, Problem};
use undertone_proto::{status_of, v1};

use super::message;
use crate::auth::Actor;
use crate::ctx::{Ctx, Waiter};
use crate::grpc::stream::Answer;
use crate::grpc::worker_gateway::fail;
use crate::service::{job, session};

/// Most jobs that one member watches at a time, at one replica.
pub(super) const MOST: usize = 16;
/// How often is looked again for what another replica has changed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How many jobs each member watches now.
#[derive(Clone, Default)]
pub(super) struct Watches(Arc<Mutex<HashMap<MemberId, usize>>>);

/// A place among a member's watches; free again when it is dropped.
struct Seat(Watches, MemberId);

impl Drop for Seat {
    fn drop(&mut self) {
        let mut all = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.1);
            }
        }
    }
}

/// A watch under way.
struct Watch {
    ctx: Ctx,
    token: String,
    job: JobId,
    waiter: Waiter,
    last: Option<Progress>,
    over: bool,
    _seat: Seat,
}

impl Watches {
    /// Begins to watch a job.
    pub(super) async fn begin(
        &self,
        ctx: &Ctx,
        actor: &Actor,
        token: String,
        id: JobId,
    ) -> Result<Answer<v1::Progress>, Status> {
        let waiter = ctx.wake().listen();
        // Whoever may not see it is told so at once.
        job::progress(ctx, actor, id).await.map_err(fail)?;
        let seat = self.seat(actor.id())?;
        let watch = Watch { ctx: ctx.clone(), token, job: id, waiter, last: None, over: false, _seat: seat };
        Ok(Box::pin(stream::unfold(watch, next)))
    }

    fn seat(&self, member: MemberId) -> Result<Seat, Status> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = all.entry(member).or_default();
        if *count >= MOST {
            let detail = format!("watch at most {MOST} jobs at a time");
            return Err(status_of(&Problem::new(Code::RateLimited, detail)));
        }
        *count += 1;
        Ok(Seat(self.clone(), member))
    }
}

/// The next message, once something has changed.
async fn next(mut watch: Watch) -> Option<(Result<v1::Progress, Status>, Watch)> {
    loop {
        if watch.over {
            return None;
        }
        let now = match look(&watch).await {
            Ok(now) => now,
            Err(status) => {
                watch.over = true;
                return Some((Err(status), watch));
            }
        };
        if watch.last.as_ref() != Some(&now) {
            watch.over = now.state.is_over();
            let message = message::progress(&now);
            watch.last = Some(now);
            return Some((Ok(message), watch));
        }
        tokio::select! {
            () = watch.waiter.wait(LOOK_AGAIN) => {}
            () = watch.ctx.shutdown.cancelled() => {
                watch.over = true;
                let problem = Problem::new(Code::Unavailable, "the server is stopping: watch again in a moment");
                return Some((Err(status_of(&problem)), watch));
            }
        }
    }
}

async fn look(watch: &Watch) -> Result<Progress, Status> {
    let actor = session::authenticate(&watch.ctx, &watch.token).await.map_err(fail)?;
    job::progress(&watch.ctx, &actor, watch.job).await.map_err(fail)
}
