//! The gate: a private log releases only the texts that at least k of the sampled rows have (Li, Qardaji and Su 2012;
//! `privacy.md`, 6 and 7.4).
//!
//! 1. Where users are protected, an exact plan of the counting engine first reduces the log to one row for each user and text, and to at most the charged number of texts of each user, from each user's rows alone.
//! 2. One pass samples: every row independently, with exactly the charged probability. Kept rows go to a nameless file and into a [`Nominator`], which leaves out only texts with too few kept rows.
//! 3. A second pass counts the kept rows of nominated texts exactly, with the counting engine. The texts with at least k of them are survivors.
//!
//! Survivors and counts are therefore those of exact counting, for every outcome of the hashes; the nominator changes
//! time and disk only. Memory is bounded: a table of fixed size, then the engine within its bounds, then as many
//! survivors as a pool may have. [`Survivors`] are private. [`Survivors::release`] is the only way out, and it requires
//! a grant for exactly this release. The site's ledger charges the release before the pool leaves.
//!
//! Guarantee: counted by record, one row of the log is hidden. Counted by user, one user is hidden, as a group of at
//! most `rows_per_unit` rows; rows without a user are then left out, because their unit is unknown.

mod candidates;
mod survivors;
#[cfg(all(test, feature = "datafusion"))]
mod tests;

use std::path::Path;

use rand_chacha::rand_core::Rng;
use undertone_api::job::active_learning::Gate as Settings;
use undertone_api::question::MOST_CHARACTERS;
use undertone_privacy::{Event, PrivacyUnit, SamplingRate};

use super::count::{self, CountError, CountingEngine, UserRows};
use super::dataset::Row;
use super::sample::coins::RateCoins;
use super::sample::{self, CopySampler, Sample, SampleError};
use super::scratch::ScratchFolder;
use super::sketch::{Nominator, SketchError, SketchKey};
use crate::config::Queries;
use undertone_worker_site::folder::FolderError;
use undertone_worker_training::randomness::{Purpose, Randomness};

pub use survivors::{OutgoingPool, Survivors};

