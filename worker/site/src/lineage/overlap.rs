//! The data that two datasets have in common, as errors and summaries describe it.

use std::fmt;

use super::fingerprint::FingerprintKind;

/// A dataset named in an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownDataset {
    /// The dataset's name.
    pub name: String,
    /// The worker that has it; `None` for this worker.
    pub worker: Option<String>,
}

impl fmt::Display for KnownDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.worker {
            None => write!(f, "the dataset `{}`", self.name),
            Some(worker) => write!(f, "the dataset `{}` of the worker `{worker}`", self.name),
        }
    }
}

/// The common data of two datasets: lower bounds, from fingerprints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataOverlap {
    /// The number of recordings.
    pub recordings: usize,
    /// The number of speakers and users, by id.
    pub people: usize,
    /// The number of runs of eight rows of a query log.
    pub rows: usize,
    /// The number of whole datasets.
    pub datasets: usize,
}

impl DataOverlap {
    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    pub(super) fn add(&mut self, kind: FingerprintKind, count: usize) {
        let place = match kind {
            // A recording has one fingerprint of each kind, but is one recording.
            FingerprintKind::File | FingerprintKind::Audio => &mut self.recordings,
            FingerprintKind::Person => &mut self.people,
            FingerprintKind::Rows => &mut self.rows,
            FingerprintKind::Dataset => &mut self.datasets,
        };
        *place = count.max(*place);
    }

    /// Returns a hint for common ids alone: ids may coincide by chance, contents do not.
    pub(super) const fn hint(self) -> &'static str {
        if self.people > 0 && self.recordings == 0 && self.rows == 0 && self.datasets == 0 {
            ". Where the same ids name other people, give these ids of their own"
        } else {
            ""
        }
    }
}

impl fmt::Display for DataOverlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phrase = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let parts = [
            phrase(self.recordings, "recording", "recordings"),
            phrase(self.people, "speaker or user", "speakers or users"),
            phrase(self.rows, "passage of rows", "passages of rows"),
            phrase(self.datasets.min(1), "whole dataset", "whole datasets"),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(" and "))
    }
}
