//! What protection costs: a private step beside a plain one, of the same model, in the same process.
//!
//! It makes its own data, so it needs no clearance; the noised vector it computes is a bare vector and cannot be sent.

use std::time::{Duration, Instant};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use undertone_api::job::dp_sgd::Optimizer as Rule;
use undertone_privacy::{NoiseMultiplier, SamplingRate, UnitError};

use super::clip::{Clip, ClipError, ClippedSum};
use super::optimizer::Optimizer;
use super::randomness::{Purpose, Randomness};
use super::release::noised;
use super::sampler::Sampler;
use crate::speech::model::gradient::{Engine, Example, Unit, micro_batches};
use crate::speech::model::{Model, Normalizer, Shape};

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A constant out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// A clip out of range.
    #[error(transparent)]
    Clip(#[from] ClipError),
}

/// Medians over the repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Speed {
    /// Trained parameters.
    pub parameters: usize,
    /// Frames of a step.
    pub frames: usize,
    /// Frames a second of a step with per-utterance clipping and noise.
    pub private_frames_per_second: f64,
    /// Frames a second of a step without.
    pub plain_frames_per_second: f64,
    /// Seconds of a private step over those of a plain one.
    pub ratio: f64,
    /// Nanoseconds to draw one coordinate's noise and add it, all threads together.
    pub noise_nanoseconds: f64,
}

/// Measures steps over `utterances` of `frames` frames each, `repeat` of either kind in turn, after one of either to warm up.
///
/// # Errors
/// [`BenchError`]; not with the constants it uses.
pub fn steps(shape: Shape, utterances: usize, frames: usize, repeat: usize) -> Result<Speed, BenchError> {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut uniform = || rng.next_u32() as f32 / u32::MAX as f32;
    let features: Vec<f32> = (0..utterances * frames * shape.inputs).map(|_| uniform() - 0.5).collect();
    let labels: Vec<u16> =
        (0..utterances * frames).map(|_| (uniform() * 0.999 * shape.classes as f32) as u16).collect();
    let units: Vec<Unit<'_>> = features
        .chunks(frames * shape.inputs)
        .zip(labels.chunks(frames))
        .map(|(features, labels)| vec![Example { features, labels }])
        .collect();
    let examples: Vec<Example<'_>> = units.iter().flatten().copied().collect();
    let normalizer = Normalizer::new(vec![0.0; shape.inputs], vec![1.0; shape.inputs]);
    let mut model = Model::initialize(shape, normalizer, 2);
    let mut optimizer = Optimizer::new(Rule::Sgd { learning_rate: 1e-3, momentum: 0.9 }, shape.parameters());
    let clip = Clip::new(1.0, NoiseMultiplier::new(1.0)?)?;
    let sampler = Sampler::new(utterances, SamplingRate::ONE);
    let mut engine = Engine::new();
    let mut gradient = vec![0.0; shape.parameters()];
    let weight = 1.0 / (utterances * frames) as f32;

    let (mut private, mut plain, mut noise) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=repeat {
        let began = Instant::now();
        gradient.fill(0.0);
        engine.add_gradient(&model, &examples, weight, &mut gradient);
        optimizer.step(model.parameters_mut(), &gradient);
        plain.push(began.elapsed());

        let began = Instant::now();
        let mut sum = ClippedSum::begin(&sampler.draw_fresh(), clip, shape.parameters());
        for micro in micro_batches(&units, &shape) {
            let spent = sum.add(engine.per_unit(&model, &units[micro]));
            engine.recycle(spent);
        }
        let summed = began.elapsed();
        let (clip, _, sum) = sum.into_parts();
        let vector = noised(&clip, &sum, utterances as f64, &Randomness::from_os(Purpose::Noise));
        noise.push(began.elapsed().saturating_sub(summed));
        optimizer.step(model.parameters_mut(), &vector);
        private.push(began.elapsed());
    }
    let (private, plain, noise) = (median(private), median(plain), median(noise));
    Ok(Speed {
        parameters: shape.parameters(),
        frames: utterances * frames,
        private_frames_per_second: (utterances * frames) as f64 / private,
        plain_frames_per_second: (utterances * frames) as f64 / plain,
        ratio: private / plain,
        noise_nanoseconds: noise * 1e9 / shape.parameters() as f64,
    })
}

/// Median in seconds, without the first.
fn median(times: Vec<Duration>) -> f64 {
    let mut times: Vec<f64> = times.into_iter().skip(1).map(|time| time.as_secs_f64()).collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::steps;
    use crate::speech::model::Shape;

    #[test]
    fn both_kinds_of_step_are_measured() {
        let speed = steps(Shape { inputs: 3, hidden: 4, classes: 5 }, 3, 7, 3).expect("its constants are in range");
        assert_eq!((speed.frames, speed.parameters), (21, 8 * 16 + 5 * 5));
        assert!(speed.private_frames_per_second > 0.0 && speed.plain_frames_per_second > 0.0, "{speed:?}");
    }
}
