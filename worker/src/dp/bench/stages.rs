//! Where the time of a step goes: the same calls that the engine makes, with a clock between them.

use std::time::Instant;

use undertone_privacy::SamplingRate;

use super::{Bench, units};
use crate::dp::clip::ClippedSum;
use crate::dp::optimizer::Direction;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::noised;
use crate::dp::sampler::Sampler;

/// Seconds of the stages of one step, in order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Stages(pub Vec<(&'static str, f64)>);

/// A clock that tells each stage's seconds when it ends.
pub(crate) struct Clock<'a> {
    stages: &'a mut Stages,
    since: Instant,
}

impl<'a> Clock<'a> {
    fn new(stages: &'a mut Stages) -> Self {
        Self { stages, since: Instant::now() }
    }

    /// A stage ended; the next begins.
    pub(crate) fn mark(&mut self, stage: &'static str) {
        let seconds = self.since.elapsed().as_secs_f64();
        match self.stages.0.iter_mut().find(|(name, _)| *name == stage) {
            Some((_, total)) => *total += seconds,
            None => self.stages.0.push((stage, seconds)),
        }
        self.since = Instant::now();
    }
}

impl Bench {
    /// The stages of one step of each kind, private and plain. That of clipping asks for the norms once more, so they are in the time of
    /// `norms_and_steps`, too.
    pub fn stages(&mut self) -> [Stages; 2] {
        let (mut private, mut plain) = (Stages::default(), Stages::default());
        let shape = *self.model.shape();
        let batch = Sampler::new(1, SamplingRate::ONE).draw_fresh();
        let mut sum = ClippedSum::begin_parts(&batch, self.clip, &shape.lengths(shape.all()));
        let mut gradient = vec![0.0; shape.parameters()];
        let mut clock = Clock::new(&mut private);
        let units = units(&self.features, &self.labels, self.frames, shape.inputs);
        let prepared = self.engine.prepare(&self.model, shape.all());
        clock.mark("prepare");
        for group in self.engine.groups(&units, &shape) {
            self.engine.time_clipped(&prepared, &units[group], &mut sum, &mut clock);
        }
        drop(prepared);
        let (clip, _, sum) = sum.into_parts();
        let vector = noised(&clip, &sum, units.len() as f64, &Randomness::from_os(Purpose::Noise));
        clock.mark("noise");
        let mut clock = Clock::new(&mut plain);
        self.engine.time_summed(&self.model, &units.concat(), &mut gradient, &mut clock);
        drop(units);
        self.optimizer.step(self.model.parameters_mut(), Direction::averaged(&vector, 0.0), 1.0);
        clock.mark("step");
        [private, plain]
    }
}
