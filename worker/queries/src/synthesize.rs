//! Makes query logs of any size for a demo, a measurement or a test: marked as synthetic, labelled, in sessions,
//! seeded.
//!
//! Texts come from a fixed list of phrases with slots ([`text`]). Their frequencies follow Zipf's law over the
//! requested number of different texts. The same configuration gives the same log. Next to a log lies
//! `<log>.about.json`, which describes the log and marks it as synthetic. Such queries are easier than people's:
//! results on them show that the machinery works, and nothing more.

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Zipf};
use serde::Serialize;

use super::log::LogFormat;
use undertone_worker_site::progress::ProgressReporter;

mod templates;
mod write;

pub use templates::{INTENTS, text};

/// Rows between two progress updates.
const TELL: u64 = 1 << 14;

/// The configuration of a synthetic log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SyntheticConfig {
    /// Rows, at least 1.
    pub rows: u64,
    /// Largest number of different texts, at least 1.
    pub queries: u64,
    /// The exponent of Zipf's law: the text of rank r has a frequency proportional to r to the power of minus this.
    /// From 0 (all equally frequent) to 10.
    pub exponent: f64,
    /// Rows of a session on average, at least 1.
    pub session: f64,
    /// Share of the sessions whose `split` is `test`, 0 to 1; the others' is `train`.
    pub test: f64,
    /// Share of the rows that are broken, 0 to 1; not for Parquet.
    pub malformed: f64,
    /// The seed of all randomness.
    pub seed: u64,
}

impl SyntheticConfig {
    /// Returns the defaults for a log of `rows` rows.
    pub fn new(rows: u64, seed: u64) -> Self {
        Self {
            rows,
            queries: rows.div_ceil(10).max(1000),
            exponent: 1.1,
            session: 4.0,
            test: 0.0,
            malformed: 0.0,
            seed,
        }
    }

    /// # Errors
    /// [`SynthesizeError::Config`] naming the invalid option.
    fn check(&self) -> Result<(), SynthesizeError> {
        let refuse = |field, reason: &str| Err(SynthesizeError::Config { field, reason: reason.to_owned() });
        if self.rows == 0 {
            return refuse("--rows", "at least 1");
        }
        if !(1..=1_u64 << 48).contains(&self.queries) {
            return refuse("--distinct", "between 1 and 2^48");
        }
        if !(0.0..=10.0).contains(&self.exponent) {
            return refuse("--exponent", "between 0 and 10");
        }
        if !(1.0..=1e6).contains(&self.session) {
            return refuse("--session-rows", "between 1 and 1000000");
        }
        if !(0.0..=1.0).contains(&self.test) {
            return refuse("--test-share", "between 0 and 1");
        }
        if !(0.0..=1.0).contains(&self.malformed) {
            return refuse("--malformed-share", "between 0 and 1");
        }
        Ok(())
    }
}

/// Why no log was made.
#[derive(Debug, thiserror::Error)]
pub enum SynthesizeError {
    /// An invalid configuration.
    #[error("{field}: {reason}")]
    Config {
        /// The argument.
        field: &'static str,
        /// The fault and the remedy.
        reason: String,
    },
    /// The output cannot be written.
    #[error("cannot write {path}: check --output")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

/// One synthetic query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyntheticQuery<'a> {
    /// The rank of its text, from 1: the most frequent first.
    pub rank: u64,
    /// The text of the query.
    pub text: &'a str,
    /// Its intent: one of [`INTENTS`].
    pub intent: &'static str,
    /// The number of its session, from 1.
    pub session: u64,
    /// Whether its session is for tests.
    pub test: bool,
}

/// Draws queries in an endless sequence; the buffer of the text is reused.
#[derive(Debug, Clone)]
pub struct QueryGenerator {
    rng: ChaCha8Rng,
    ranks: Zipf<f64>,
    config: SyntheticConfig,
    session: u64,
    test: bool,
    text: String,
}

