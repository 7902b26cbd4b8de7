//! A private step beside a plain step of the same model, batch and process.

use serde_json::json;
use undertone_worker::dp::bench::steps;
use undertone_worker::speech::model::Shape;

use crate::report::{Outcome, Report};

/// The paper's model.
const SHAPE: Shape = Shape { inputs: 13, hidden: 200, classes: 9096 };
/// Utterances in a batch, frames in an utterance.
const BATCHES: [(usize, usize); 2] = [(32, 200), (256, 50)];
/// Steps of each kind, in turn; the medians count.
const REPEAT: usize = 5;

pub(crate) fn run(report: &mut Report) -> Outcome {
    undertone_worker::memory::keep_large_blocks();
    for (utterances, frames) in BATCHES {
        let speed = serde_json::to_value(steps(SHAPE, utterances, frames, REPEAT)?)?;
        report.line(json!({
            "model": "13-200-9096", "utterances": utterances, "frames": frames, "steps": REPEAT, "measured": speed,
        }))?;
    }
    Ok(())
}
