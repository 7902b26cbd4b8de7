//! The gate, with the counting engine as it ships. In `exact`: what comes through is what exact counting says, for every outcome of
//! every hash. In `promise`: every condition of `privacy.md`, 6.6, and the promise itself on logs so small that every sample can
//! be gone through. In `users`: the same where users are protected.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod exact;
mod promise;
mod users;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroU32;

use undertone_api::job::active_learning::Gate as Settings;
use undertone_privacy::kanon::Shown;
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate};
use undertone_proto::question::{self, Posed};

use super::{Counting, Gate, GateError, OutgoingPool, Survivors};
use crate::config::queries::Queries;
use crate::queries::count::Embedded;
use crate::queries::dataset::Row;
use crate::queries::sample::Keep;
use crate::queries::scratch::Scratch;
use crate::queries::sketch::Key;

/// Texts with their counts.
type Texts = BTreeMap<String, u64>;

fn settings(rate: f64, threshold: u32, shown: Shown) -> Settings {
    Settings {
        sampling_rate: SamplingRate::new(rate).unwrap(),
        threshold: NonZeroU32::new(threshold).unwrap(),
        epsilon: Epsilon::new(1.0).unwrap(),
        shown,
        rows_per_unit: NonZeroU32::MIN,
    }
}

fn of_records(threshold: u32) -> Gate {
    Gate::new(settings(0.25, threshold, Shown::Counts), PrivacyUnit::Record).unwrap()
}

fn row(text: &str, count: u64) -> Row {
    Row { text: text.to_owned(), user: None, count, label: None }
}

fn asked(text: &str, user: u128) -> Row {
    Row { text: text.to_owned(), user: Some(user), count: 1, label: None }
}

/// Keeps everything: a sample among others.
struct All;

impl Keep for All {
    fn keep(&mut self, copies: u64) -> u64 {
        copies
    }
}

/// Keeps the i-th copy when bit i is set.
struct Given(u64);

impl Keep for Given {
    fn keep(&mut self, copies: u64) -> u64 {
        let kept = (self.0 & ((1 << copies) - 1)).count_ones();
        self.0 >>= copies;
        kept.into()
    }
}

/// A site with an engine.
struct Site {
    work: tempfile::TempDir,
    engine: Embedded,
    /// Bytes of the first pass.
    memory: usize,
    key: u8,
}

/// 4 rows of 1,024 bytes.
const ROOMY: usize = 4096;
/// 4 rows of 2 bytes: every text collides with half of the others, in every row.
const TINY: usize = 8;

impl Site {
    fn new(memory: usize, key: u8) -> Self {
        let work = tempfile::tempdir().unwrap();
        let engine = Embedded::new(&Queries::default(), work.path()).unwrap();
        Self { work, engine, memory, key }
    }

    fn try_pass(&self, gate: Gate, rows: &[Row], keep: &mut impl Keep) -> Result<Survivors, GateError> {
        let scratch = Scratch::new(self.work.path()).unwrap();
        let counting = Counting { engine: &self.engine, scratch: &scratch, memory: self.memory };
        let rows = rows.iter().cloned().map(Ok::<_, Infallible>);
        gate.pass(rows, 1000, &counting, Key::in_test(self.key), keep)
    }

    fn pass(&self, gate: Gate, rows: &[Row], keep: &mut impl Keep) -> Texts {
        self.try_pass(gate, rows, keep).unwrap().exact()
    }
}

/// What the exact algorithm shows of these rows: the texts with at least k of them, and how many.
fn exactly(rows: &[Row], threshold: u64, keep: &mut impl Keep) -> Texts {
    let mut counts = Texts::new();
    for row in rows {
        *counts.entry(row.text.clone()).or_default() += keep.keep(row.count);
    }
    counts.retain(|_, count| *count >= threshold);
    counts
}

/// The questions of a pool, as the server reads them.
fn posed(pool: &OutgoingPool) -> Vec<Posed> {
    question::read(pool.bytes()).unwrap().collect::<Result<_, _>>().unwrap()
}
