//! What a preparation found, counted; of the rows it could not use it shows a few. It shows queries: it stays at the site.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::Content;

use super::Options;
use crate::queries::dataset::{Counts, Meta};
use crate::queries::log::{Columns, Format, Reason};

/// As many bad rows of one reason are shown.
const SHOWN: usize = 10;

/// A row that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The number of its log among those that were read, from 0.
    pub file: usize,
    /// Its line there, or its row in Parquet, from 1.
    pub line: u64,
    /// How it begins, or the value that is wrong.
    pub excerpt: String,
}

/// The rows that could not be used for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Malformed {
    /// How many.
    pub rows: u64,
    /// A few of them, spread evenly: those whose place has the least hash.
    pub sample: Vec<Sample>,
}

/// What was counted so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    /// Rows of each log.
    files: Vec<u64>,
    outside: u64,
    changed: u64,
    malformed: BTreeMap<Reason, Malformed>,
    /// Kept rows by the number of their label, and those without one.
    labels: Vec<u64>,
    unlabelled: u64,
}

impl Tally {
    /// Rows read so far.
    pub(super) fn rows(&self) -> u64 {
        self.files.iter().sum()
    }

    fn row(&mut self, file: usize) {
        if self.files.len() <= file {
            self.files.resize(file + 1, 0);
        }
        self.files[file] += 1;
    }

    pub(super) fn keep(&mut self, file: usize, label: Option<u16>, changed: bool) {
        self.row(file);
        self.changed += u64::from(changed);
        match label.map(usize::from) {
            Some(label) => {
                if self.labels.len() <= label {
                    self.labels.resize(label + 1, 0);
                }
                self.labels[label] += 1;
            }
            None => self.unlabelled += 1,
        }
    }

    pub(super) fn outside(&mut self, file: usize) {
        self.row(file);
        self.outside += 1;
    }

    pub(super) fn bad(&mut self, file: usize, reason: Reason, line: u64, excerpt: String) {
        self.row(file);
        let Malformed { rows, sample } = self.malformed.entry(reason).or_default();
        *rows += 1;
        let place = |sample: &Sample| Sha256::digest(format!("{}\0{}", sample.file, sample.line));
        sample.push(Sample { file, line, excerpt });
        if sample.len() > SHOWN {
            let last = (0..sample.len()).max_by_key(|at| place(&sample[*at])).unwrap_or_default();
            sample.remove(last);
        }
    }

    /// Returns how many rows were left out for `reason`, and the first of those that are shown.
    pub(super) fn left_out(&self, reason: Reason) -> Option<(u64, &Sample)> {
        let Malformed { rows, sample } = self.malformed.get(&reason)?;
        Some((*rows, sample.iter().min_by_key(|sample| (sample.file, sample.line))?))
    }

    /// How many rows were left out why, in words.
    pub(super) fn summary(&self) -> String {
        let outside = (self.outside > 0).then(|| format!("{} of other subsets", self.outside));
        let malformed = self.malformed.iter().map(|(reason, Malformed { rows, .. })| format!("{rows} {reason}"));
        let parts: Vec<String> = outside.into_iter().chain(malformed).collect();
        if parts.is_empty() { "there are none".to_owned() } else { parts.join(", ") }
    }
}

/// One log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogFile {
    /// Its name.
    pub path: String,
    /// How it was read.
    pub format: Option<Format>,
    /// Rows found in it.
    pub rows: u64,
}

/// What was found, kept and left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Always [`Content::Queries`].
    pub content: Content,
    /// Name of the dataset.
    pub name: String,
    /// SHA-256 of its content.
    pub digest: String,
    /// The logs.
    pub files: Vec<LogFile>,
    /// Which columns meant what.
    pub columns: Columns,
    /// What was done to every query, in words.
    pub normalization: String,
    /// The versions of Unicode that did it.
    pub unicode: String,
    /// Rows found.
    pub rows: u64,
    /// Of them, rows of a subset that was not asked for.
    pub outside: u64,
    /// Of them, rows that could not be used, by reason.
    pub malformed: BTreeMap<Reason, Malformed>,
    /// Rows in the dataset to learn from.
    pub train: Counts,
    /// Rows in the dataset held out.
    pub test: Counts,
    /// Rows in the dataset whose query normalization changed.
    pub changed: u64,
    /// Rows in the dataset by label; none where the log has no labels.
    pub labels: BTreeMap<String, u64>,
    /// Rows in the dataset without a label.
    pub unlabelled: u64,
    /// Rows that an earlier run of the same preparation had read.
    pub resumed: u64,
}

impl Report {
    pub(super) fn new(options: &Options, meta: &Meta, tally: Tally, resumed: u64) -> Self {
        let rows = tally.rows();
        let file = |(at, path): (usize, &std::path::PathBuf)| LogFile {
            path: path.display().to_string(),
            format: options.reading.format_of(path).ok(),
            rows: tally.files.get(at).copied().unwrap_or_default(),
        };
        Self {
            content: Content::Queries,
            name: meta.name.clone(),
            digest: meta.digest.clone(),
            files: options.inputs.iter().enumerate().map(file).collect(),
            columns: meta.columns.clone(),
            normalization: meta.normalization.to_string(),
            unicode: meta.unicode.clone(),
            rows,
            outside: tally.outside,
            train: meta.train,
            test: meta.test,
            changed: tally.changed,
            labels: meta.labels.iter().cloned().zip(tally.labels).collect(),
            unlabelled: tally.unlabelled,
            malformed: tally.malformed,
            resumed,
        }
    }

    /// Rows that could not be used.
    pub fn malformed_rows(&self) -> u64 {
        self.malformed.values().map(|malformed| malformed.rows).sum()
    }
}

impl fmt::Display for Report {
    /// A table for the steward's terminal: counts, no queries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kept, users) = (self.train.rows + self.test.rows, self.columns.user.as_ref());
        let subset = |counts: Counts| {
            let Counts { rows, occurrences, users: people, texts } = counts;
            let users = users.map_or_else(String::new, |_| format!(", about {people} users"));
            format!("{rows} rows, {occurrences} occurrences, about {texts} different queries{users}")
        };
        writeln!(f, "Dataset          {}", self.name)?;
        writeln!(f, "Rows             {} found, {kept} kept", self.rows)?;
        writeln!(f, "To learn from    {}", subset(self.train))?;
        writeln!(f, "Held out         {}", subset(self.test))?;
        writeln!(f, "Normalized       {} ({} rows changed)", self.normalization, self.changed)?;
        if let Some(column) = users {
            writeln!(f, "Users            column {column}, hashed under a key that stays in the dataset's folder")?;
        }
        if let Some(column) = &self.columns.label {
            writeln!(
                f,
                "Labels           {} (column {column}); {} rows have none",
                self.labels.len(),
                self.unlabelled
            )?;
        }
        if self.resumed > 0 {
            writeln!(f, "Resumed          {} rows were read earlier", self.resumed)?;
        }
        if self.outside > 0 {
            writeln!(f, "Left out         {} rows of other subsets", self.outside)?;
        }
        for (reason, Malformed { rows, .. }) in &self.malformed {
            writeln!(f, "Left out         {rows} rows {reason} (some shown in report.json)")?;
        }
        if self.train.rows == 0 {
            writeln!(f, "Note             nothing to learn from: this dataset is for tests only")?;
        }
        write!(f, "Digest           {}", self.digest)
    }
}
