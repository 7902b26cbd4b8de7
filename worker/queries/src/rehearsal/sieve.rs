//! The gate's output on a public log for a rate and a threshold, checked against an exact count of the same sample.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::active_learning::Gate as Settings;
use undertone_privacy::kanon::Shown as Manner;
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate};

use crate::config::Queries;
use crate::dataset::Row;
use crate::gate::{Gate, GateError, is_question};
use crate::sample::coins::RateCoins;
use undertone_worker_site::clearance::PublicProof;
use undertone_worker_training::randomness::{Purpose, Randomness};

/// Why a sieve failed.
#[derive(Debug, thiserror::Error)]
pub enum SieveError {
    /// The gate failed.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The log cannot be read again for the exact count.
    #[error("the rows of the public log cannot be read")]
    Rows(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// The gate's output for one sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrialOutput {
    /// The texts, in a meaningless order.
    pub texts: Vec<String>,
    /// Number of texts that the gate must not show: those with fewer than k kept rows by an exact count.
    pub violations: u64,
    /// Number of texts with k kept rows that the gate does not show.
    pub missed: u64,
}

/// A gate for rehearsals.
pub trait GateTrial {
    /// Draws one sample at `rate` from `seed`, and returns its texts with at least `threshold` kept rows.
    ///
    /// # Errors
    /// [`SieveError`] when the gate fails.
    fn run(&mut self, rate: SamplingRate, threshold: NonZeroU32, seed: u64) -> Result<TrialOutput, SieveError>;
}

/// The gate of a job, on a public log.
pub struct GateSieve<'a, F> {
    /// Restarts the rows of the log, always in the same order.
    pub rows: F,
    /// The approximate number of occurrences.
    pub occurrences: u64,
    /// The site's statement that the log is public.
    pub published: &'a PublicProof,
    /// The unit that the gate protects.
    pub unit: PrivacyUnit,
    /// Largest number of texts of one unit.
    pub rows_per_unit: NonZeroU32,
    /// The configuration of the counting engine.
    pub queries: &'a Queries,
    /// The work folder.
    pub work: &'a Path,
}

impl<F, I, E> GateTrial for GateSieve<'_, F>
where
    F: Fn() -> I,
    I: Iterator<Item = Result<Row, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn run(&mut self, rate: SamplingRate, threshold: NonZeroU32, seed: u64) -> Result<TrialOutput, SieveError> {
        let settings = Settings {
            sampling_rate: rate,
            threshold,
            // A rehearsal has no charge; with counts, so that each can be compared with the exact one.
            epsilon: Epsilon::new(1.0).unwrap_or_else(|_| unreachable!("1 is an epsilon")),
            shown: Manner::Counts,
            rows_per_unit: self.rows_per_unit,
        };
        let gate = Gate::new(settings, self.unit)?;
        let survivors =
            gate.survivors((self.rows)(), self.occurrences, self.queries, self.work, self.randomness(seed))?;
        let survivors = survivors.rehearsed(self.published);
        let (violations, missed) = match self.unit {
            PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::Words => {
                compare_counts(&survivors, &self.resample(rate, seed)?, threshold.get().into())
            }
            PrivacyUnit::User => (count_violations(&survivors, &self.users()?, threshold.get().into()), 0),
        };
        Ok(TrialOutput { texts: survivors.into_iter().map(|(text, _)| text).collect(), violations, missed })
    }
}

impl<F, I, E> GateSieve<'_, F>
where
    F: Fn() -> I,
    I: Iterator<Item = Result<Row, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Returns the coins of a seed: a public log needs no secret ones.
    fn randomness(&self, seed: u64) -> Randomness {
        let mut bytes = [0; 32];
        ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
        Randomness::rehearsed(self.published, Purpose::Rows, bytes)
    }

    /// Draws the sample again and counts it in memory, without sketch or engine.
    pub(super) fn resample(&self, rate: SamplingRate, seed: u64) -> Result<HashMap<String, u64>, SieveError> {
        let mut coins = RateCoins::new(self.randomness(seed).stream(0), rate);
        let mut exact_counts: HashMap<String, u64> = HashMap::new();
        for row in (self.rows)() {
            let row = row.map_err(|error| SieveError::Rows(error.into()))?;
            if !is_question(&row.text) {
                continue;
            }
            match coins.binomial(row.count) {
                0 => {}
                copies => *exact_counts.entry(row.text).or_default() += copies,
            }
        }
        Ok(exact_counts)
    }

    /// Returns the number of users of each text. The selection of a user's texts is drawn afresh each time, so the
    /// sample itself cannot be counted again; the sample of a text has at most as many rows as the text has users.
    fn users(&self) -> Result<HashMap<String, u64>, SieveError> {
        let mut users: HashMap<String, HashSet<u128>> = HashMap::new();
        for row in (self.rows)() {
            let row = row.map_err(|error| SieveError::Rows(error.into()))?;
            if let Some(user) = row.user {
                users.entry(row.text).or_default().insert(user);
            }
        }
        Ok(users.into_iter().map(|(text, users)| (text, users.len() as u64)).collect())
    }
}

/// Returns the number of shown texts with fewer than k kept rows or a wrong count, and the number of texts with k kept
/// rows that are not shown.
pub(super) fn compare_counts(
    survivors: &[(String, u64)],
    exact_counts: &HashMap<String, u64>,
    threshold: u64,
) -> (u64, u64) {
    let wrong = |(text, count): &&(String, u64)| {
        let exact = exact_counts.get(text).copied().unwrap_or(0);
        exact < threshold || exact != *count
    };
    let violations = survivors.iter().filter(wrong).count() as u64;
    let texts: HashSet<&str> = survivors.iter().map(|(text, _)| text.as_str()).collect();
    let missed =
        exact_counts.iter().filter(|(text, count)| **count >= threshold && !texts.contains(text.as_str())).count();
    (violations, missed as u64)
}

/// Returns the number of shown texts with a count below k, or above the possible maximum.
fn count_violations(survivors: &[(String, u64)], most: &HashMap<String, u64>, threshold: u64) -> u64 {
    let wrong = |(text, count): &&(String, u64)| *count < threshold || *count > most.get(text).copied().unwrap_or(0);
    survivors.iter().filter(wrong).count() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{compare_counts, count_violations};

    #[test]
    fn comparison_detects_wrong_gate_output() {
        let exact_counts: HashMap<String, u64> =
            [("a", 5), ("b", 4), ("c", 6)].map(|(text, n)| (text.to_owned(), n)).into();
        let to_counts =
            |texts: &[(&str, u64)]| texts.iter().map(|(text, n)| ((*text).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(compare_counts(&to_counts(&[("a", 5), ("c", 6)]), &exact_counts, 5), (0, 0));
        assert_eq!(compare_counts(&to_counts(&[("a", 5), ("b", 5), ("c", 6)]), &exact_counts, 5), (1, 0));
        assert_eq!(compare_counts(&to_counts(&[("a", 9)]), &exact_counts, 5), (1, 1));
        assert_eq!(compare_counts(&to_counts(&[("z", 9)]), &exact_counts, 7), (1, 0));
        assert_eq!(count_violations(&to_counts(&[("a", 5), ("b", 5), ("c", 4)]), &exact_counts, 5), 2);
    }
}
