//! What of a public log is shown for a rate and a threshold: by the gate itself, held against an exact count of the same sample.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU32;
use std::path::Path;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use undertone_api::job::active_learning::Gate as Settings;
use undertone_privacy::kanon::Shown as Manner;
use undertone_privacy::{Epsilon, PrivacyUnit, SamplingRate};

use crate::config::queries::Queries;
use crate::dp::randomness::{Purpose, Randomness};
use crate::queries::dataset::Row;
use crate::queries::gate::{Gate, GateError, is_question};
use crate::queries::sample::coins::Coins;
use crate::site::clearance::Published;

/// Why nothing is shown.
#[derive(Debug, thiserror::Error)]
pub enum SieveError {
    /// The gate refuses, or fails.
    #[error(transparent)]
    Gate(#[from] GateError),
    /// The log cannot be read again to be counted.
    #[error("the rows of the public log cannot be read")]
    Rows(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What was shown of one sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// The texts, in no order that means anything.
    pub texts: Vec<String>,
    /// Of these, those that should not have been: with fewer than k kept rows by an exact count.
    pub violations: u64,
    /// Texts with k kept rows that are not shown.
    pub missed: u64,
}

/// Shows what of a log gets through.
pub trait Sieve {
    /// One sample at `rate`, drawn from `seed`, and what of it has `threshold` kept rows.
    ///
    /// # Errors
    /// [`SieveError`] when the gate fails.
    fn shown(&mut self, rate: SamplingRate, threshold: NonZeroU32, seed: u64) -> Result<Shown, SieveError>;
}

/// The gate of a job, on a public log.
pub struct GateSieve<'a, F> {
    /// Begins the rows of the log again, always in the same order.
    pub rows: F,
    /// About how many occurrences they are.
    pub occurrences: u64,
    /// The site's word that the log is public.
    pub published: &'a Published,
    /// Who would be protected.
    pub unit: PrivacyUnit,
    /// Most texts of one of them.
    pub rows_per_unit: NonZeroU32,
    /// Who counts.
    pub queries: &'a Queries,
    /// A folder to work in.
    pub work: &'a Path,
}

impl<F, I, E> Sieve for GateSieve<'_, F>
where
    F: Fn() -> I,
    I: Iterator<Item = Result<Row, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn shown(&mut self, rate: SamplingRate, threshold: NonZeroU32, seed: u64) -> Result<Shown, SieveError> {
        let settings = Settings {
            sampling_rate: rate,
            threshold,
            // Nothing is paid here; with counts, so that each can be held against its own.
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
                differences(&survivors, &self.kept(rate, seed)?, threshold.get().into())
            }
            PrivacyUnit::User => (beyond(&survivors, &self.users()?, threshold.get().into()), 0),
        };
        Ok(Shown { texts: survivors.into_iter().map(|(text, _)| text).collect(), violations, missed })
    }
}

impl<F, I, E> GateSieve<'_, F>
where
    F: Fn() -> I,
    I: Iterator<Item = Result<Row, E>>,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// The same coins each time: of a public log there is nothing to hide.
    fn randomness(&self, seed: u64) -> Randomness {
        let mut bytes = [0; 32];
        ChaCha20Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
        Randomness::rehearsed(self.published, Purpose::Rows, bytes)
    }

    /// The sample once more, counted in memory, without sketch or engine.
    pub(super) fn kept(&self, rate: SamplingRate, seed: u64) -> Result<HashMap<String, u64>, SieveError> {
        let mut coins = Coins::new(self.randomness(seed).stream(0), rate);
        let mut kept: HashMap<String, u64> = HashMap::new();
        for row in (self.rows)() {
            let row = row.map_err(|error| SieveError::Rows(error.into()))?;
            if !is_question(&row.text) {
                continue;
            }
            match coins.binomial(row.count) {
                0 => {}
                copies => *kept.entry(row.text).or_default() += copies,
            }
        }
        Ok(kept)
    }

    /// For each text, the users who asked it. Which of a user's texts enter a sample is drawn afresh each time, so the sample itself
    /// cannot be counted again; no text can have more of it than it has users.
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

/// What is shown and has not k kept rows or another number of them than is said; and what has k and is not shown.
pub(super) fn differences(survivors: &[(String, u64)], kept: &HashMap<String, u64>, threshold: u64) -> (u64, u64) {
    let wrong = |(text, count): &&(String, u64)| {
        let exact = kept.get(text).copied().unwrap_or(0);
        exact < threshold || exact != *count
    };
    let violations = survivors.iter().filter(wrong).count() as u64;
    let shown: HashSet<&str> = survivors.iter().map(|(text, _)| text.as_str()).collect();
    let missed = kept.iter().filter(|(text, count)| **count >= threshold && !shown.contains(text.as_str())).count();
    (violations, missed as u64)
}

/// What is shown with less than k, or with more than there can be.
fn beyond(survivors: &[(String, u64)], most: &HashMap<String, u64>, threshold: u64) -> u64 {
    let wrong = |(text, count): &&(String, u64)| *count < threshold || *count > most.get(text).copied().unwrap_or(0);
    survivors.iter().filter(wrong).count() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::{beyond, differences};

    #[test]
    fn a_gate_that_shows_too_much_too_little_or_a_wrong_count_is_seen() {
        let kept: HashMap<String, u64> = [("a", 5), ("b", 4), ("c", 6)].map(|(text, n)| (text.to_owned(), n)).into();
        let shown = |texts: &[(&str, u64)]| texts.iter().map(|(text, n)| ((*text).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(differences(&shown(&[("a", 5), ("c", 6)]), &kept, 5), (0, 0));
        assert_eq!(differences(&shown(&[("a", 5), ("b", 5), ("c", 6)]), &kept, 5), (1, 0));
        assert_eq!(differences(&shown(&[("a", 9)]), &kept, 5), (1, 1));
        assert_eq!(differences(&shown(&[("z", 9)]), &kept, 7), (1, 0));
        assert_eq!(beyond(&shown(&[("a", 5), ("b", 5), ("c", 4)]), &kept, 5), 2);
    }
}
