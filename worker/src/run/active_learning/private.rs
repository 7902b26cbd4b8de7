//! The trainings of a private lead: noisy steps on its labelled rows, of which the sum is sent, and charged once a
//! training.
//!
//! A training begins at a classifier that follows from the seed and the answers alone. T times: a fresh Poisson batch,
//! its clipped sum, fresh noise, one step. All steps are granted at once, after the first batch is summed and before the
//! first noise is drawn, and paid at once when their sum is on disk. The lead is the one contributor to its series, so the
//! server's average is its vector; the classifier of every process is the one with that vector. A crash before the
//! payment costs nothing and has released nothing.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use undertone_api::dataset::SizeClass;
use undertone_api::job::active_learning::{PrivateTraining, Spec, TRAINING};

use super::{AnnotationError, log};
use crate::dp::batch_bound::max_batch_size;
use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::{Outgoing, Update};
use crate::dp::sampler::Batch;
use crate::queries::classifier::{Classifier, PrivateUnits};
use crate::queries::dataset::{Reader, Subset};
use crate::run::{Averaging, RoundKey, RoundProgress, RunError, check_cancelled};

/// The factor between the measured time and the period: another disk cache, another texts' mix, other programs.
const MARGIN: u32 = 4;
/// The number of made-up units that are timed together.
const TIMED_UNITS: usize = 16;

/// The trainings of one process.
pub(super) struct PrivateTrainer<'a> {
    spec: &'a Spec,
    training: PrivateTraining,
    clip: Clip,
    steps: NonZeroU32,
    /// q n: the divisor of every sum.
    expected_batch: f64,
    /// The units, once a training has read them.
    units: Option<PrivateUnits>,
}

impl<'a> PrivateTrainer<'a> {
    /// Prepares the trainings, and fixes the period of the release clock. Reads no private data.
    ///
    /// # Errors
    /// [`RunError`] when the spec's numbers are out of range, or the rounds close before the first tick.
    pub(super) fn begin(
        spec: &'a Spec,
        training: PrivateTraining,
        exchange: &mut dyn Averaging,
    ) -> Result<Self, RunError> {
        let clip = Clip::new(training.clip, training.noise_multiplier).map_err(AnnotationError::Clip)?;
        let steps = NonZeroU32::new(training.steps).ok_or(AnnotationError::NoSteps)?;
        let units = exchange.participant().units;
        let expected_batch = training.sampling_rate.get() * units as f64;
        let trainer = Self { spec, training, clip, steps, expected_batch, units: None };
        exchange.fix_period(&mut || trainer.slowest_training(units))?;
        Ok(trainer)
    }

    /// Returns the classifier of a round, 0 for the one before the first question: `start` changed by the released
    /// vector. Makes, pays and sends the vector unless an earlier process did.
    ///
    /// # Errors
    /// [`RunError`] when the log cannot be read, the site does not pay, or the exchange is stopped.
    pub(super) fn train(
        &mut self,
        round: u32,
        start: &Classifier,
        exchange: &mut dyn Averaging,
    ) -> Result<Classifier, RunError> {
        let key = RoundKey::new(TRAINING, round + 1);
        match exchange.round_progress(key)? {
            RoundProgress::Accepted => {}
            RoundProgress::Stored => exchange.resend_vector(key)?,
            // The check opens the window in which the vector leaves at a tick; everything private follows it.
            progress => match (exchange.is_closed(key)?, progress) {
                (true, _) => {}
                (false, RoundProgress::Lost) => return Err(AnnotationError::LostTraining.into()),
                (false, _) => {
                    let vector = self.take_steps(key, start, exchange)?;
                    exchange.send_vector(key, vector)?;
                }
            },
        }
        let average = exchange.fetch_average(key)?;
        Ok(start.with_change(&average.mean).ok_or(AnnotationError::OtherVector)?)
    }

