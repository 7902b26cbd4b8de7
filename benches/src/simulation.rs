//! Schedules of the simulated consortium per second, for five minutes, or for the seconds in the first argument.

use std::time::{Duration, Instant};

use serde_json::json;
use support::simulation::{EventCounts, ScheduleSettings, SimulationTemplate, play_all, runtime};
use support::stage::TestDatabase;

use crate::report::{Outcome, Report};

/// The duration of an ordinary run, seconds.
const SECONDS: u64 = 300;
/// The first seed; the tests run smaller ones.
const FIRST: u64 = 1_000_000;

pub(crate) fn run(report: &mut Report) -> Outcome {
    measure(report).map_err(|error| -> Box<dyn std::error::Error> { error })
}

fn measure(report: &mut Report) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let seconds = std::env::args().nth(2).map_or(Ok(SECONDS), |text| text.parse())?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let ground = runtime()?.block_on(SimulationTemplate::lay(TestDatabase::Sqlite))?;
    let began = Instant::now();
    let until = began + Duration::from_secs(seconds);
    let (mut first, mut wrong, mut count, mut steps, mut tally) = (FIRST, Vec::new(), 0, 0, EventCounts::default());
    while Instant::now() < until {
        let played = play_all(&ground, first..first + 500, threads, &ScheduleSettings::default(), Some(until))?;
        first += 500;
        count += played.len();
        steps += played.iter().map(|one| one.steps).sum::<u64>();
        tally = played.iter().fold(tally, |sum, one| sum.and(one.tally));
        wrong.extend(played.iter().filter(|one| one.wrong.is_some()).map(|one| one.seed));
        let line = json!({
            "schedules": count, "steps": steps, "failures": wrong.len(), "seeds_that_failed": wrong,
            "jobs": tally.jobs, "jobs_finished": tally.finished, "releases_paid": tally.releases,
            "releases_counted": tally.counted, "deaths": tally.deaths, "restores": tally.restores, "threads": threads,
            "seconds": began.elapsed().as_secs_f64(),
            "schedules_per_second": count as f64 / began.elapsed().as_secs_f64(),
        });
        report.line(line).map_err(|error| error.to_string())?;
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("seeds that failed: {wrong:?}").into()) }
}
