//! Watching a job: streams its progress at each change, until the job ends. Permissions are checked at every query, so
//! that a caller who loses them, or whose key ends, receives nothing more.

use std::net::IpAddr;
use std::time::Duration;

use futures::stream;
use tonic::Status;
use undertone_api::id::JobId;
use undertone_api::job::JobProgress;
use undertone_api::problem::{Code, Problem};
use undertone_proto::{to_status, v1};

use super::message;
use crate::grpc::convert::fail;
use crate::grpc::stream::Answer;
use undertone_server_core::auth::Actor;
use undertone_server_core::ctx::{ChangeSubscription, Ctx, StreamPermit};
use undertone_server_core::service::{event, job, session};

/// The polling interval for changes by other replicas.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The least time between two queries, whatever the rate of changes.
const LEAST: Duration = Duration::from_millis(500);

/// A running watch.
struct JobWatch {
    ctx: Ctx,
    token: String,
    job: JobId,
    waiter: ChangeSubscription,
    last: Option<JobProgress>,
    over: bool,
    _seat: StreamPermit,
}

/// Begins to watch a job.
pub(super) async fn begin(
    ctx: &Ctx,
    actor: &Actor,
    from: IpAddr,
    token: String,
    id: JobId,
) -> Result<Answer<v1::Progress>, Status> {
    let waiter = ctx.changes().subscribe_to_job_display(id);
    // A caller without permission is refused at once.
    job::progress(ctx, actor, id).await.map_err(fail)?;
    let seat = event::take_seat(ctx, actor, from).map_err(fail)?;
    let watch = JobWatch { ctx: ctx.clone(), token, job: id, waiter, last: None, over: false, _seat: seat };
    Ok(Box::pin(stream::unfold(watch, next)))
}

/// Returns the next message after a change.
async fn next(mut watch: JobWatch) -> Option<(Result<v1::Progress, Status>, JobWatch)> {
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
        let pause = async {
            tokio::time::sleep(LEAST).await;
            watch.waiter.wait(LOOK_AGAIN.saturating_sub(LEAST)).await;
        };
        tokio::select! {
            () = pause => {}
            () = watch.ctx.shutdown.cancelled() => {
                watch.over = true;
                let problem = Problem::new(Code::Unavailable, "the server is stopping: watch again in a moment");
                return Some((Err(to_status(&problem)), watch));
            }
        }
    }
}

async fn look(watch: &JobWatch) -> Result<JobProgress, Status> {
    let actor = session::authenticate(&watch.ctx, &watch.token).await.map_err(fail)?;
    job::progress(&watch.ctx, &actor, watch.job).await.map_err(fail)
}