    /// Takes the noisy steps of one training.
    fn take_steps(
        &mut self,
        key: RoundKey<'_>,
        start: &Classifier,
        exchange: &mut dyn Averaging,
    ) -> Result<Outgoing, RunError> {
        let mut update = Update::begin(self.training.optimizer(), 1.0, start.dense_length());
        let mut sum = Some(self.sum_batch(start, exchange)?);
        let (mut permits, ticket) = exchange.clear(key)?.split(self.steps).map_err(AnnotationError::Split)?;
        for _ in 0..self.steps.get() {
            let sum = if let Some(sum) = sum.take() {
                sum
            } else {
                let model = start.with_change(update.moved()).ok_or(AnnotationError::OtherVector)?;
                self.sum_batch(&model, exchange)?
            };
            let permit = permits.take().ok_or(AnnotationError::NoSteps)?;
            let noise = exchange.draw_randomness(Purpose::Noise);
            let step = sum.step(self.expected_batch, permit, &noise).map_err(AnnotationError::Release)?;
            update.take(step).map_err(AnnotationError::Release)?;
        }
        Ok(update.leave(ticket).map_err(AnnotationError::Release)?)
    }

    /// Draws a fresh batch and returns its clipped sum at a classifier.
    fn sum_batch(&mut self, model: &Classifier, exchange: &mut dyn Averaging) -> Result<ClippedSum, RunError> {
        check_cancelled(exchange)?;
        let units = match self.units.take() {
            Some(units) => units,
            None => self.read_units(exchange)?,
        };
        let units = self.units.insert(units);
        let randomness = exchange.draw_randomness(Purpose::Sampling);
        let batch = units.sampler(self.training.sampling_rate).draw(&randomness);
        // A sum checks for a stop between its groups of units, on this thread.
        let watch = || !exchange.is_stopped();
        let sum = model.sum_gradients(units, &batch, self.clip, &watch);
        if let Some(sum) = sum {
            Ok(sum)
        } else {
            check_cancelled(exchange)?;
            Err(AnnotationError::NoSteps.into())
        }
    }

    fn read_units(&self, exchange: &mut dyn Averaging) -> Result<PrivateUnits, RunError> {
        let reader = Reader::open(&exchange.dataset(exchange.participant().dataset)?)?;
        let numbers = log::label_numbers(self.spec, reader.meta());
        let label = |label: u16| numbers.get(usize::from(label)).copied().flatten();
        let rows = reader.rows(Subset::Train);
        Ok(PrivateUnits::read(rows, label, self.spec.unit, &self.spec.classifier)?)
    }

    /// Returns the time that covers reading the log and one training, except for batches with a probability of at most
    /// 2⁻⁵⁰, from made-up units of the greatest length.
    fn slowest_training(&self, units: u64) -> Result<Duration, RunError> {
        let labels: Vec<String> = self.spec.labels.iter().map(|label| label.name.clone()).collect();
        let model = Classifier::begin(&self.spec.classifier, &labels, self.spec.seed)?;
        let most = SizeClass::from_count(units).most().max(1);
        let began = Instant::now();
        drop(PrivateUnits::synthetic(1, self.spec.unit, &self.spec.classifier));
        let hashing = began.elapsed().as_secs_f64() * most as f64;
        let made_up = PrivateUnits::synthetic(TIMED_UNITS, self.spec.unit, &self.spec.classifier);
        let draw = |rate| made_up.sampler(rate).draw(&Randomness::from_os(Purpose::Sampling));
        let batch = draw(undertone_privacy::SamplingRate::ONE);
        // The first pass allocates.
        let _ = self.time_sum(&model, &made_up, &batch);
        let passing = self.time_sum(&model, &made_up, &batch);
        let batches = max_batch_size(most.saturating_mul(self.steps.get().into()), self.training.sampling_rate);
        let steps = f64::from(self.steps.get());
        let all = hashing + passing.units * (batches as f64 / TIMED_UNITS as f64) + passing.step * steps;
        Ok(Duration::try_from_secs_f64(all * f64::from(MARGIN)).unwrap_or(Duration::MAX))
    }

    /// Measures the sum of a batch, and the rest of a step: the change of a classifier, and noise.
    fn time_sum(&self, model: &Classifier, units: &PrivateUnits, batch: &Batch) -> StepSeconds {
        let began = Instant::now();
        let sum = model.sum_gradients(units, batch, self.clip, &|| true);
        let passed = began.elapsed().as_secs_f64();
        let began = Instant::now();
        drop(model.with_change(&vec![0.0; model.dense_length()]));
        if let Some(sum) = sum {
            sum.discard_noise(&Randomness::from_os(Purpose::Noise));
        }
        StepSeconds { units: passed, step: began.elapsed().as_secs_f64() }
    }
}

/// The seconds of a made-up step.
struct StepSeconds {
    /// Of its units.
    units: f64,
    /// Of the rest.
    step: f64,
}
