//! Measures the stages of a step: the calls that the engine makes, with a clock between them.

use std::time::Instant;

use undertone_privacy::SamplingRate;

use super::{StepBench, units};
use crate::clip::ClippedSum;
use crate::optimizer::StepDirection;
use crate::randomness::{Purpose, Randomness};
use crate::release::add_noise;
use crate::sampler::Sampler;

/// Durations in seconds of the stages of one step, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StageTimes(pub Vec<(&'static str, f64)>);

/// Records the duration of each stage when the stage ends.
pub(crate) struct StageClock<'a> {
    stages: &'a mut StageTimes,
    since: Instant,
}

impl<'a> StageClock<'a> {
    fn new(stages: &'a mut StageTimes) -> Self {
        Self { stages, since: Instant::now() }
    }

    /// Records the end of `stage` and starts the next one.
    pub(crate) fn mark(&mut self, stage: &'static str) {
        let seconds = self.since.elapsed().as_secs_f64();
        match self.stages.0.iter_mut().find(|(name, _)| *name == stage) {
            Some((_, total)) => *total += seconds,
            None => self.stages.0.push((stage, seconds)),
        }
        self.since = Instant::now();
    }
}

impl StepBench {
    /// Returns the stages of one private and one plain step. Clipping computes the norms a second time, so
    /// `norms_and_steps` includes their time.
    pub fn stages(&mut self) -> [StageTimes; 2] {
        let (mut private, mut plain) = (StageTimes::default(), StageTimes::default());
        let shape = *self.model.shape();
        let batch = Sampler::new(1, SamplingRate::ONE).draw_fresh();
        let mut sum = ClippedSum::begin_parts(&batch, self.clip, &shape.lengths(shape.all()));
        let mut gradient = vec![0.0; shape.parameters()];
        let mut clock = StageClock::new(&mut private);
        let units = units(&self.features, &self.labels, self.frames, shape.inputs);
        let prepared = self.engine.prepare(&self.model, shape.all());
        clock.mark("prepare");
        for group in self.engine.groups(&units, &shape) {
            self.engine.time_clipped(&prepared, &units[group], &mut sum, &mut clock);
        }
        drop(prepared);
        let (clip, _, sum) = sum.into_parts();
        let vector = add_noise(&clip, &sum, units.len() as f64, &Randomness::from_os(Purpose::Noise));
        clock.mark("noise");
        let mut clock = StageClock::new(&mut plain);
        self.engine.time_summed(&self.model, &units.concat(), &mut gradient, &mut clock);
        drop(units);
        self.optimizer.step(self.model.parameters_mut(), StepDirection::averaged(&vector, 0.0), 1.0);
        clock.mark("step");
        [private, plain]
    }
}
