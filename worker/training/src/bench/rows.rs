//! Trains models of rows by DP-SGD as a site does, with its sampling, clipping and noise, for accuracy and duration.

use std::time::Instant;

use undertone_api::job::dp_sgd::Optimizer as Rule;
use undertone_privacy::{NoiseMultiplier, SamplingRate};

use super::BenchError;
use crate::clip::ClippedSum;
use crate::clip::grid::Clip;
use crate::model::Model;
use crate::model::gradient::{Engine, Example, Unit};
use crate::optimizer::{Optimizer, StepDirection};
use crate::randomness::{Purpose, Randomness};
use crate::release::add_noise;
use crate::sampler::Sampler;

/// A private training in one place.
#[derive(Debug, Clone, Copy)]
pub struct RowTraining {
    /// The optimizer.
    pub rule: Rule,
    /// Steps.
    pub steps: u32,
    /// q.
    pub sampling_rate: SamplingRate,
    /// z.
    pub noise_multiplier: NoiseMultiplier,
    /// C.
    pub clip: f64,
}

impl RowTraining {
    /// Trains a model on public rows, each of which counts as a unit, and returns the duration in seconds.
    ///
    /// # Errors
    /// [`BenchError`] if the clip is out of range.
    pub fn train(&self, model: &mut Model, rows: &[Example<'_>]) -> Result<f64, BenchError> {
        let clip = Clip::new(self.clip, self.noise_multiplier)?;
        let began = Instant::now();
        let shape = *model.shape();
        let sampler = Sampler::new(rows.len(), self.sampling_rate);
        let expected = self.sampling_rate.get() * rows.len() as f64;
        let mut engine = Engine::new();
        let mut optimizer = Optimizer::new(self.rule, shape.parameters());
        for _ in 0..self.steps {
            let batch = sampler.draw_fresh();
            let units: Vec<Unit<'_>> = batch.units().iter().map(|number| vec![rows[*number]]).collect();
            let mut sum = ClippedSum::begin_parts(&batch, clip, &shape.lengths(shape.all()));
            let prepared = engine.prepare(model, shape.all());
            for group in engine.groups(&units, &shape) {
                engine.add_clipped(&prepared, &units[group], &mut sum);
            }
            drop(prepared);
            let (clip, _, sum) = sum.into_parts();
            let vector = add_noise(&clip, &sum, expected, &Randomness::from_os(Purpose::Noise));
            optimizer.step(model.parameters_mut(), StepDirection::averaged(&vector, 0.0), 1.0);
        }
        Ok(began.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::job::dp_sgd::{AcousticModel, Optimizer as Rule};
    use undertone_privacy::{NoiseMultiplier, SamplingRate};

    use super::RowTraining;
    use crate::model::gradient::{Engine, Example};
    use crate::model::{Model, ModelShape, Normalizer};

    #[test]
    fn private_training_learns_a_linear_rule() {
        let spec = AcousticModel::from_rows(crate::model::tests::rows(), 0, 0);
        let plain = Normalizer { mean: vec![0.0], deviation: vec![1.0] };
        let mut model = Model::initialize(ModelShape::from_spec(&spec, 1, 2), plain, 1);
        let features: Vec<f32> = (0..400_u16).map(|n| f32::from(n) / 200.0 - 1.0).collect();
        let labels: Vec<u16> = features.iter().map(|value| u16::from(*value > 0.0)).collect();
        let rows: Vec<Example<'_>> =
            features.chunks(1).zip(labels.chunks(1)).map(|(features, labels)| Example { features, labels }).collect();
        let training = RowTraining {
            rule: Rule::Adam { learning_rate: 0.1 },
            steps: 40,
            sampling_rate: SamplingRate::new(0.5).expect("a rate"),
            noise_multiplier: NoiseMultiplier::new(1.0).expect("a multiplier"),
            clip: 1.0,
        };
        assert!(training.train(&mut model, &rows).expect("the clip is in range") > 0.0);
        assert!(Engine::new().score(&model, &rows).accuracy() > 0.9);
    }
}
