//! Private transcription, measured on the pipeline's own modules: its cost in words, seconds, money and memory, a test
//! of the received sounds against the mechanism, and the success of two attacks.
//!
//! Documents are the readers of `data/speech` (each one's utterances in order) and texts of `data/docs` spoken by an
//! engine. **Except in `engines`, the recognizer at the site and those in the clouds are the same PocketSphinx**: differences
//! between error rates come from cutting, the voice and the pieces that stay at the site, never from a better cloud. The
//! clouds are real servers on loopback that record every request: the adversary's view.
//!
//! Parts, selected by `UNDERTONE_TRANSCRIPTION` (comma-separated; default: all):
//!
//! | part | measurement |
//! |---|---|
//! | `cost` | dummies, seconds, money and ε under collusion against ε, d, N and the vocabulary |
//! | `histogram` | the providers' sounds in many plans, against the mechanism: chi-square, and its power |
//! | `words` | word error rates of a cloud, offline and ours, by voice; fails if dummies change them; each cloud's topics |
//! | `engines` | a model of the product as the site's recognizer, and two providers of different quality: word errors, money, time |
//! | `speaker` | speaker identification: closed-set rate and equal error rate, on original and changed voices |
//! | `dummy` | detection of dummies, an engine's and recorded ones: area, accuracy, with intervals |
//! | `channel` | voices and sources of dummies together: told apart, speaker attack, word errors, one row each |
//! | `distance` | three attacks on counts of public texts, by distance: topic, style and kind of a conversation |
//! | `dummy_text` | the model of the dummies' text against an earlier trigram: perplexity, and classifiers of texts |
//! | `memory` | peak memory of two recordings, one ten times as long; fails when it is not flat |
//!
//! `words`, `engines`, `dummy` and `channel` need PocketSphinx (`UNDERTONE_ALIGNER`), espeak-ng and flite; all but `cost`, `histogram` and
//! `memory` need the data. Environment variables set the sizes: see [`sizes`]; `UNDERTONE_TRANSCRIPTION_SMOKE=1` makes
//! a run of about a minute.

mod channel;
mod cloud;
mod cost;
mod distance;
mod document;
mod dummy;
mod dummy_text;
mod engines;
mod histogram;
mod memory;
mod recorded;
mod site;
mod sizes;
mod speaker;
mod stages;
mod words;

use serde_json::Value;
use support::stage::TestResult;

use crate::report::{Outcome, Report};
use sizes::TranscriptionSizes;
use stages::StageTimes;

/// The confidence of every interval.
const CONFIDENCE: f64 = 0.95;
/// The seed of the adversaries' randomness, and of repeated draws.
const SEED: u64 = 20_261_122;

pub(crate) fn run(report: &mut Report) -> Outcome {
    // A process with a measurement of its own.
    if std::env::args().nth(2).is_some() {
        return memory::alone(report).map_err(|error| -> Box<dyn std::error::Error> { error });
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(report)).map_err(|error| -> Box<dyn std::error::Error> { error })
}

async fn measure(report: &mut Report) -> TestResult<()> {
    let sizes = TranscriptionSizes::from_environment()?;
    say(report, sizes.to_json())?;
    let mut stages = StageTimes::default();
    for part in &sizes.parts {
        match part.as_str() {
            "cost" => cost::measure(report, &sizes)?,
            "histogram" => histogram::measure(report, &sizes)?,
            "words" => words::measure(report, &sizes, &mut stages).await?,
            "engines" => engines::measure(report, &sizes, &mut stages).await?,
            "speaker" => speaker::measure(report, &sizes)?,
            "dummy" => dummy::measure(report, &sizes, &mut stages).await?,
            "channel" => channel::measure(report, &sizes, &mut stages).await?,
            "distance" => distance::measure(report)?,
            "dummy_text" => dummy_text::measure(report, &sizes)?,
            "memory" => memory::measure(report, &sizes)?,
            other => return Err(format!("UNDERTONE_TRANSCRIPTION has no part {other:?}").into()),
        }
    }
    for line in stages.report_lines() {
        say(report, line)?;
    }
    Ok(())
}

/// Prints a line of the report.
fn say(report: &mut Report, line: Value) -> TestResult<()> {
    report.line(line).map_err(|error| error.to_string().into())
}

/// Rounds to four decimals.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}
