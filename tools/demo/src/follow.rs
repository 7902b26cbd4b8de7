//! Follows the job on the terminal: one line for every measured round, and one for each wait.

use std::time::{Duration, Instant};

use undertone_api::id::JobId;
use undertone_api::job::{Job, JobProgress, JobState, Measurement};
use undertone_server_core::ctx::{Ctx, JobChannels};
use undertone_server_core::service::job;

use crate::consortium::DemoConsortium;
use crate::{DemoError, explain_refusal};

/// The polling interval in the absence of notifications.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// The time without a figure after which the demo prints the reason of the wait.
const QUIET: Duration = Duration::from_secs(6);

/// Waits for the job to end; returns it if it has finished.
pub(super) async fn follow_job(
    ctx: &Ctx,
    consortium: &DemoConsortium,
    id: JobId,
    began: Instant,
) -> Result<Job, DemoError> {
    let actor = &consortium.people[0].actor;
    let tests = job::get(ctx, actor, id)
        .await
        .map_err(explain_refusal("looking at the job"))?
        .spec
        .allowed_measurements()
        .tests
        .len();
    let mut waiter = ctx.changes().subscribe_to_display();
    let mut count = 0;
    let mut shown_wait = String::new();
    let mut last = Instant::now();
    loop {
        let now = job::progress(ctx, actor, id).await.map_err(explain_refusal("looking at the job"))?;
        let say = |line: &str| println!("[{:>4} s] {line}", began.elapsed().as_secs());
        let lines = take_complete_rounds(&now, tests, &mut count);
        for line in &lines {
            say(line);
            last = Instant::now();
        }
        if lines.is_empty() && now.now != shown_wait && (shown_wait.is_empty() || last.elapsed() > QUIET) {
            say(&now.now);
            shown_wait.clone_from(&now.now);
        }
        if now.state.is_over() {
            let job = job::get(ctx, actor, id).await.map_err(explain_refusal("looking at the job"))?;
            return match now.state {
                JobState::Finished => Ok(job),
                other => Err(DemoError::Job(format!("is {}: {}", other.label(), job.reason.unwrap_or_default()))),
            };
        }
        waiter.wait(JobChannels::ALL, LOOK_AGAIN).await;
    }
}

/// Waits for the end of a job without figures; returns it if it has finished. `what` names the job in an error.
pub(super) async fn wait_for_end(
    ctx: &Ctx,
    consortium: &DemoConsortium,
    id: JobId,
    what: &str,
) -> Result<Job, DemoError> {
    let actor = &consortium.people[0].actor;
    let mut waiter = ctx.changes().subscribe_to_display();
    loop {
        let job = job::get(ctx, actor, id).await.map_err(explain_refusal("looking at a job"))?;
        let state = job.summary.state;
        if state == JobState::Finished {
            return Ok(job);
        }
        if state.is_over() {
            let reason = job.reason.unwrap_or_default();
            return Err(DemoError::Job(format!("of {what} is {}: {reason}", state.label())));
        }
        waiter.wait(JobChannels::ALL, LOOK_AGAIN).await;
    }
}

/// Returns a line for each complete round after the first `count` figures, and updates `count`. A round is complete if
/// all its figures are present or another round follows.
fn take_complete_rounds(now: &JobProgress, tests: usize, count: &mut usize) -> Vec<String> {
    let new = &now.measurements[(*count).min(now.measurements.len())..];
    let mut lines = Vec::new();
    for round in new.chunk_by(|a, b| (&a.series, a.round) == (&b.series, b.round)) {
        let has_successor = *count + round.len() < now.measurements.len();
        if round.len() < tests && !has_successor && !now.state.is_over() {
            break;
        }
        *count += round.len();
        lines.push(line(now, round));
    }
    lines
}

fn line(now: &JobProgress, figures: &[Measurement]) -> String {
    let Some(first) = figures.first() else { return String::new() };
    let place = now.series.iter().find(|series| series.series == first.series).map_or_else(
        || format!("epoch {:>3}", first.round),
        |series| format!("round {:>3} of {}", first.round, series.rounds),
    );
    let cells: Vec<String> = figures
        .iter()
        .map(|figure| format!("{} {:>5.2} % right, loss {:.3}", figure.test, 100.0 * figure.accuracy, figure.loss))
        .collect();
    format!("{:<8}{place:<16}{}", first.series, cells.join("   "))
}

#[cfg(test)]
mod tests {
    use undertone_api::job::{JobProgress, JobState, Measurement, SeriesProgress};

    use super::take_complete_rounds;

    fn figure(series: &str, round: u32, test: &str) -> Measurement {
        Measurement { series: series.to_owned(), round, test: test.to_owned(), frames: 8, accuracy: 0.5, loss: 1.0 }
    }

    #[test]
    fn complete_round_is_printed_once_with_all_tests() {
        let mut now = JobProgress {
            state: JobState::Running,
            now: String::new(),
            series: vec![SeriesProgress { series: "private".to_owned(), done: 1, rounds: 7 }],
            rounds: Vec::new(),
            measurements: vec![figure("public", 1, "near"), figure("public", 1, "far"), figure("private", 1, "near")],
            participants: Vec::new(),
        };
        let mut count = 0;
        let lines = take_complete_rounds(&now, 2, &mut count);
        assert_eq!((lines.len(), count), (1, 2), "the second round still lacks a test: {lines:?}");
        assert!(lines[0].contains("epoch   1") && lines[0].contains("near 50.00 %") && lines[0].contains("far"));
        now.measurements.push(figure("private", 1, "far"));
        let lines = take_complete_rounds(&now, 2, &mut count);
        assert!(lines.len() == 1 && lines[0].contains("round   1 of 7"), "{lines:?}");
        assert!(take_complete_rounds(&now, 2, &mut count).is_empty());
    }
}
