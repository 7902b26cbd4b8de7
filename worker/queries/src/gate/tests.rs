//! The gate with the real counting engine. `exact`: the survivors equal those of exact counting, for every outcome of
//! every hash. `promise`: every condition of `privacy.md`, 6.6, and the guarantee itself on logs that are small enough
//! to enumerate every sample. `users`: the same for protected users.
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
use undertone_proto::question::{self, QuestionLine};

use super::{CountingContext, Gate, GateError, OutgoingPool, Survivors};
use crate::config::Queries;
use crate::count::EmbeddedEngine;
use crate::dataset::Row;
use crate::sample::CopySampler;
use crate::scratch::ScratchFolder;
use crate::sketch::SketchKey;

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

fn user_row(text: &str, user: u128) -> Row {
    Row { text: text.to_owned(), user: Some(user), count: 1, label: None }
}

/// Keeps everything: a sample among others.
struct KeepAll;

impl CopySampler for KeepAll {
    fn keep(&mut self, copies: u64) -> u64 {
        copies
    }
}

/// Keeps the i-th copy when bit i is set.
struct KeepBits(u64);

impl CopySampler for KeepBits {
    fn keep(&mut self, copies: u64) -> u64 {
        let copies_kept = (self.0 & ((1 << copies) - 1)).count_ones();
        self.0 >>= copies;
        copies_kept.into()
    }
}

/// A site with an engine.
struct TestSite {
    work: tempfile::TempDir,
    engine: EmbeddedEngine,
    /// Memory of the first pass, bytes.
    memory: usize,
    key: u8,
}

/// 4 rows of 1,024 bytes.
const ROOMY: usize = 4096;
/// 4 rows of 2 bytes: every text collides with half of the others, in every row.
const TINY: usize = 8;

impl TestSite {
    fn new(memory: usize, key: u8) -> Self {
        let work = tempfile::tempdir().unwrap();
        let engine = EmbeddedEngine::new(&Queries::default(), work.path()).unwrap();
        Self { work, engine, memory, key }
    }

    fn try_pass(&self, gate: Gate, rows: &[Row], keep: &mut impl CopySampler) -> Result<Survivors, GateError> {
        let scratch = ScratchFolder::new(self.work.path()).unwrap();
        let counting = CountingContext { engine: &self.engine, scratch: &scratch, memory: self.memory };
        let rows = rows.iter().cloned().map(Ok::<_, Infallible>);
        gate.pass(rows, 1000, &counting, SketchKey::in_test(self.key), keep)
    }

    fn pass(&self, gate: Gate, rows: &[Row], keep: &mut impl CopySampler) -> Texts {
        self.try_pass(gate, rows, keep).unwrap().exact()
    }
}

/// Returns the result of the exact algorithm: the texts with at least k kept rows, and their counts.
fn count_exactly(rows: &[Row], threshold: u64, keep: &mut impl CopySampler) -> Texts {
    let mut counts = Texts::new();
    for row in rows {
        *counts.entry(row.text.clone()).or_default() += keep.keep(row.count);
    }
    counts.retain(|_, count| *count >= threshold);
    counts
}

/// Reads the questions of a pool as the server does.
fn posed(pool: &OutgoingPool) -> Vec<QuestionLine> {
    question::read(pool.bytes()).unwrap().collect::<Result<_, _>>().unwrap()
}
