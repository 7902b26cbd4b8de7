//! The speed of accounting, natively and in a browser's engine, compared with Google's dp_accounting on the same
//! compositions in the same run; and the time of an admission as a ledger's history grows.

mod compositions;
mod history;
mod peer;
mod rounds;
mod selection;

use std::time::{Duration, Instant};

use crate::report::{Outcome, Report};

/// Measures the rounds that the ledger's filters admit, and the price of selections; needs neither a browser's engine nor a
/// peer.
pub(crate) fn run_ledger_rounds(report: &mut Report) -> Outcome {
    rounds::measure(report)?;
    selection::measure(report)
}

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let engine = runtime.block_on(support::engine::BrowserEngine::start())?;
    compositions::measure(report, &runtime, &engine)?;
    history::measure(report, &runtime, &engine)
}

/// The least duration and the least number of repetitions.
const LONG_ENOUGH: Duration = Duration::from_millis(300);
const TIMES: usize = 5;

/// Returns the result of `work`, and its median time in seconds; the first run, which fills tables and caches, does not
/// count.
fn time<T>(mut work: impl FnMut() -> T) -> (T, f64) {
    let mut value = work();
    let (mut times, started) = (Vec::new(), Instant::now());
    while times.len() < TIMES || started.elapsed() < LONG_ENOUGH {
        let start = Instant::now();
        value = std::hint::black_box(work());
        times.push(start.elapsed().as_secs_f64());
    }
    (value, median(times))
}

/// Measures work with side effects as [`time()`] does, with a few repetitions only.
fn time_few(mut work: impl FnMut()) -> f64 {
    work();
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    median((0..TIMES).map(once).collect())
}

/// Returns the median of some times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Describes the compilation of this program: both versions of the accounting are optimized, the browser's for size.
fn compiled() -> serde_json::Value {
    serde_json::json!({
        "native": if cfg!(debug_assertions) {
            "profile dev: undertone-privacy at opt-level 3, with overflow checks"
        } else {
            "profile release: opt-level 3"
        },
        "wasm": "profile bundle: opt-level z, as the dashboard is shipped",
    })
}
