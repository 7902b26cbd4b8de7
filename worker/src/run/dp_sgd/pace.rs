//! The longest time of a private round, measured on public input before the first one (`privacy.md`, 14.7).
//!
//! The input is made up: units of the longest public length in the job's shapes. The manifest implies the highest
//! number of units in a round: [`max_batch_size`] of all draws of a round. Altered copies of a unit are made and passed as
//! in a round, with coins of their own, and the trained coordinates are merged into a model. Nothing here reads the
//! participant's data, so the resulting period reveals nothing about them.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use undertone_api::dataset::SizeClass;
use undertone_privacy::SamplingRate;

use super::learner::ArmLearner;
use super::site::SiteSelection;
use crate::dp::batch_bound::max_batch_size;
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::CorrelatedNoise;
use crate::dp::sampler::Sampler;
use crate::speech::model::gradient::{BatchAugmentation, BatchUnits, Engine, Example, Unit};

/// The factor between the measured time and the period: other programs, a cold cache and a warm processor make rounds
/// slower.
const MARGIN: u32 = 2;
/// The number of frames of the longest made-up example: longer units have several.
const LONGEST_EXAMPLE: usize = 6_000;
/// The number of frames that are timed together if units are short.
const TOGETHER: usize = 8_192;
/// The highest number of units that are timed together.
const MOST_TOGETHER: usize = 64;
/// The number of repetitions of each measurement; the slowest counts.
const REPEATS: u32 = 2;

/// The public facts of a participant's private rounds.
pub(super) struct RoundShape<'a> {
    /// n of the manifest.
    pub(super) units: u64,
    /// Canaries of an audit, drawn or not.
    pub(super) canaries: u64,
    /// The sampling rate, q.
    pub(super) rate: SamplingRate,
    /// Frames of the longest unit.
    pub(super) longest: usize,
    pub(super) clip: Clip,
    /// The bands and the releases of correlated noise.
    pub(super) correlated: Option<(NonZeroU32, NonZeroU32)>,
    /// The choice among runs, if the round is a selection.
    pub(super) selection: Option<&'a SiteSelection>,
    /// The number of runs of a selection; 1 without one.
    pub(super) runs: u64,
}

/// Returns the time that covers a private round of a participant, except for batches with a probability of at most
/// 2⁻⁵⁰.
pub(super) fn slowest_round(shape: &RoundShape<'_>, learner: &ArmLearner<'_>, engine: &mut Engine) -> Duration {
    let steps = shape.runs.saturating_mul(learner.local_steps().map_or(1, NonZeroU32::get).into());
    // The manifest may round the number of units; no size class holds more than this.
    let units = SizeClass::from_count(shape.units).most().saturating_add(shape.canaries);
    let most = max_batch_size(units.saturating_mul(steps), shape.rate);
    let model = learner.model();
    let example = LONGEST_EXAMPLE.min(shape.longest);
    let features: Vec<f32> = (0..example * model.shape().inputs).map(|i| (i % 17) as f32 / 17.0 - 0.5).collect();
    let labels: Vec<u16> = (0..example).map(|frame| (frame % model.shape().classes) as u16).collect();
    let unit = synthetic_unit(shape.longest, model.shape().inputs, &features, &labels);
    let augmentation = learner.augmentation();
    let copies = augmentation.map_or(1, |terms| terms.copies.max(1) as usize);
    let frames = shape.longest.saturating_mul(copies).max(1);
    let together = (TOGETHER / frames).clamp(1, MOST_TOGETHER).min(usize::try_from(most).unwrap_or(1).max(1));
    let numbers: Vec<usize> = (0..together).collect();
    let coins = |terms| BatchAugmentation::new(terms, Randomness::from_os(Purpose::Augmentation));
    let batch = BatchUnits::new(vec![unit; together], &numbers, augmentation.map(coins));
    let empty = || Sampler::new(0, shape.rate).draw(&Randomness::from_os(Purpose::Sampling));
    let coordinates = learner.coordinates();
    let unmoved = vec![0.0; coordinates.len()];
    let mut moved = model.clone();
    // The first pass compiles and allocates.
    let correlating = shape.correlated.map_or(Duration::ZERO, |(bands, releases)| {
        time_correlated_noise(shape.clip, bands, releases, coordinates.len())
    });
    let mut pass = Duration::ZERO;
    let mut step = Duration::ZERO;
    for repeat in 0..=REPEATS {
        let began = Instant::now();
        learner.step_start().advance(&unmoved, &mut moved);
        let prepared = engine.prepare_coordinates(model, coordinates);
        let mut sum = ClippedSum::begin_parts(&empty(), shape.clip, coordinates.lengths());
        let preparing = began.elapsed();
        let began = Instant::now();
        for group in batch.groups(engine, model.shape()) {
            batch.add_clipped(group, engine, &prepared, &mut sum);
        }
        let passing = began.elapsed();
        let began = Instant::now();
        sum.discard_noise(&Randomness::from_os(Purpose::Noise));
        let noising = began.elapsed() + correlating;
        if repeat > 0 {
            pass = pass.max(passing);
            step = step.max(preparing + noising);
        }
    }
    let scoring = shape.selection.map_or(Duration::ZERO, |selection| {
        let began = Instant::now();
        selection.development.loss(model, engine);
        began.elapsed()
    });
    let times = |time: Duration, count: f64| time.as_secs_f64() * count;
    let all =
        times(pass, most as f64 / together as f64) + times(step, steps as f64) + times(scoring, shape.runs as f64);
    Duration::try_from_secs_f64(all * f64::from(MARGIN)).unwrap_or(Duration::MAX)
}

/// Returns the time of a step of correlated noise that depends on all steps that it can depend on.
fn time_correlated_noise(clip: Clip, bands: NonZeroU32, releases: NonZeroU32, length: usize) -> Duration {
    let Ok(mut noise) = CorrelatedNoise::new(clip, bands, releases, length) else { return Duration::ZERO };
    let mut last = Duration::ZERO;
    for step in 1..=bands.get() {
        let began = Instant::now();
        let _ = noise.draw(step, &Randomness::from_os(Purpose::CorrelatedNoise));
        last = began.elapsed();
    }
    last
}

/// Makes a unit of `frames` frames, of examples that are cut from one.
fn synthetic_unit<'a>(frames: usize, inputs: usize, features: &'a [f32], labels: &'a [u16]) -> Unit<'a> {
    let whole = frames / labels.len().max(1);
    let rest = frames % labels.len().max(1);
    let example = |frames: usize| Example { features: &features[..frames * inputs], labels: &labels[..frames] };
    std::iter::repeat_n(labels.len(), whole).chain((rest > 0).then_some(rest)).map(example).collect()
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_EXAMPLE, synthetic_unit};

    #[test]
    fn synthetic_unit_has_the_requested_frames() {
        for frames in [1, 100, LONGEST_EXAMPLE, LONGEST_EXAMPLE + 1, 60_000] {
            let example = frames.min(LONGEST_EXAMPLE);
            let features = vec![0.0; example * 2];
            let labels = vec![0; example];
            let unit = synthetic_unit(frames, 2, &features, &labels);
            assert_eq!(unit.iter().map(|example| example.labels.len()).sum::<usize>(), frames);
            assert!(unit.iter().all(|example| example.features.len() == 2 * example.labels.len()));
        }
    }
}
