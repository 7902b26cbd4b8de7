//! Rounds of one job that a ledger admits, by each filter, and those of a closed plan.

use serde_json::json;
use undertone_bits::work::{DELTA, ledger_rounds};

use crate::report::{Outcome, Report};

pub(super) fn measure(report: &mut Report) -> Outcome {
    for rounds in ledger_rounds() {
        report.line(json!({
            "measurement": "ledger_rounds", "delta": DELTA,
            "sampling_rate": rounds.sampling_rate, "noise_multiplier": rounds.noise_multiplier, "epsilon": rounds.epsilon,
            "rounds_renyi": rounds.renyi, "rounds_admitted": rounds.admitted, "rounds_tight": rounds.tight,
        }))?;
    }
    Ok(())
}
