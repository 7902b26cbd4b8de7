//! Following the job on the terminal: a line whenever something has happened.

use std::time::{Duration, Instant};

use undertone_api::id::JobId;
use undertone_api::job::{Job, State};

use super::found::Consortium;
use super::{DemoError, rule};
use crate::ctx::Ctx;
use crate::service::job;

/// How often is looked when nothing rings.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Waits for the job to end; gives it when it has finished.
pub(super) async fn to_the_end(
    ctx: &Ctx,
    consortium: &Consortium,
    id: JobId,
    began: Instant,
) -> Result<Job, DemoError> {
    let actor = &consortium.people[0].actor;
    let mut waiter = ctx.wake().listen();
    let (mut rounds, mut measured, mut said) = (0, 0, String::new());
    loop {
        let now = job::progress(ctx, actor, id).await.map_err(rule("looking at the job"))?;
        let say = |line: String| println!("[{:>4} s] {line}", began.elapsed().as_secs());
        for figure in now.measurements.iter().skip(measured) {
            say(format!(
                "{} after round {}, {}: {:.1} % right, loss {:.3}",
                figure.series,
                figure.round,
                figure.test,
                100.0 * figure.accuracy,
                figure.loss
            ));
        }
        measured = measured.max(now.measurements.len());
        let done: u32 = now.series.iter().map(|series| series.done).sum();
        if done > rounds || (done == 0 && now.now != said) {
            let all: u32 = now.series.iter().map(|series| series.rounds).sum();
            say(format!("{done} of {all} rounds; {}", now.now));
            rounds = done;
            said.clone_from(&now.now);
        }
        if now.state.is_over() {
            let job = job::get(ctx, actor, id).await.map_err(rule("looking at the job"))?;
            return match now.state {
                State::Finished => Ok(job),
                other => Err(DemoError::Job(format!("is {}: {}", other.label(), job.reason.unwrap_or_default()))),
            };
        }
        waiter.wait(LOOK_AGAIN).await;
    }
}