/// Why a gate failed. No message contains a text, or a number of the log.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A unit that a log does not have.
    #[error("a query log protects records or users, not {0:?}: change the job's unit")]
    Unit(PrivacyUnit),
    /// More than one row for a record.
    #[error("a record is one row: `rows_per_unit` must be 1 where records are protected, not {0}")]
    RowsPerRecord(u32),
    /// Users are to be protected, and the log has none.
    #[error("the log has no users: prepare it with a column of users, or protect records")]
    NoUsers,
    /// The sample could not be drawn.
    #[error(transparent)]
    Sample(#[from] SampleError),
    /// The sample could not be counted.
    #[error(transparent)]
    Count(#[from] CountError),
    /// There is no memory for the first pass.
    #[error("the first pass over the log has too little memory: raise queries.memory_mib in config.toml")]
    Memory(#[source] SketchError),
    /// The work folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The grant is for another release.
    #[error("the site grants {granted:?}, but the pool would be {made:?}: spec and manifest disagree")]
    WrongEvent {
        /// The granted event.
        granted: Box<Event>,
        /// The event of the pool.
        made: Box<Event>,
    },
    /// Private data without sampling.
    #[error("without sampling k-anonymity promises nothing: a sampling rate of 1 is for public data only")]
    Unsampled,
    /// The pool cannot be written down.
    #[error(transparent)]
    Pool(#[from] undertone_proto::question::QuestionError),
}

/// The gate of one participant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    settings: Settings,
    unit: PrivacyUnit,
}

/// The engine and the folder for counting.
struct CountingContext<'a> {
    engine: &'a dyn CountingEngine,
    scratch: &'a ScratchFolder,
    /// Upper bound of the nominator's memory, bytes.
    memory: usize,
}

impl Gate {
    /// Makes the gate that a job describes, for the unit that the job protects.
    ///
    /// # Errors
    /// [`GateError::Unit`] or [`GateError::RowsPerRecord`] for units that no log can protect.
    pub fn new(settings: Settings, unit: PrivacyUnit) -> Result<Self, GateError> {
        match unit {
            PrivacyUnit::Record if settings.rows_per_unit.get() != 1 => {
                Err(GateError::RowsPerRecord(settings.rows_per_unit.get()))
            }
            PrivacyUnit::Record | PrivacyUnit::User => Ok(Self { settings, unit }),
            PrivacyUnit::Speaker | PrivacyUnit::Words => Err(GateError::Unit(unit)),
        }
    }

    /// Returns the event of a pool of this gate, which the ledger charges.
    pub const fn event(&self) -> Event {
        self.settings.event()
    }

    /// Draws one sample of the rows and counts it. It consumes the randomness, which must be fresh and for
    /// [`Purpose::Rows`].
    ///
    /// `occurrences`: the approximate number of rows (or, for rows with counts, of occurrences), which sizes the first
    /// pass. A wrong number costs time only. `work`: the job's own folder; private rows lie in a folder below it while
    /// this runs.
    ///
    /// # Errors
    /// [`GateError`]. In that case no text has left, and the work folder holds no rows.
    pub fn survivors<E>(
        &self,
        rows: impl Iterator<Item = Result<Row, E>>,
        occurrences: u64,
        queries: &Queries,
        work: &Path,
        randomness: Randomness,
    ) -> Result<Survivors, GateError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if randomness.purpose() != Purpose::Rows {
            return Err(SampleError::Purpose(randomness.purpose()).into());
        }
        let scratch = ScratchFolder::new(work)?;
        let engine = count::open(queries, scratch.folder())?;
        let memory = ((queries.memory_mib as usize) << 20) / NOMINATOR_SHARE;
        let counting = CountingContext { engine: &*engine, scratch: &scratch, memory };
        let mut coins = RateCoins::new(randomness.stream(0), self.settings.sampling_rate);
        drop(randomness);
        self.pass(rows, occurrences, &counting, SketchKey::fresh(), &mut coins)
    }

    /// Runs both passes, with the given sampler, counting context and hash key.
    fn pass<E>(
        &self,
        rows: impl Iterator<Item = Result<Row, E>>,
        occurrences: u64,
        counting: &CountingContext<'_>,
        key: SketchKey,
        keep: &mut impl CopySampler,
    ) -> Result<Survivors, GateError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let expected_rows = expected(occurrences, self.settings.sampling_rate);
        let threshold = self.settings.threshold.get();
        let mut nominator =
            Nominator::new(threshold, expected_rows, counting.memory, key).map_err(GateError::Memory)?;
        let sample = match self.unit {
            PrivacyUnit::User => {
                let texts = self.reduce_to_users(rows, counting)?;
                let rows = texts.map(|text| text.map(|text| (text, 1)));
                sample::draw(rows, keep, counting.scratch, |text, copies| nominator.add(text, copies))?
            }
            PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::Words => {
                let rows = rows.filter(|row| row.as_ref().map_or(true, |row| is_question(&row.text)));
                let rows = rows.map(|row| row.map(|row| (row.text, row.count)));
                sample::draw(rows, keep, counting.scratch, |text, copies| nominator.add(text, copies))?
            }
        };
        self.count_nominated(sample, nominator, counting)
    }

    /// Reduces the rows to one for each user and text, at most the charged number of texts for each user.
    fn reduce_to_users<E>(
        &self,
        rows: impl Iterator<Item = Result<Row, E>>,
        counting: &CountingContext<'_>,
    ) -> Result<count::TextStream, GateError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = counting.scratch.folder().join("users.parquet");
        let mut users = UserRows::create(&path, Randomness::from_os(Purpose::Hashing).stream(1).next_u64())?;
        let (mut any, mut anonymous) = (false, false);
        for row in rows {
            let row = row.map_err(|error| SampleError::Rows(error.into()))?;
            match row.user {
                Some(user) if is_question(&row.text) => {
                    any = true;
                    users.push(user, &row.text)?;
                }
                Some(_) => any = true,
                None => anonymous = true,
            }
        }
        users.finish()?;
        if anonymous && !any {
            return Err(GateError::NoUsers);
        }
        Ok(counting.engine.distinct_users(&path, self.settings.rows_per_unit.get())?)
    }

    /// Runs the second pass: exact counts of the nominated texts.
    fn count_nominated(
        &self,
        sample: Sample,
        nominator: Nominator,
        counting: &CountingContext<'_>,
    ) -> Result<Survivors, GateError> {
        let path = counting.scratch.folder().join("candidates.parquet");
        candidates::write(sample, &nominator, &path)?;
        drop(nominator);
        let counts = counting.engine.count(&path, self.settings.threshold.get().into())?;
        Survivors::from_counts(counts, &self.settings)
    }
}

/// The nominator's memory is the counting memory divided by this, in addition to it.
const NOMINATOR_SHARE: usize = 4;

/// Returns the expected number of kept occurrences.
fn expected(occurrences: u64, rate: SamplingRate) -> u64 {
    ((u128::from(occurrences) * u128::from(rate.numerator())) >> 32) as u64
}

/// Returns true if a text can be a question under the rule of the wire. Other texts are left out before sampling, each
/// by its own text alone.
pub(crate) fn is_question(text: &str) -> bool {
    let long = text.len() > MOST_CHARACTERS && text.chars().count() > MOST_CHARACTERS;
    !long && !text.trim().is_empty() && !text.chars().any(char::is_control)
}
