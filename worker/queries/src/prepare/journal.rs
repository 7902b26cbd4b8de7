//! The progress of a preparation, so that another process can continue: all state that the rest of the log does not
//! repeat.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datasketches::hll::{HllSketch, HllType};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::report::RowTally;
use crate::dataset::{DatasetPart, RowRef, Subset, SubsetCounts};
use crate::log::{LogPosition, RejectReason};

/// 2¹⁴ registers of one byte: a standard error of 0.8 %.
const REGISTERS: u8 = 14;

/// The progress of a preparation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JournalState {
    /// The fingerprint of the preparation's options.
    pub(super) of: String,
    /// Whether all rows are read.
    pub(super) complete: bool,
    /// The next log, and the position in it.
    pub(super) file: usize,
    pub(super) place: LogPosition,
    pub(super) parts: Vec<DatasetPart>,
    pub(super) labels: Vec<String>,
    pub(super) tally: RowTally,
    train: SubsetSizes,
    test: SubsetSizes,
}

/// The size of a subset so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct SubsetSizes {
    rows: u64,
    occurrences: u64,
    users: DistinctSketch,
    texts: DistinctSketch,
}

impl JournalState {
    /// Starts without any progress, with the declared labels.
    pub(super) fn new(of: &str, labels: &[String]) -> Self {
        Self {
            of: of.to_owned(),
            complete: false,
            file: 0,
            place: LogPosition::default(),
            parts: Vec::new(),
            labels: labels.to_vec(),
            tally: RowTally::default(),
            train: SubsetSizes::default(),
            test: SubsetSizes::default(),
        }
    }

    /// Returns the size of a subset.
    pub(super) fn counts(&self, subset: Subset) -> SubsetCounts {
        let sizes = match subset {
            Subset::Train => &self.train,
            Subset::Test => &self.test,
        };
        let (rows, occurrences) = (sizes.rows, sizes.occurrences);
        // An estimate may exceed the possible maximum.
        SubsetCounts {
            rows,
            occurrences,
            users: sizes.users.estimate().min(rows),
            texts: sizes.texts.estimate().min(rows),
        }
    }

    /// Counts a row that is kept.
    pub(super) fn keep(&mut self, row: RowRef<'_>, subset: Subset, changed: bool) {
        let sizes = match subset {
            Subset::Train => &mut self.train,
            Subset::Test => &mut self.test,
        };
        sizes.rows += 1;
        sizes.occurrences += row.count;
        sizes.texts.0.update(row.text);
        if let Some(user) = row.user {
            sizes.users.0.update(user);
        }
        self.tally.keep(self.file, row.label, changed);
    }

    /// Counts a row of a subset that was not requested.
    pub(super) fn outside(&mut self) {
        self.tally.outside(self.file);
    }

    /// Counts an unusable row, and may keep it as an example.
    pub(super) fn bad(&mut self, reason: RejectReason, line: u64, excerpt: String) {
        self.tally.bad(self.file, reason, line, excerpt);
    }
}

/// An approximate count of distinct values.
#[derive(Debug, Clone)]
struct DistinctSketch(HllSketch);

impl Default for DistinctSketch {
    fn default() -> Self {
        Self(HllSketch::new(REGISTERS, HllType::Hll8).expect("between 4 and 21"))
    }
}

impl DistinctSketch {
    fn estimate(&self) -> u64 {
        self.0.estimate().round() as u64
    }
}

impl Serialize for DistinctSketch {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(self.0.serialize()))
    }
}

impl<'de> Deserialize<'de> for DistinctSketch {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)?;
        HllSketch::deserialize(&bytes).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::DistinctSketch;

    #[test]
    fn saved_sketch_continues_unchanged() {
        let mut whole = DistinctSketch::default();
        let mut broken = DistinctSketch::default();
        for n in 0_u64..120_000 {
            whole.0.update(n % 70_000);
            broken.0.update(n % 70_000);
            // Below, at and above the sizes at which the sketch changes its representation.
            if [0, 5, 40, 2000, 30_000, 100_000].contains(&n) {
                broken = serde_json::from_str(&serde_json::to_string(&broken).unwrap()).unwrap();
            }
        }
        assert_eq!(whole.estimate(), broken.estimate());
        let off = whole.estimate() as f64 / 70_000.0 - 1.0;
        assert!(off.abs() < 0.03, "{off}");
    }
}
