//! A rehearsal: what (β, k) would cost in accuracy, found on public data, before anybody pays.
//!
//! The lead's public, labelled log plays a private one. For every pair of a rate and a threshold, and for β = 1 with k = 1 beside
//! them, the log goes through the very gate that a private log goes through; questions are chosen from what it shows, an annotator
//! who is played answers them, the classifier learns and is measured on a public test set. Everything is repeated with other
//! chance. Pairs share golden sets, seeds and annotators, repeat by repeat, so that only the pool differs between them.
//!
//! The coins of a rehearsal come from a seed, which only public data may have ([`Randomness::rehearsed`]): so each sample can be
//! drawn once more and counted by itself, exactly, and what the gate shows is held against it.
//!
//! [`Randomness::rehearsed`]: crate::dp::randomness::Randomness

mod curve;
mod ground;
mod sieve;

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use rayon::prelude::*;
use undertone_api::job::active_learning::{Gate, Rehearsal, Rehearsed, RehearsedPoint};
use undertone_privacy::{Adjacency, SamplingRate, mechanism};

use super::acquire::derived;
use super::classifier::ClassifierError;

pub use curve::{Curve, Learner, Lesson};
pub use ground::{Ground, Query, frequencies};
pub use sieve::{GateSieve, Shown, Sieve, SieveError};

/// Why a rehearsal ended without a result.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// The gate failed.
    #[error(transparent)]
    Sieve(#[from] SieveError),
    /// The classifier cannot learn.
    #[error("a rehearsed classifier: {0}")]
    Classifier(#[from] ClassifierError),
    /// Not a rate.
    #[error("`rehearsal.rates` has {0}, which is no probability above 0 and at most 1")]
    Rate(f64),
    /// Not a threshold.
    #[error("`rehearsal.thresholds` has 0; a threshold is at least 1")]
    Threshold,
    /// Nothing to learn from or to measure on.
    #[error("the public log has no labelled {0}: rehearse with a log whose label column is mapped")]
    Nothing(&'static str),
    /// It was asked to stop.
    #[error("the rehearsal was stopped")]
    Stopped,
}

/// What is rehearsed.
#[derive(Debug, Clone, Copy)]
pub struct Plan<'a> {
    /// Grid, questions, repeats, annotator.
    pub rehearsal: &'a Rehearsal,
    /// The gate whose ε, and whose manner of showing, the δ of each pair is worked out for; none where the job has none.
    pub gate: Option<&'a Gate>,
    /// How the classifier learns.
    pub learner: &'a Learner,
}

/// One pair, (1, 1) for the comparison.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Pair {
    rate: SamplingRate,
    threshold: NonZeroU32,
    baseline: bool,
    /// As it was asked for.
    stated: f64,
}

/// Rehearses: the comparison first, then all pairs, by rates, then by thresholds. `watch` is told after each trial how many of
/// how many are done, on whatever thread it was, and says whether to go on.
///
/// # Errors
/// [`RehearsalError`] when the gate fails, nothing can be learned or measured, the grid is none, or `watch` says no.
pub fn rehearse(
    ground: &Ground<'_>,
    plan: Plan<'_>,
    sieve: &mut dyn Sieve,
    watch: &(dyn Fn(u64, u64) -> bool + Sync),
) -> Result<Vec<Rehearsed>, RehearsalError> {
    let (repeats, learner) = (plan.rehearsal.repeats, plan.learner);
    let pairs = pairs(plan.rehearsal)?;
    let lesson = |repeat: u32| Lesson {
        questions: plan.rehearsal.questions,
        accuracy: plan.rehearsal.annotator_accuracy,
        repeat,
    };
    // What a repeat begins with is the same for all pairs.
    let begun: Vec<Curve> = (0..repeats)
        .into_par_iter()
        .map(|repeat| Curve::begin(ground, learner, lesson(repeat)))
        .collect::<Result<_, _>>()?;
    let total = pairs.len() as u64 * u64::from(repeats);
    let done = std::sync::atomic::AtomicU64::new(0);
    let mut rehearsed = Vec::with_capacity(pairs.len());
    for (number, pair) in pairs.iter().enumerate() {
        let mut trials = Vec::with_capacity(begun.len());
        for (repeat, begun) in (0_u64..).zip(&begun) {
            let seed = derived(learner.seed, (1 << 32) | ((number as u64) << 8) | repeat);
            trials.push((begun, sieve.shown(pair.rate, pair.threshold, seed)?));
        }
        let curves = trials
            .par_iter()
            .map(|(begun, shown)| {
                let mut curve = (*begun).clone();
                curve.go_on(ground, learner, &shown.texts)?;
                let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                if watch(done, total) { Ok(curve) } else { Err(RehearsalError::Stopped) }
            })
            .collect::<Result<Vec<Curve>, _>>()?;
        let shown: Vec<&Shown> = trials.iter().map(|(_, shown)| shown).collect();
        rehearsed.push(told(pair, &shown, &curves, plan.gate));
    }
    Ok(rehearsed)
}

