//! The labels of an utterance, as runs of frames of one class, and of all utterances of a file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::lines::BadLine;

/// Maximum frames of an utterance: a day of speech.
pub(super) const MOST_FRAMES: u64 = 8_640_000;

/// The labels of one utterance, as runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    /// Class and number of frames, in order of time; no run is empty.
    pub(super) runs: Vec<(u16, u32)>,
    pub(super) frames: usize,
}

/// Labels and features that cannot belong to the same recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{labels} labels for {features} feature frames, more than {tolerance} apart")]
pub struct LengthMismatch {
    /// Number of frames of the alignment.
    pub labels: usize,
    /// Number of frames of the features.
    pub features: usize,
    /// The allowed difference.
    pub tolerance: usize,
}

impl Alignment {
    /// Returns the number of frames.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Returns the classes with their numbers of frames, in order of time.
    pub fn runs(&self) -> &[(u16, u32)] {
        &self.runs
    }

    /// Returns one label for each frame that both the labels and `features` frames of features cover.
    ///
    /// # Errors
    /// [`LengthMismatch`] if the two differ by more than `tolerance` frames.
    pub fn labels(&self, features: usize, tolerance: usize) -> Result<Vec<u16>, LengthMismatch> {
        if self.frames.abs_diff(features) > tolerance {
            return Err(LengthMismatch { labels: self.frames, features, tolerance });
        }
        let each = self.runs.iter().flat_map(|(class, frames)| std::iter::repeat_n(*class, *frames as usize));
        Ok(each.take(features).collect())
    }
}

/// All alignments of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AlignmentSet {
    /// By utterance id.
    pub by_id: BTreeMap<String, Alignment>,
    /// The skipped lines.
    pub bad_lines: Vec<BadLine>,
}

impl AlignmentSet {
    /// Adds an utterance; the first of two with one id is kept.
    pub(super) fn insert(&mut self, id: String, alignment: Alignment) -> Result<(), String> {
        match self.by_id.entry(id) {
            Entry::Occupied(_) => Err("there is an earlier line for this utterance".to_owned()),
            Entry::Vacant(place) => {
                place.insert(alignment);
                Ok(())
            }
        }
    }
}
