//! A rehearsal: measures on public data the accuracy that (β, k) would cost, before any charge.
//!
//! The lead's public, labelled log stands in for a private one. For every pair of a rate and a threshold, and for β = 1
//! with k = 1 as the comparison, the log passes through the same gate as a private log. Questions are selected from its
//! output, simulated annotators answer them, as many as the job asks, and the classifier is trained and measured on a
//! public test set. All trials are repeated with other seeds. Within a repeat, all pairs share golden set, seeds and
//! annotators, so that only the pool differs between them.
//!
//! The coins of a rehearsal come from a seed, which only public data may have ([`Randomness::rehearsed`]). Each sample
//! can therefore be drawn again and counted exactly, and the gate's output is checked against this count.
//!
//! [`Randomness::rehearsed`]: undertone_worker_training::randomness::Randomness

mod curve;
mod public_log;
mod sieve;

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use rayon::prelude::*;
use undertone_api::job::active_learning::{Gate, Rehearsal, RehearsalResult, RehearsedPoint};
use undertone_privacy::{Adjacency, SamplingRate, mechanism};

use super::acquire::derive_seed;
use super::classifier::ClassifierError;

pub use curve::{LearnerSettings, LearningCurve, TrialSettings};
pub use public_log::{PublicLog, PublicQuery, frequencies};
pub use sieve::{GateSieve, GateTrial, SieveError, TrialOutput};

