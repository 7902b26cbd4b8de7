//! The speed of accounting, natively and in a browser's engine, beside Google's dp_accounting on the same compositions in
//! the same run; and how long an admission takes as a ledger's history grows.

mod compositions;
mod history;
mod peer;

use std::time::{Duration, Instant};

use crate::report::{Outcome, Report};

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let engine = runtime.block_on(support::engine::Engine::start())?;
    compositions::measure(report, &runtime, &engine)?;
    history::measure(report, &runtime, &engine)
}

/// How long is repeated at least, and how often.
const LONG_ENOUGH: Duration = Duration::from_millis(300);
const TIMES: usize = 5;

/// What `work` gives, and the median seconds that it takes; the first time, which fills tables and caches, does not count.
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

/// As [`time()`], for work that leaves a trace: a few times only.
fn time_few(mut work: impl FnMut()) -> f64 {
    work();
    let once = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    median((0..TIMES).map(once).collect())
}

/// The median of some times.
fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// How this program was compiled: both ways of accounting are optimized, the browser's for size.
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
