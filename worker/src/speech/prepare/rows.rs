//! Rows on their way into the dataset: written as they come, or, where a mean over all of a speaker is subtracted, once the
//! speaker is complete. Where there are users, the mean is over what a speaker said for one user.

use std::collections::BTreeMap;

use super::scan::Recording;
use super::units::Units;
use super::work::Ready;
use crate::speech::features::{Mean, Normalization, Treatment};

/// Holds what cannot be written yet: the coefficients of one speaker, 52 bytes a frame.
pub(super) struct Rows<'a> {
    treatment: Treatment,
    users: Option<&'a Units>,
    held: Vec<(&'a Recording, Box<Ready>)>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(treatment: Treatment, users: Option<&'a Units>) -> Self {
        Self { treatment, users, held: Vec::new() }
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
        let users = self.users;
        let user = |recording: &Recording| users.and_then(|users| users.of(&recording.id));
        let mut means: BTreeMap<Option<&str>, Mean> = BTreeMap::new();
        for (recording, ready) in &self.held {
            means.entry(user(recording)).or_default().add(&ready.features);
        }
        for (recording, mut ready) in std::mem::take(&mut self.held) {
            if let Some(mean) = means.get(&user(recording)) {
                mean.subtract(&mut ready.features);
            }
            ready.features = self.treatment.with_deltas(&ready.features);
            write(recording, &ready)?;
        }
        Ok(())
    }
}
