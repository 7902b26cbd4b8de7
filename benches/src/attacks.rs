//! The attacks on the product's promises, run against the real worker and the real server. The integration tests run
//! the same attacks.

use std::time::Instant;

use serde_json::json;
use support::attack::GROUPS;

use crate::report::{Outcome, Report};

pub(crate) fn run(report: &mut Report) -> Outcome {
    let runtime = tokio::runtime::Runtime::new()?;
    let mut gained = Vec::new();
    for group in GROUPS {
        let started = Instant::now();
        let played = runtime.block_on(group.play()).map_err(|error| -> Box<dyn std::error::Error> { error })?;
        let seconds = started.elapsed().as_secs_f64();
        if played.is_empty() {
            return Err(format!("{}: a program that it needs is missing (`make setup`)", group.name).into());
        }
        for attacked in played {
            report.line(json!({
                "attack": attacked.attack,
                "gained": attacked.gained,
                "gained_before": attacked.gained_before,
                "what": attacked.what,
                "group": group.name,
                "seconds_of_group": seconds,
            }))?;
            if attacked.gained > 0 {
                gained.push(attacked.attack);
            }
        }
    }
    if gained.is_empty() { Ok(()) } else { Err(format!("gained something: {}", gained.join(", ")).into()) }
}