/// The grid, after the comparison.
fn pairs(rehearsal: &Rehearsal) -> Result<Vec<Pair>, RehearsalError> {
    let mut pairs = vec![Pair { rate: SamplingRate::ONE, threshold: NonZeroU32::MIN, baseline: true, stated: 1.0 }];
    for stated in &rehearsal.rates {
        let rate = SamplingRate::new(*stated).map_err(|_| RehearsalError::Rate(*stated))?;
        for threshold in &rehearsal.thresholds {
            let threshold = NonZeroU32::new(*threshold).ok_or(RehearsalError::Threshold)?;
            pairs.push(Pair { rate, threshold, baseline: false, stated: *stated });
        }
    }
    Ok(pairs)
}

/// The figures of one pair.
fn told(pair: &Pair, shown: &[&Shown], curves: &[Curve], gate: Option<&Gate>) -> Rehearsed {
    let repeats = shown.len().max(1) as f64;
    let pools: usize = shown.iter().map(|shown| shown.texts.len()).sum();
    let gate = gate.filter(|_| !pair.baseline);
    Rehearsed {
        sampling_rate: pair.stated,
        threshold: pair.threshold.get(),
        baseline: pair.baseline,
        pool: (pools as f64 / repeats).round() as u64,
        violations: shown.iter().map(|shown| shown.violations).sum(),
        points: averaged(curves),
        delta: gate.and_then(|gate| delta(gate, pair)),
    }
}

/// δ of a gate like `gate` with the rate and threshold of a pair, at its ε for one unit; `None` where ε is too small for the
/// rate.
fn delta(gate: &Gate, pair: &Pair) -> Option<f64> {
    let event = Gate { sampling_rate: pair.rate, threshold: pair.threshold, ..*gate }.event();
    let (_, delta) = mechanism::guarantee(&event, Adjacency::ZeroOut).ok()?;
    Some(delta.get())
}

/// Mean and standard deviation of the curves, point by point, as far as all of them go: a repeat whose pool was used up earlier
/// ends them.
fn averaged(curves: &[Curve]) -> Vec<RehearsedPoint> {
    let length = curves.iter().map(|curve| curve.points().len()).min().unwrap_or(0);
    let at = |index: usize| {
        let points = curves.iter().map(|curve| curve.points()[index]);
        let count = curves.len() as f64;
        let labelled = points.clone().map(|(labelled, _)| labelled as f64).sum::<f64>() / count;
        let mean = points.clone().map(|(_, accuracy)| accuracy).sum::<f64>() / count;
        let squares: f64 = points.map(|(_, accuracy)| (accuracy - mean).powi(2)).sum();
        // Of a sample: over one less than there are.
        let deviation = if curves.len() > 1 { (squares / (count - 1.0)).sqrt() } else { 0.0 };
        RehearsedPoint { labelled: labelled.round() as u64, accuracy: mean, deviation }
    };
    (0..length).map(at).collect()
}
