//! Writes rows to the dataset immediately, or, where a mean over a speaker is subtracted, once the speaker is complete.
//! With users, the mean is over a speaker's recordings for one user.

use std::collections::BTreeMap;

use super::scan::ScannedRecording;
use super::units::UserTable;
use super::work::FeatureRow;
use crate::features::{MeanSum, Normalization, Treatment};

/// Buffers rows that cannot be written yet: the coefficients of one speaker, 52 bytes per frame.
pub(super) struct RowBuffer<'a> {
    treatment: Treatment,
    users: Option<&'a UserTable>,
    held: Vec<(&'a ScannedRecording, Box<FeatureRow>)>,
}

impl<'a> RowBuffer<'a> {
    pub(super) fn new(treatment: Treatment, users: Option<&'a UserTable>) -> Self {
        Self { treatment, users, held: Vec::new() }
    }

    /// Adds a row, in the order of speakers, and passes complete rows to `write`.
    pub(super) fn take<E>(
        &mut self,
        recording: &'a ScannedRecording,
        ready: Box<FeatureRow>,
        write: &mut impl FnMut(&ScannedRecording, &FeatureRow) -> Result<(), E>,
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

    /// Passes the rows of the last speaker to `write`.
    pub(super) fn finish<E>(
        &mut self,
        write: &mut impl FnMut(&ScannedRecording, &FeatureRow) -> Result<(), E>,
    ) -> Result<(), E> {
        let users = self.users;
        let user = |recording: &ScannedRecording| users.and_then(|users| users.user(&recording.id));
        let mut means: BTreeMap<Option<&str>, MeanSum> = BTreeMap::new();
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
