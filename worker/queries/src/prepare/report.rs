//! The findings of a preparation, in numbers, with a few examples of unusable rows. It shows queries: it stays at the
//! site.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::DatasetContent;

use super::PrepareOptions;
use crate::dataset::{Meta, SubsetCounts};
use crate::log::{ColumnMap, LogFormat, RejectReason};

/// Largest number of examples for one reason.
const SHOWN: usize = 10;

/// A row that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedRow {
    /// The number of its log among those that were read, from 0.
    pub file: usize,
    /// Its line there, or its row in Parquet, from 1.
    pub line: u64,
    /// The beginning of the row, or the value at fault.
    pub excerpt: String,
}

/// The rows that were rejected for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RejectedRows {
    /// Number of rows.
    pub rows: u64,
    /// A few of them, spread evenly: the rows whose positions have the smallest hashes.
    pub sample: Vec<RejectedRow>,
}

/// The counts so far.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct RowTally {
    /// Rows of each log.
    files: Vec<u64>,
    outside: u64,
    changed: u64,
    malformed: BTreeMap<RejectReason, RejectedRows>,
    /// Kept rows by the number of their label, and those without one.
    labels: Vec<u64>,
    unlabelled: u64,
}

impl RowTally {
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

    pub(super) fn bad(&mut self, file: usize, reason: RejectReason, line: u64, excerpt: String) {
        self.row(file);
        let RejectedRows { rows, sample } = self.malformed.entry(reason).or_default();
        *rows += 1;
        let place = |sample: &RejectedRow| Sha256::digest(format!("{}\0{}", sample.file, sample.line));
        sample.push(RejectedRow { file, line, excerpt });
        if sample.len() > SHOWN {
            let last = (0..sample.len()).max_by_key(|at| place(&sample[*at])).unwrap_or_default();
            sample.remove(last);
        }
    }

    /// Returns the number of rows that were rejected for `reason`, and the first example.
    pub(super) fn rejected_rows(&self, reason: RejectReason) -> Option<(u64, &RejectedRow)> {
        let RejectedRows { rows, sample } = self.malformed.get(&reason)?;
        Some((*rows, sample.iter().min_by_key(|sample| (sample.file, sample.line))?))
    }

    /// Returns the number of rejected rows for each reason, in words.
    pub(super) fn summary(&self) -> String {
        let outside = (self.outside > 0).then(|| format!("{} of other subsets", self.outside));
        let malformed = self.malformed.iter().map(|(reason, RejectedRows { rows, .. })| format!("{rows} {reason}"));
        let parts: Vec<String> = outside.into_iter().chain(malformed).collect();
        if parts.is_empty() { "there are none".to_owned() } else { parts.join(", ") }
    }
}

/// One log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogFile {
    /// Its name.
    pub path: String,
    /// The format that it was read in.
    pub format: Option<LogFormat>,
    /// Rows found in it.
    pub rows: u64,
}

/// The result of a preparation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PrepareReport {
    /// Always [`DatasetContent::Queries`].
    pub content: DatasetContent,
    /// Name of the dataset.
    pub name: String,
    /// SHA-256 of its content.
    pub digest: String,
    /// The logs.
    pub files: Vec<LogFile>,
    /// The meaning of the columns.
    pub columns: ColumnMap,
    /// The normalization of every query, in words.
    pub normalization: String,
    /// The versions of the Unicode tables.
    pub unicode: String,
    /// Rows found.
    pub rows: u64,
    /// Rows of a subset that was not requested.
    pub outside: u64,
    /// Unusable rows, by reason.
    pub malformed: BTreeMap<RejectReason, RejectedRows>,
    /// Rows in the dataset to learn from.
    pub train: SubsetCounts,
    /// Rows in the dataset held out.
    pub test: SubsetCounts,
    /// Rows in the dataset whose query normalization changed.
    pub changed: u64,
    /// Rows in the dataset by label; none where the log has no labels.
    pub labels: BTreeMap<String, u64>,
    /// Rows in the dataset without a label.
    pub unlabelled: u64,
    /// Rows that an earlier run of the same preparation had read.
    pub resumed: u64,
}

impl PrepareReport {
    pub(super) fn new(options: &PrepareOptions, meta: &Meta, tally: RowTally, resumed: u64) -> Self {
        let rows = tally.rows();
        let file = |(at, path): (usize, &std::path::PathBuf)| LogFile {
            path: path.display().to_string(),
            format: options.reading.format_of(path).ok(),
            rows: tally.files.get(at).copied().unwrap_or_default(),
        };
        Self {
            content: DatasetContent::Queries,
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

    /// Returns the number of unusable rows.
    pub fn malformed_rows(&self) -> u64 {
        self.malformed.values().map(|malformed| malformed.rows).sum()
    }
}

impl fmt::Display for PrepareReport {
    /// Writes a table for the steward's terminal: counts, no queries.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.train.rows + self.test.rows;
        let users = self.columns.user.as_ref();
        let subset = |counts: SubsetCounts| {
            let SubsetCounts { rows, occurrences, users: people, texts } = counts;
            let users = users.map_or_else(String::new, |_| format!(", about {people} users"));
            format!("{rows} rows, {occurrences} occurrences, about {texts} different queries{users}")
        };
        writeln!(f, "Dataset          {}", self.name)?;
        writeln!(f, "Rows             {} found, {rows} kept", self.rows)?;
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
        for (reason, RejectedRows { rows, .. }) in &self.malformed {
            writeln!(f, "Left out         {rows} rows {reason} (some shown in report.json)")?;
        }
        if self.train.rows == 0 {
            writeln!(f, "Note             nothing to learn from: this dataset is for tests only")?;
        }
        write!(f, "Digest           {}", self.digest)
    }
}
