//! Converts the labels of an aligner to the classes of a model.
//!
//! An aligner may know thousands of senones, of which a small corpus contains some hundreds. A map keeps the frequent
//! ones and combines the others in one class, the last. All participants of a job need the same map, so it is a small
//! JSON file for distribution.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The class of each label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum ClassMap {
    /// Label = class, with this number of classes.
    Identity(usize),
    /// Label `frequent[c]` is class `c`; every other label is class `frequent.len()`. Ascending, without repeats.
    Frequent(Vec<u16>),
}

/// Reasons why a file is not a class map.
#[derive(Debug, thiserror::Error)]
pub enum ClassMapError {
    /// The file cannot be read.
    #[error("cannot read the class map {path}: check --class-map")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a valid class map.
    #[error(
        "{path} is no class map ({reason}): take the classes.json of a dataset made with --least-frames or --classes"
    )]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
}

impl ClassMap {
    /// Returns the map with label = class.
    pub(super) fn identity(classes: usize) -> Self {
        Self::Identity(classes)
    }

    /// Returns the map of labels with at least `least` frames in `runs` of (label, frames).
    pub(super) fn frequent(runs: impl Iterator<Item = (u16, u32)>, least: u64) -> Self {
        let mut frames: BTreeMap<u16, u64> = BTreeMap::new();
        for (label, count) in runs {
            *frames.entry(label).or_default() += u64::from(count);
        }
        // 65,536 labels and one class for the rest would be one class too many; in that case there is no rest.
        let labels = frames.into_iter().filter(|(_, count)| *count >= least).map(|(label, _)| label);
        Self::Frequent(labels.take(usize::from(u16::MAX)).collect())
    }

    /// Reads a map that a preparation wrote.
    ///
    /// # Errors
    /// [`ClassMapError`] with the file and the problem.
    pub fn read(path: &Path) -> Result<Self, ClassMapError> {
        let text = std::fs::read(path).map_err(|source| ClassMapError::Io { path: path.to_path_buf(), source })?;
        let invalid = |reason: String| ClassMapError::Invalid { path: path.to_path_buf(), reason };
        let map: Self = serde_json::from_slice(&text).map_err(|error| invalid(error.to_string()))?;
        match &map {
            Self::Identity(classes) if !(1..=65_536).contains(classes) => {
                Err(invalid(format!("{classes} classes: between 1 and 65536")))
            }
            Self::Frequent(labels) if labels.len() > usize::from(u16::MAX) || !labels.is_sorted_by(|a, b| a < b) => {
                Err(invalid("its labels are not ascending".to_owned()))
            }
            _ => Ok(map),
        }
    }

    /// Returns the number of classes.
    pub fn classes(&self) -> usize {
        match self {
            Self::Identity(classes) => *classes,
            Self::Frequent(labels) => labels.len() + 1,
        }
    }

    /// Returns the class of a label; `None` if there is none.
    pub fn class(&self, label: u16) -> Option<u16> {
        match self {
            Self::Identity(classes) => (usize::from(label) < *classes).then_some(label),
            Self::Frequent(labels) => Some(labels.binary_search(&label).unwrap_or(labels.len()) as u16),
        }
    }

    /// Returns the map as text.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Identity(classes) => format!("{classes} classes as aligned"),
            Self::Frequent(labels) => format!("{} frequent classes as aligned, and one for the rest", labels.len()),
        }
    }
}
