//! How far a preparation is, so that another process can go on: everything that the rest of the log does not say again.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datasketches::hll::{HllSketch, HllType};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::report::Tally;
use crate::queries::dataset::{Counts, Part, RowRef, Subset};
use crate::queries::log::{Place, Reason};

/// 2¹⁴ registers of one byte: a standard error of 0.8 %.
const REGISTERS: u8 = 14;

/// How far a preparation is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct State {
    /// Of what it is the preparation.
    pub(super) of: String,
    /// Whether all is read.
    pub(super) complete: bool,
    /// The log that comes next, and the place in it.
    pub(super) file: usize,
    pub(super) place: Place,
    pub(super) parts: Vec<Part>,
    pub(super) labels: Vec<String>,
    pub(super) tally: Tally,
    train: Sizes,
    test: Sizes,
}

/// How much a subset holds so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Sizes {
    rows: u64,
    occurrences: u64,
    users: Distinct,
    texts: Distinct,
}

impl State {
    /// Nothing is done yet.
    pub(super) fn new(of: &str) -> Self {
        Self {
            of: of.to_owned(),
            complete: false,
            file: 0,
            place: Place::default(),
            parts: Vec::new(),
            labels: Vec::new(),
            tally: Tally::default(),
            train: Sizes::default(),
            test: Sizes::default(),
        }
    }

    /// How much a subset holds.
    pub(super) fn counts(&self, subset: Subset) -> Counts {
        let sizes = match subset {
            Subset::Train => &self.train,
            Subset::Test => &self.test,
        };
        let (rows, occurrences) = (sizes.rows, sizes.occurrences);
        // An estimate may go above what can be.
        Counts { rows, occurrences, users: sizes.users.estimate().min(rows), texts: sizes.texts.estimate().min(rows) }
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

    /// Counts a row of a subset that was not asked for.
    pub(super) fn outside(&mut self) {
        self.tally.outside(self.file);
    }

    /// Counts a row that cannot be used, and perhaps shows it.
    pub(super) fn bad(&mut self, reason: Reason, line: u64, excerpt: String) {
        self.tally.bad(self.file, reason, line, excerpt);
    }
}

/// Counts distinct values, roughly.
#[derive(Debug, Clone)]
struct Distinct(HllSketch);

impl Default for Distinct {
    fn default() -> Self {
        Self(HllSketch::new(REGISTERS, HllType::Hll8).expect("between 4 and 21"))
    }
}

impl Distinct {
    fn estimate(&self) -> u64 {
        self.0.estimate().round() as u64
    }
}

impl Serialize for Distinct {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(self.0.serialize()))
    }
}

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)?;
        HllSketch::deserialize(&bytes).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::Distinct;

    #[test]
    fn a_sketch_that_was_kept_goes_on_as_if_it_had_not_been() {
        let mut whole = Distinct::default();
        let mut broken = Distinct::default();
        for n in 0_u64..120_000 {
            whole.0.update(n % 70_000);
            broken.0.update(n % 70_000);
            // Below, at and above the sizes at which the sketch keeps its values in another way.
            if [0, 5, 40, 2000, 30_000, 100_000].contains(&n) {
                broken = serde_json::from_str(&serde_json::to_string(&broken).unwrap()).unwrap();
            }
        }
        assert_eq!(whole.estimate(), broken.estimate());
        let off = whole.estimate() as f64 / 70_000.0 - 1.0;
        assert!(off.abs() < 0.03, "{off}");
    }
}