/// Why a rehearsal ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The gate failed.
    #[error(transparent)]
    Sieve(#[from] SieveError),
    /// The classifier cannot learn.
    #[error("cannot train a rehearsal's classifier: {0}")]
    Classifier(#[from] ClassifierError),
    /// A rate outside its range.
    #[error("`rehearsal.rates` has {0}: write probabilities above 0 and at most 1")]
    Rate(f64),
    /// A threshold outside its range.
    #[error("`rehearsal.thresholds` has 0; a threshold is at least 1")]
    Threshold,
    /// No data to learn from or to measure on.
    #[error("the public log has no labelled {0}: rehearse with a log whose label column is mapped")]
    Nothing(&'static str),
    /// The caller cancelled the rehearsal.
    #[error("the rehearsal was stopped")]
    Stopped,
}

/// The inputs of a rehearsal.
#[derive(Debug, Clone, Copy)]
pub struct RehearsalPlan<'a> {
    /// Grid, questions, repeats, annotator.
    pub rehearsal: &'a Rehearsal,
    /// The gate whose ε and whose manner of showing determine the δ of each pair; `None` where the job has none.
    pub gate: Option<&'a Gate>,
    /// The settings of the classifier and of selection.
    pub learner: &'a LearnerSettings,
}

/// One pair of the grid, (1, 1) for the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
struct GridPair {
    rate: SamplingRate,
    threshold: NonZeroU32,
    baseline: bool,
    /// The rate as requested.
    stated: f64,
}

/// Rehearses the comparison first, then all pairs, by rates, then by thresholds. After each trial, `watch` receives the
/// numbers of finished and of all trials, on the thread of the trial; it returns false to cancel.
///
/// # Errors
/// [`RehearsalError`] when the gate fails, a classifier cannot be trained or measured, the grid is invalid, or `watch`
/// cancels.
pub fn rehearse(
    public_log: &PublicLog<'_>,
    plan: RehearsalPlan<'_>,
    sieve: &mut dyn GateTrial,
    watch: &(dyn Fn(u64, u64) -> bool + Sync),
) -> Result<Vec<RehearsalResult>, RehearsalError> {
    let (repeats, learner) = (plan.rehearsal.repeats, plan.learner);
    let pairs = pairs(plan.rehearsal)?;
    let trial = |repeat: u32| TrialSettings {
        questions: plan.rehearsal.questions,
        accuracy: plan.rehearsal.annotator_accuracy,
        deviation: plan.rehearsal.annotator_deviation,
        repeat,
    };
    // The start of a repeat is the same for all pairs.
    let starts: Vec<LearningCurve> = (0..repeats)
        .into_par_iter()
        .map(|repeat| LearningCurve::begin(public_log, learner, trial(repeat)))
        .collect::<Result<_, _>>()?;
    let total = pairs.len() as u64 * u64::from(repeats);
    let finished = std::sync::atomic::AtomicU64::new(0);
    let mut rehearsed = Vec::with_capacity(pairs.len());
    for (number, pair) in pairs.iter().enumerate() {
        let mut trials = Vec::with_capacity(starts.len());
        for (repeat, start) in (0_u64..).zip(&starts) {
            let seed = derive_seed(learner.seed, (1 << 32) | ((number as u64) << 8) | repeat);
            trials.push((start, sieve.run(pair.rate, pair.threshold, seed)?));
        }
        let curves = trials
            .par_iter()
            .map(|(start, output)| {
                let mut curve = (*start).clone();
                curve.extend(public_log, learner, &output.texts)?;
                let count = finished.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                if watch(count, total) { Ok(curve) } else { Err(RehearsalError::Stopped) }
            })
            .collect::<Result<Vec<LearningCurve>, _>>()?;
        let outputs: Vec<&TrialOutput> = trials.iter().map(|(_, output)| output).collect();
        rehearsed.push(summarize(pair, &outputs, &curves, plan.gate));
    }
    Ok(rehearsed)
}

/// Returns the grid, after the comparison.
fn pairs(rehearsal: &Rehearsal) -> Result<Vec<GridPair>, RehearsalError> {
    let mut pairs = vec![GridPair { rate: SamplingRate::ONE, threshold: NonZeroU32::MIN, baseline: true, stated: 1.0 }];
    for stated in &rehearsal.rates {
        let rate = SamplingRate::new(*stated).map_err(|_| RehearsalError::Rate(*stated))?;
        for threshold in &rehearsal.thresholds {
            let threshold = NonZeroU32::new(*threshold).ok_or(RehearsalError::Threshold)?;
            pairs.push(GridPair { rate, threshold, baseline: false, stated: *stated });
        }
    }
    Ok(pairs)
}

/// Computes the figures of one pair.
fn summarize(
    pair: &GridPair,
    outputs: &[&TrialOutput],
    curves: &[LearningCurve],
    gate: Option<&Gate>,
) -> RehearsalResult {
    let repeats = outputs.len().max(1) as f64;
    let pools: usize = outputs.iter().map(|output| output.texts.len()).sum();
    let gate = gate.filter(|_| !pair.baseline);
    RehearsalResult {
        sampling_rate: pair.stated,
        threshold: pair.threshold.get(),
        baseline: pair.baseline,
        pool: (pools as f64 / repeats).round() as u64,
        violations: outputs.iter().map(|output| output.violations).sum(),
        points: averaged(curves),
        delta: gate.and_then(|gate| delta(gate, pair)),
    }
}

/// Returns δ of a gate like `gate` with the rate and threshold of a pair, at its ε for one unit; `None` if ε is too
/// small for the rate.
fn delta(gate: &Gate, pair: &GridPair) -> Option<f64> {
    let event = Gate { sampling_rate: pair.rate, threshold: pair.threshold, ..*gate }.event();
    let (_, delta) = mechanism::guarantee(&event, Adjacency::ZeroOut).ok()?;
    Some(delta.get())
}

/// Returns mean and standard deviation of the curves, point by point, up to the end of the shortest curve: a repeat
/// ends early when its pool is used up.
fn averaged(curves: &[LearningCurve]) -> Vec<RehearsedPoint> {
    let length = curves.iter().map(|curve| curve.points().len()).min().unwrap_or(0);
    let at = |index: usize| {
        let points = curves.iter().map(|curve| curve.points()[index]);
        let count = curves.len() as f64;
        let labelled = points.clone().map(|(labelled, _)| labelled as f64).sum::<f64>() / count;
        let mean = points.clone().map(|(_, accuracy)| accuracy).sum::<f64>() / count;
        let squares: f64 = points.map(|(_, accuracy)| (accuracy - mean).powi(2)).sum();
        // The sample variance divides by one less than the number of curves.
        let deviation = if curves.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        RehearsedPoint { labelled: labelled.round() as u64, accuracy: mean, deviation }
    };
    (0..length).map(at).collect()
}
