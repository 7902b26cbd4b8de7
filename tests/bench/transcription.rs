//! Private transcription, measured on the rooms of the pipeline as they are: what it costs in words, seconds, money and
//! memory, whether what providers receive is the mechanism, and what two attacks make of it.
//!
//! Documents are the readers of `data/speech` (each one's utterances in order) and texts of `data/docs` that an engine speaks.
//! **The recognizer at the site and those in the clouds are the same PocketSphinx**: differences between error rates come from
//! cutting, the voice and what stays at home, never from a better cloud. The clouds are real servers on loopback that keep
//! what they receive: the adversary's view.
//!
//! Parts, chosen by `UNDERTONE_TRANSCRIPTION` (comma-separated; all without a choice):
//!
//! | part | what it tells |
//! |---|---|
//! | `cost` | dummies, seconds, money and ε under collusion against ε, d, N and the vocabulary |
//! | `histogram` | what providers would receive in many plans, against the mechanism: chi-square, and its power |
//! | `words` | word error rate of a cloud alone, offline alone and ours, by voice; dummies change it by nothing, or it fails; what each cloud heard, and how far its topics are from the truth |
//! | `speaker` | who speaks: closed-set identification and equal error rate, on original and changed voices |
//! | `dummy` | which sounds are dummies, an engine's and recorded ones: area, accuracy, with intervals |
//! | `memory` | peak memory of two recordings, one ten times as long; fails when it is not flat |
//!
//! `words` and `dummy` need PocketSphinx (`UNDERTONE_ALIGNER`), espeak-ng and flite; all but `cost`, `histogram` and `memory`
//! need the data. Sizes are by environment: see [`sizes`]; `UNDERTONE_TRANSCRIPTION_SMOKE=1` makes a run of about a minute.

mod cloud;
mod cost;
mod document;
mod dummy;
mod histogram;
mod memory;
mod recorded;
mod site;
mod sizes;
mod speaker;
mod stages;
mod words;

use serde_json::Value;
use support::stage::Staged;

use crate::report::{Outcome, Report};
use sizes::Sizes;
use stages::Stages;

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;
/// Where the chance of adversaries begins, and of what is drawn again.
const SEED: u64 = 20_261_122;

pub(crate) fn run(report: &mut Report) -> Outcome {
    // A process that is measured by itself.
    if std::env::args().nth(2).is_some() {
        return memory::alone(report).map_err(|error| -> Box<dyn std::error::Error> { error });
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> Staged<()> {
    let sizes = Sizes::from_environment()?;
    say(report, sizes.told())?;
    let mut stages = Stages::default();
    for part in &sizes.parts {
        match part.as_str() {
            "cost" => cost::measure(report, &sizes)?,
            "histogram" => histogram::measure(report, &sizes)?,
            "words" => words::measure(report, &sizes, &mut stages).await?,
            "speaker" => speaker::measure(report, &sizes)?,
            "dummy" => dummy::measure(report, &sizes, &mut stages).await?,
            "memory" => memory::measure(report, &sizes)?,
            other => return Err(format!("UNDERTONE_TRANSCRIPTION has no part {other:?}").into()),
        }
    }
    for line in stages.told() {
        say(report, line)?;
    }
    Ok(())
}

/// A line of the report.
fn say(report: &mut Report, line: Value) -> Staged<()> {
    report.line(line).map_err(|error| error.to_string().into())
}

/// Four significant places are enough for anybody.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
