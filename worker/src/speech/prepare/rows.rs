//! Rows on their way into the dataset: written as they come, or, where a mean over all of a speaker is subtracted, once the
//! speaker is complete.

use super::scan::Recording;
use super::work::Ready;
use crate::speech::features::{Mean, Normalization, Treatment};

/// Holds what cannot be written yet: the coefficients of one speaker, 52 bytes a frame.
pub(super) struct Rows<'a> {
    treatment: Treatment,
    held: Vec<(&'a Recording, Box<Ready>)>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(treatment: Treatment) -> Self {
        Self { treatment, held: Vec::new() }
    }

    /// Takes a row, in the order of speakers, and hands on to `write` what is complete.
    pub(super) fn take<E>(
        &mut self,
        recording: &'a Recording,
        ready: Box<Ready>,
        write: &mut impl FnMut(&Recording, &Ready) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.treatment.normalization != Normalization::Speaker {
            return write(recording, &ready);
        }
        if self.held.first().is_some_and(|(first, _)| first.speaker != recording.speaker) {
            self.finish(write)?;
        }
        self.held.push((recording, ready));
        Ok(())
    }

    /// Hands on the last speaker.
    pub(super) fn finish<E>(&mut self, write: &mut impl FnMut(&Recording, &Ready) -> Result<(), E>) -> Result<(), E> {
        let mut mean = Mean::default();
        for (_, ready) in &self.held {
            mean.add(&ready.features);
        }
        for (recording, mut ready) in self.held.drain(..) {
            mean.subtract(&mut ready.features);
            ready.features = self.treatment.with_deltas(&ready.features);
            write(recording, &ready)?;
        }
        Ok(())
    }
}
