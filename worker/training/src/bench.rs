//! Measures the cost of protection: private and plain steps of the same model and batch, with the time of each stage.
//!
//! The benchmark generates its own data, so it needs no clearance. The noisy vector that it computes has no sendable
//! type.

mod rows;
mod stages;

use std::time::Instant;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::dp_sgd::Optimizer as Rule;
use undertone_privacy::{NoiseMultiplier, SamplingRate, UnitError};

use super::clip::ClippedSum;
use super::clip::grid::{Clip, ClipError};
use super::matrix::{MatrixView, WriteMode, multiply};
use super::optimizer::{Optimizer, StepDirection};
use super::randomness::{Purpose, Randomness};
use super::release::add_noise;
use super::sampler::Sampler;
use crate::model::gradient::{Engine, Example, Unit};
use crate::model::{Model, ModelShape, Normalizer};

pub use rows::RowTraining;
pub(crate) use stages::StageClock;
pub use stages::StageTimes;

/// Reasons why a measurement could not start.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// A constant is out of range.
    #[error(transparent)]
    Unit(#[from] UnitError),
    /// The clip is out of range.
    #[error(transparent)]
    Clip(#[from] ClipError),
    /// The thread pool could not be created.
    #[error("cannot create a pool of one thread: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// Shape [m, n, k] of the product that measures the throughput limit: that of the output layer's product for many
/// frames.
const CEILING: [usize; 3] = [6400, 9096, 200];

/// A model with a batch of utterances, each a unit.
pub struct StepBench {
    features: Vec<f32>,
    labels: Vec<u16>,
    frames: usize,
    model: Model,
    optimizer: Optimizer,
    engine: Engine,
    clip: Clip,
    gradient: Vec<f32>,
}

impl StepBench {
    /// Returns a benchmark of `utterances` utterances of `frames` frames each, filled with random numbers.
    ///
    /// # Errors
    /// [`BenchError`] if a constant is out of range; the constants used here are in range.
    pub fn new(shape: ModelShape, utterances: usize, frames: usize) -> Result<Self, BenchError> {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let mut uniform = || rng.next_u32() as f32 / u32::MAX as f32;
        let count = utterances * frames;
        let features = (0..count * shape.inputs).map(|_| uniform() - 0.5).collect();
        let labels = (0..count).map(|_| (uniform() * 0.999 * shape.classes as f32) as u16).collect();
        let normalizer = Normalizer::new(vec![0.0; shape.inputs], vec![1.0; shape.inputs]);
        Ok(Self {
            features,
            labels,
            frames,
            model: Model::initialize(shape, normalizer, 2),
            optimizer: Optimizer::new(Rule::Sgd { learning_rate: 1e-3, momentum: 0.9 }, shape.parameters()),
            engine: Engine::new(),
            clip: Clip::new(1.0, NoiseMultiplier::new(1.0)?)?,
            gradient: Vec::new(),
        })
    }

    /// Returns the number of frames of a step.
    pub fn frames(&self) -> usize {
        self.labels.len()
    }

    /// Returns the number of trained parameters.
    pub fn parameters(&self) -> usize {
        self.model.parameters().len()
    }

    /// Returns the multiplications and additions in the matrix products of one step without protection. Each weight
    /// takes part in three products: the forward product, the derivative by the weights, and the derivative by the
    /// inputs where those have derivatives.
    pub fn operations(&self) -> f64 {
        let ModelShape { inputs, hidden, classes, .. } = *self.model.shape();
        let (recurrent, outer) = (4 * hidden * (2 * (inputs + 1) + 3 * hidden), classes * (3 * hidden + 2));
        2.0 * self.frames() as f64 * (recurrent + outer) as f64
    }

    /// Runs one step without protection and returns its duration in seconds.
    pub fn plain(&mut self) -> f64 {
        let began = Instant::now();
        let weight = 1.0 / self.frames() as f32;
        self.gradient.resize(self.model.parameters().len(), 0.0);
        self.gradient.fill(0.0);
        let units = units(&self.features, &self.labels, self.frames, self.model.shape().inputs);
        let examples: Vec<Example<'_>> = units.into_iter().flatten().collect();
        self.engine.add_gradient(&self.model, &examples, weight, &mut self.gradient);
        self.optimizer.step(self.model.parameters_mut(), StepDirection::exact(&self.gradient), 1.0);
        began.elapsed().as_secs_f64()
    }

    /// Runs one step with a clipped gradient for each utterance and with noise, and returns its duration in seconds.
    pub fn private(&mut self) -> f64 {
        let began = Instant::now();
        let (shape, units) =
            (*self.model.shape(), units(&self.features, &self.labels, self.frames, self.model.shape().inputs));
        let batch = Sampler::new(units.len(), SamplingRate::ONE).draw_fresh();
        let mut sum = ClippedSum::begin_parts(&batch, self.clip, &shape.lengths(shape.all()));
        let prepared = self.engine.prepare(&self.model, shape.all());
        for group in self.engine.groups(&units, &shape) {
            self.engine.add_clipped(&prepared, &units[group], &mut sum);
        }
        drop(prepared);
        let (clip, _, sum) = sum.into_parts();
        let vector = add_noise(&clip, &sum, units.len() as f64, &Randomness::from_os(Purpose::Noise));
        drop(sum);
        self.optimizer.step(self.model.parameters_mut(), StepDirection::averaged(&vector, 0.0), 1.0);
        began.elapsed().as_secs_f64()
    }
}

fn units<'a>(features: &'a [f32], labels: &'a [u16], frames: usize, inputs: usize) -> Vec<Unit<'a>> {
    let examples = features.chunks(frames * inputs).zip(labels.chunks(frames));
    examples.map(|(features, labels)| vec![Example { features, labels }]).collect()
}

/// Returns the nanoseconds that one thread takes to draw and add the noise of one coordinate.
///
/// # Errors
/// [`BenchError`] if the thread pool cannot be created.
pub fn noise_on_one_thread(coordinates: usize) -> Result<f64, BenchError> {
    let clip = Clip::new(1.0, NoiseMultiplier::new(1.0)?)?;
    let (pool, sum) = (rayon::ThreadPoolBuilder::new().num_threads(1).build()?, vec![0; coordinates]);
    let seconds = pool.install(|| {
        let began = Instant::now();
        let vector = add_noise(&clip, &sum, 1.0, &Randomness::from_os(Purpose::Noise));
        std::hint::black_box(&vector);
        began.elapsed().as_secs_f64()
    });
    Ok(seconds * 1e9 / coordinates as f64)
}

/// Returns the throughput limit of matrix products on this machine: 10⁹ operations per second of a large product by the
/// `gemm` crate on all threads, the best of `repeat` runs.
pub fn ceiling(repeat: usize) -> f64 {
    let [m, n, k] = CEILING;
    let (left, right, mut target) = (vec![0.5; m * k], vec![0.25; k * n], vec![0.0; m * n]);
    let seconds = (0..=repeat).map(|_| {
        let began = Instant::now();
        multiply(&mut target, MatrixView::new(&left, m, k), MatrixView::new(&right, k, n), WriteMode::Replace);
        began.elapsed().as_secs_f64()
    });
    2.0 * (m * n * k) as f64 / seconds.fold(f64::INFINITY, f64::min) / 1e9
}

#[cfg(test)]
mod tests {
    use super::{StepBench, noise_on_one_thread};
    use crate::model::ModelShape;

    #[test]
    fn both_kinds_of_step_are_measured() {
        let mut bench = StepBench::new(ModelShape::plain(3, 4, 5), 3, 7).expect("its constants are in range");
        assert_eq!((bench.frames(), bench.parameters()), (21, 8 * 16 + 5 * 5));
        assert!(bench.plain() > 0.0 && bench.private() > 0.0);
        assert!(noise_on_one_thread(100).expect("there is a thread") > 0.0);
        // Forward and by the weights 8 × 16 + 5 × 5 each, by the activations 4 × 16 + 4 × 5.
        assert!((bench.operations() - 2.0 * 21.0 * (2.0 * 153.0 + 84.0)).abs() < 0.5, "{}", bench.operations());
    }

    #[test]
    fn every_stage_of_a_step_takes_its_time() {
        let mut bench = StepBench::new(ModelShape::plain(3, 4, 5), 3, 7).expect("its constants are in range");
        let [private, plain] = bench.stages();
        let names = |stages: &super::StageTimes| stages.0.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let passes = ["prepare", "layers_forward", "output_both_ways", "layers_back"];
        assert_eq!(names(&private), [&passes[..], &["norms", "norms_and_steps", "noise"]].concat());
        assert_eq!(names(&plain), [&passes[..], &["sum", "step"]].concat());
        assert!(private.0.iter().chain(&plain.0).all(|(_, seconds)| *seconds > 0.0), "{private:?} {plain:?}");
    }
}
