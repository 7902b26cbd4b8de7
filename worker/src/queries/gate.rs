//! The gate: of a private log nothing leaves but the texts that at least k of the sampled rows have (Li, Qardaji and Su 2012;
//! `privacy.md`, 6 and 7.4).
//!
//! 1. Where users are protected, the log is first cut down to one row for each user and text, and at most so many texts of each
//!    user as were charged for; by an exact plan of the counting engine, from each user's rows alone.
//! 2. One pass samples: every row for itself, with exactly the probability that is charged. What is kept goes to a file without a
//!    name and into a [`Nominator`], which can leave out only what has too few kept rows.
//! 3. A second pass hands the kept rows of nominated texts to the counting engine, whose counts are exact. What has k is a survivor.
//!
//! So survivors and counts are those of exact counting, whatever the hashes were; the nominator changes time and disk only. Memory
//! is flat: a table of fixed size, then the engine within its bounds, then as many survivors as a pool may have. [`Survivors`] are
//! private; [`Survivors::release`] is the only way out, and it wants a grant for exactly this. The site pays before the pool leaves.
//!
//! Which guarantee follows: counted by record, one row of the log is hidden. Counted by user, one user is, as a group of at most
//! `rows_per_unit` rows; a row that has no user is left out then, because nobody can say whose it is.

mod candidates;
mod survivors;
#[cfg(test)]
mod tests;

use std::path::Path;

use rand_chacha::rand_core::Rng;
use undertone_api::job::active_learning::Gate as Settings;
use undertone_api::question::MOST_CHARACTERS;
use undertone_privacy::{Event, PrivacyUnit, SamplingRate};

use super::count::{self, CountError, Engine, UserRows};
use super::dataset::Row;
use super::sample::coins::Coins;
use super::sample::{self, Keep, Sample, SampleError};
use super::scratch::Scratch;
use super::sketch::{Key, Nominator, SketchError};
use crate::config::queries::Queries;
use crate::dp::randomness::{Purpose, Randomness};
use crate::site::folder::FolderError;

pub use survivors::{OutgoingPool, Survivors};

/// Why nothing comes through. No message contains a text, or a number of the log.
#[derive(Debug, thiserror::Error)]
pub enum GateError {
    /// A unit that a log does not have.
    #[error("a query log protects records or users, not {0:?}: change the job's unit")]
    Unit(PrivacyUnit),
    /// More rows of a record than one.
    #[error("a record is one row: `rows_per_unit` must be 1 where records are protected, not {0}")]
    RowsPerRecord(u32),
    /// Users are to be protected of whom nothing is known.
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
    /// Something else was granted.
    #[error("the site grants {granted:?}, but the pool would be {made:?}: spec and manifest disagree")]
    WrongEvent {
        /// What was granted.
        granted: Box<Event>,
        /// What would be made.
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

/// Where and how rows are counted.
struct Counting<'a> {
    engine: &'a dyn Engine,
    scratch: &'a Scratch,
    /// Bytes of the nominator at most.
    memory: usize,
}

impl Gate {
    /// The gate that a job describes, for the unit that it protects.
    ///
    /// # Errors
    /// [`GateError::Unit`] or [`GateError::RowsPerRecord`] for what no log can keep.
    pub fn new(settings: Settings, unit: PrivacyUnit) -> Result<Self, GateError> {
        match unit {
            PrivacyUnit::Record if settings.rows_per_unit.get() != 1 => {
                Err(GateError::RowsPerRecord(settings.rows_per_unit.get()))
            }
            PrivacyUnit::Record | PrivacyUnit::User => Ok(Self { settings, unit }),
            PrivacyUnit::Speaker | PrivacyUnit::Words => Err(GateError::Unit(unit)),
        }
    }

    /// What a pool through it releases, and so what is to be paid.
    pub const fn event(&self) -> Event {
        self.settings.event()
    }

    /// Draws one sample of the rows and counts it. The randomness, which must be for [`Purpose::Rows`] and fresh, is used up.
    ///
    /// `occurrences`: about how many rows (or, where rows have counts, occurrences) there are, to size the first pass; a wrong number
    /// costs time, nothing else. `work`: the job's own folder; private rows lie in a folder of their own below it while this runs.
    ///
    /// # Errors
    /// [`GateError`]; nothing has left then, and nothing lies in the work folder.
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
        let scratch = Scratch::new(work)?;
        let engine = count::open(queries, scratch.folder())?;
        let memory = ((queries.memory_mib as usize) << 20) / NOMINATOR_SHARE;
        let counting = Counting { engine: &*engine, scratch: &scratch, memory };
        let mut coins = Coins::new(randomness.stream(0), self.settings.sampling_rate);
        drop(randomness);
        self.pass(rows, occurrences, &counting, Key::fresh(), &mut coins)
    }

    /// Both passes, with any way to keep rows, to count them and to hash them.
    fn pass<E>(
        &self,
        rows: impl Iterator<Item = Result<Row, E>>,
        occurrences: u64,
        counting: &Counting<'_>,
        key: Key,
        keep: &mut impl Keep,
    ) -> Result<Survivors, GateError>
    where
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let kept = expected(occurrences, self.settings.sampling_rate);
        let threshold = self.settings.threshold.get();
        let mut nominator = Nominator::new(threshold, kept, counting.memory, key).map_err(GateError::Memory)?;
        let sample = match self.unit {
            PrivacyUnit::User => {
                let texts = self.of_users(rows, counting)?;
                let rows = texts.map(|text| text.map(|text| (text, 1)));
                sample::draw(rows, keep, counting.scratch, |text, copies| nominator.add(text, copies))?
            }
            PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::Words => {
                let rows = rows.filter(|row| row.as_ref().map_or(true, |row| is_question(&row.text)));
                let rows = rows.map(|row| row.map(|row| (row.text, row.count)));
                sample::draw(rows, keep, counting.scratch, |text, copies| nominator.add(text, copies))?
            }
        };
        self.counted(sample, nominator, counting)
    }

    /// One row for each user and text, at most as many of a user as are charged for.
    fn of_users<E>(
        &self,
        rows: impl Iterator<Item = Result<Row, E>>,
        counting: &Counting<'_>,
    ) -> Result<count::Texts, GateError>
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

    /// The second pass: exact counts of what was nominated.
    fn counted(&self, sample: Sample, nominator: Nominator, counting: &Counting<'_>) -> Result<Survivors, GateError> {
        let path = counting.scratch.folder().join("candidates.parquet");
        candidates::write(sample, &nominator, &path)?;
        drop(nominator);
        let counts = counting.engine.count(&path, self.settings.threshold.get().into())?;
        Survivors::of(counts, &self.settings)
    }
}

/// The nominator takes this part of the memory that counting may take, in addition to it.
const NOMINATOR_SHARE: usize = 4;

/// About how many of so many occurrences are kept.
fn expected(occurrences: u64, rate: SamplingRate) -> u64 {
    ((u128::from(occurrences) * u128::from(rate.numerator())) >> 32) as u64
}

/// Whether a text can be asked: the rule of the wire. What cannot is left out before anything is sampled, by its own text alone.
pub(in crate::queries) fn is_question(text: &str) -> bool {
    let long = text.len() > MOST_CHARACTERS && text.chars().count() > MOST_CHARACTERS;
    !long && !text.trim().is_empty() && !text.chars().any(char::is_control)
}