impl QueryGenerator {
    /// Makes a generator of this configuration; it does not stop after the configured rows.
    ///
    /// # Errors
    /// [`SynthesizeError::Config`] naming the invalid option.
    pub fn new(config: &SyntheticConfig) -> Result<Self, SynthesizeError> {
        config.check()?;
        let ranks = Zipf::new(config.queries as f64, config.exponent)
            .map_err(|error| SynthesizeError::Config { field: "--exponent", reason: error.to_string() })?;
        let rng = ChaCha8Rng::seed_from_u64(config.seed);
        Ok(Self { rng, ranks, config: config.clone(), session: 0, test: false, text: String::new() })
    }

    /// Returns the next query.
    pub fn draw(&mut self) -> SyntheticQuery<'_> {
        if self.session == 0 || self.rng.random::<f64>() * self.config.session < 1.0 {
            self.session += 1;
            self.test = self.rng.random::<f64>() < self.config.test;
        }
        let rank = (self.ranks.sample(&mut self.rng) as u64).clamp(1, self.config.queries);
        self.text.clear();
        let intent = templates::write(rank, &mut self.text);
        SyntheticQuery { rank, text: &self.text, intent, session: self.session, test: self.test }
    }

    /// Decides whether the next row is malformed, and in which way.
    fn breaks(&mut self) -> Option<u32> {
        // Draws no number if the log has no malformed rows, so that its queries equal those of other shares.
        (self.config.malformed > 0.0 && self.rng.random::<f64>() < self.config.malformed)
            .then(|| self.rng.random_range(0..3))
    }
}

/// The description of a log, saved next to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SyntheticReport {
    /// Always true: no person asked any of these queries.
    pub synthetic: bool,
    /// The configuration.
    pub config: SyntheticConfig,
    /// The log's name.
    pub log: String,
    /// Its columns.
    pub columns: [&'static str; 4],
    /// Sessions in it.
    pub sessions: u64,
    /// Malformed rows.
    pub malformed: u64,
    /// The values of its column `intent`.
    pub intents: &'static [&'static str],
}

impl SyntheticReport {
    fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("plain text and finite numbers") + "\n"
    }
}

/// Writes a log in the format of its name. It appears whole, or not at all.
///
/// # Errors
/// [`SynthesizeError`]. In that case the output does not exist.
pub fn log(
    config: &SyntheticConfig,
    output: &Path,
    progress: &dyn ProgressReporter,
) -> Result<SyntheticReport, SynthesizeError> {
    let format = LogFormat::from_path(output).ok_or_else(|| SynthesizeError::Config {
        field: "--output",
        reason: "a name that ends in .csv, .tsv, .jsonl or .parquet".to_owned(),
    })?;
    if output.symlink_metadata().is_ok() {
        return Err(SynthesizeError::Config {
            field: "--output",
            reason: format!("{} exists already", output.display()),
        });
    }
    if format == LogFormat::Parquet && config.malformed > 0.0 {
        let reason = "Parquet has no broken rows: leave it out, or write CSV or JSON Lines".to_owned();
        return Err(SynthesizeError::Config { field: "--malformed-share", reason });
    }
    let mut generator = QueryGenerator::new(config)?;
    let mut about = output.as_os_str().to_owned();
    about.push(".about.json");
    let about = PathBuf::from(about);
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| SynthesizeError::Io { path, source }
    };
    if let Some(folder) = output.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(io(folder))?;
    }
    progress.start("Writing synthetic queries", config.rows);
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(output.file_name().unwrap_or_default());
    hidden.push(".new");
    let hidden = output.with_file_name(hidden);
    let malformed = write::all(&mut generator, format, &hidden, progress)
        .inspect_err(|_| drop(std::fs::remove_file(&hidden)))
        .map_err(io(&hidden))?;
    progress.finish();
    let report = SyntheticReport {
        synthetic: true,
        config: config.clone(),
        log: output.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        columns: write::COLUMNS,
        sessions: generator.session,
        malformed,
        intents: &INTENTS,
    };
    let text = report.to_json();
    std::fs::write(&about, text).map_err(io(&about))?;
    std::fs::rename(&hidden, output).map_err(io(output))?;
    Ok(report)
}

#[cfg(test)]
mod tests;
