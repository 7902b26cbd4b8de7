//! The options of a preparation, and the fingerprint that identifies an equal one.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};
use undertone_api::dataset::Visibility;
use undertone_api::question::MOST_CHARACTERS;

use super::{LONGEST_LABEL, PrepareError};
use crate::dataset::FORMAT;
use crate::dataset::user::KEY;
use crate::log::{LONGEST_ROW, LogError, ReadOptions};
use undertone_worker_site::normalize::{TextNormalization, unicode};

/// The default longest query, characters: the limit of a question.
pub const LONGEST: usize = MOST_CHARACTERS;
/// Rows between two points from which a preparation can continue.
const STRIDE: u64 = 1 << 20;

/// The most declared labels.
const MOST_LABELS: usize = 200;

/// The options of a preparation.
#[derive(Debug, Clone, PartialEq)]
pub struct PrepareOptions {
    /// The logs, one after another.
    pub inputs: Vec<PathBuf>,
    /// Options for reading them.
    pub reading: ReadOptions,
    /// The intended visibility of the data. Rows of CSV that is not public are lines.
    pub visibility: Visibility,
    /// The normalization of each query.
    pub normalization: TextNormalization,
    /// The longest normalized query to keep, characters.
    pub longest: usize,
    /// The labels in the order of their numbers, declared before the log is read; empty to number them as the log's rows
    /// bring them, which only public data may.
    pub labels: Vec<String>,
    /// The values of the column of subsets whose rows are held out for tests.
    pub test: Vec<String>,
    /// The values whose rows are for training; an empty list means all others.
    pub train: Vec<String>,
    /// The share to hold out of the training rows, 0 to 1: whole users if the log has users, otherwise whole queries,
    /// selected by a hash, so that additional rows never move one.
    pub hold_out: f64,
    /// The folder of the new dataset.
    pub output: PathBuf,
    /// Whether to replace an existing dataset. The line of versions, and with it the budget, continues.
    pub replace: bool,
    /// The name of the dataset.
    pub name: String,
    /// Now, RFC 3339 in UTC.
    pub created: String,
    /// Random bytes: the key of user ids, unless an interrupted preparation has one.
    pub key: [u8; KEY],
    /// Rows between two points from which it can continue, at least 1.
    pub stride: u64,
    /// An earlier step that made a row depend on other rows of its user, as dividing a text into rows does. Single rows
    /// are then no unit of the dataset.
    pub across_records: Option<&'static str>,
}

impl PrepareOptions {
    /// Returns the defaults: private, all rows, nothing held out, the default normalization.
    pub fn new(inputs: Vec<PathBuf>, reading: ReadOptions, output: &Path, name: &str, key: [u8; KEY]) -> Self {
        Self {
            inputs,
            reading,
            visibility: Visibility::Private,
            normalization: TextNormalization::default(),
            longest: LONGEST,
            labels: Vec::new(),
            test: Vec::new(),
            train: Vec::new(),
            hold_out: 0.0,
            output: output.to_path_buf(),
            replace: false,
            name: name.to_owned(),
            created: String::new(),
            key,
            stride: STRIDE,
            across_records: None,
        }
    }

    /// Returns the fingerprint of all options that affect the dataset. A preparation continues only under an equal
    /// fingerprint.
    pub(super) fn fingerprint(&self) -> Result<String, LogError> {
        #[derive(Serialize)]
        struct FingerprintInput<'a> {
            format: u32,
            unicode: String,
            inputs: Vec<(PathBuf, u64, i128)>,
            reading: &'a ReadOptions,
            normalization: TextNormalization,
            longest: usize,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            labels: &'a [String],
            test: &'a [String],
            train: &'a [String],
            hold_out: f64,
            stride: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            across_records: Option<&'static str>,
        }
        let stamp = |path: &PathBuf| {
            let file = path.metadata().map_err(LogError::io(path))?;
            let changed = file.modified().map_err(LogError::io(path))?;
            let since = changed.duration_since(std::time::UNIX_EPOCH).map_or(-1, |since| since.as_nanos() as i128);
            Ok::<_, LogError>((path.canonicalize().map_err(LogError::io(path))?, file.len(), since))
        };
        let of = FingerprintInput {
            format: FORMAT,
            unicode: unicode(),
            inputs: self.inputs.iter().map(stamp).collect::<Result<_, _>>()?,
            reading: &self.reading,
            normalization: self.normalization,
            longest: self.longest,
            labels: &self.labels,
            test: &self.test,
            train: &self.train,
            hold_out: self.hold_out,
            stride: self.stride,
            across_records: self.across_records,
        };
        let text = serde_json::to_vec(&of).expect("options are text and numbers; a path that is no text was refused");
        Ok(hex::encode(Sha256::digest(text)))
    }

    pub(super) fn check(&self) -> Result<(), PrepareError> {
        let refuse = |option, reason: &str| Err(PrepareError::Option { option, reason: reason.to_owned() });
        if self.inputs.is_empty() {
            return refuse("--queries", "names no file");
        }
        if self.inputs.iter().any(|path| path.to_str().is_none()) {
            return refuse("--queries", "a path that is not UTF-8: rename the file");
        }
        if !(0.0..=1.0).contains(&self.hold_out) {
            return refuse("--hold-out", "a share between 0 and 1");
        }
        if !(1..=LONGEST_ROW).contains(&self.longest) {
            return refuse("--longest-query", "between 1 and 1048576 characters");
        }
        self.check_labels()?;
        let subsets = !self.test.is_empty() || !self.train.is_empty();
        if subsets && self.reading.columns.subset.is_none() {
            return refuse("--subset-column", "which column says which rows are to learn from and which are held out?");
        }
        if !subsets && self.reading.columns.subset.is_some() {
            return refuse("--test-subset", "name the values of --subset-column that are held out (or --train-subset)");
        }
        if let Some(both) = self.test.iter().find(|value| self.train.contains(value)) {
            return refuse("--test-subset", &format!("{both:?} is also a --train-subset"));
        }
        Ok(())
    }

    fn check_labels(&self) -> Result<(), PrepareError> {
        let refuse = |reason: String| Err(PrepareError::Option { option: "--labels", reason });
        if self.labels.is_empty() {
            return Ok(());
        }
        if self.reading.columns.label.is_none() {
            return refuse("name the column that holds them with --label-column".to_owned());
        }
        if self.labels.len() > MOST_LABELS {
            return refuse(format!(
                "at most {MOST_LABELS} labels, as many as a job may have, not {}",
                self.labels.len()
            ));
        }
        let mut names = HashSet::new();
        for label in &self.labels {
            let is_short = (1..=LONGEST_LABEL).contains(&label.chars().count());
            if !is_short || label.trim() != label || label.chars().any(char::is_control) || !names.insert(label) {
                let reason = format!(
                    "{label:?} is not a label of its own of 1 to {LONGEST_LABEL} characters without blanks around it"
                );
                return refuse(reason);
            }
        }
        Ok(())
    }
}
