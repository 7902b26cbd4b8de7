//! A prepared dataset: features and labels of many utterances, in one memory-mapped file beside its description.
//!
//! A dataset is a folder of `data.bin` (see [`layout`]), `meta.json` ([`Meta`]) and `report.json` (what the preparation
//! found). It is never changed after it was written: [`Writer`] builds it in a hidden folder beside the target and renames
//! the whole, and [`Dataset::open`] refuses a folder whose content is not, to the byte, what its digest says. To add a
//! column, raise [`layout::VERSION`]; older files are then refused by number, not misread.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::{Content, usual_units};
use undertone_privacy::PrivacyUnit;

pub mod layout;
mod preparation;
pub(crate) mod staging;
mod writer;

pub use preparation::{ClassSource, PreparationRecord};
pub use writer::{Description, Writer};

use layout::{Entry, Header, Index};

use super::features::Treatment;

/// The file that holds features, labels and index.
pub const DATA_FILE: &str = "data.bin";
/// The file that holds [`Meta`] as JSON.
pub const META_FILE: &str = "meta.json";
/// The file that holds what the preparation found, for the site's own eyes.
pub const REPORT_FILE: &str = "report.json";

/// What an utterance may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// To learn from.
    Train,
    /// Held out: to measure with, never to learn from.
    Test,
}

/// How much one split holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SplitCounts {
    /// Utterances.
    pub utterances: usize,
    /// Distinct speakers.
    pub speakers: usize,
    /// Feature frames, at 100 a second.
    pub frames: u64,
    /// Distinct users; 0 where there is no column of users.
    #[serde(default)]
    pub users: usize,
}

/// What a dataset is, without any of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the binary layout, see [`layout`].
    pub format: u32,
    /// The name its owner gave it.
    pub name: String,
    /// Coefficients a frame.
    pub inputs: usize,
    /// Number of classes; every label is below it.
    pub classes: usize,
    /// Utterances in both splits.
    pub utterances: usize,
    /// Distinct speakers in both splits.
    pub speakers: usize,
    /// Frames in both splits.
    pub frames: u64,
    /// What may be learned from.
    pub train: SplitCounts,
    /// What is held out.
    pub test: SplitCounts,
    /// Sampling rate the features were computed at, Hz.
    pub sample_rate: u32,
    /// How the features were computed, in words.
    pub features: String,
    /// The part of that which decides what they depend on; absent in older descriptions, whose features depend on their
    /// utterance alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treatment: Option<Treatment>,
    /// What the labels are, in words.
    pub labels: String,
    /// The name of its column of users, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_column: Option<String>,
    /// The units that its data keep apart, ascending: what a job may protect.
    #[serde(default = "usual_units")]
    pub units: Vec<PrivacyUnit>,
    /// What the preparation computed across units; absent in older descriptions, whose preparations did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<PreparationRecord>,
    /// When it was written (RFC 3339, UTC). Not part of the digest.
    pub created: String,
    /// SHA-256 of `data.bin`, hexadecimal: the identity of the content (`sha256sum data.bin` shows the same).
    pub digest: String,
}

impl Meta {
    /// Counts of one split.
    pub fn split(&self, split: Split) -> SplitCounts {
        match split {
            Split::Train => self.train,
            Split::Test => self.test,
        }
    }
}

/// Why a dataset could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The file system refused.
    #[error("cannot {action} {path}: check that it exists and that this user may")]
    Io {
        /// What was tried, a verb.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Not a dataset, or not one of this product.
    #[error("{path} is not an Undertone dataset ({reason}); make one with `undertone-worker data prepare`")]
    Foreign {
        /// The file looked at.
        path: PathBuf,
        /// What gave it away.
        reason: &'static str,
    },
    /// Written by another version.
    #[error(
        "{path} has layout version {found}, this worker reads versions up to {supported}: prepare the dataset again"
    )]
    Version {
        /// The file looked at.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest that it reads.
        supported: u32,
    },
    /// Shorter or longer than it says it is.
    #[error("{path} is truncated or has grown ({found} bytes, should be {expected}): prepare the dataset again")]
    Length {
        /// The file looked at.
        path: PathBuf,
        /// Bytes it should have.
        expected: u64,
        /// Bytes it has.
        found: u64,
    },
    /// Its parts contradict each other.
    #[error("{path} is damaged: {reason}; prepare the dataset again")]
    Damaged {
        /// The file looked at.
        path: PathBuf,
        /// What contradicts.
        reason: String,
    },
    /// The content is not what the description says.
    #[error(
        "{path} has changed since it was written (SHA-256 {found}, should be {expected}): prepare the dataset again"
    )]
    Digest {
        /// The file looked at.
        path: PathBuf,
        /// Digest in `meta.json`.
        expected: String,
        /// Digest of the bytes on disk.
        found: String,
    },
    /// There is no column of users.
    #[error(
        "dataset `{0}` has no column of users: propose the job for `record` or `speaker`, or prepare the dataset with --units"
    )]
    NoUsers(String),
    /// A unit whose rows depend on others.
    #[error(
        "the rows of one {unit} of dataset `{name}` depend on others ({cause}): propose the job for another unit, or prepare \
         the dataset again without that (means by --normalize utterance, a choice by --utterances-from)"
    )]
    Mixed {
        /// The dataset.
        name: String,
        /// The unit.
        unit: &'static str,
        /// The options that make it so.
        cause: String,
    },
    /// Prepared as only public data may be, and not public.
    #[error(
        "dataset `{name}` is not public by policy.toml and was prepared as only public data may be ({cause}): prepare it \
         again with --replace and without that (--classes N declares the classes), or declare it public"
    )]
    PublicOnly {
        /// The dataset.
        name: String,
        /// The options that only public data may be prepared with.
        cause: String,
    },
    /// The target is there already.
    #[error("{0} exists already: choose another place, or --replace it")]
    Exists(PathBuf),
    /// An utterance that cannot be stored.
    #[error("utterance {id} cannot be stored: {reason}")]
    Utterance {
        /// Its id.
        id: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl DatasetError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}

/// One utterance, borrowed from the map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utterance<'a> {
    /// Its id in the corpus it came from. Never leaves the site.
    pub id: &'a str,
    /// `[frames, inputs]`, row-major.
    pub features: &'a [f32],
    /// `[frames]`, each below [`Meta::classes`].
    pub labels: &'a [u16],
    /// Number of its speaker within this dataset, dense from 0; see [`Dataset::speaker_name`].
    pub speaker: u32,
    /// Number of its user, dense from 0, where there is a column of users.
    pub user: Option<u32>,
    /// What it may be used for.
    pub split: Split,
}

impl Utterance<'_> {
    /// Frames it has, at least one.
    pub fn frames(&self) -> usize {
        self.labels.len()
    }
}

/// Mean and standard deviation by coefficient, see [`Dataset::moments`].
#[derive(Debug, Clone, PartialEq)]
pub struct Moments {
    /// `[inputs]`
    pub mean: Vec<f32>,
    /// `[inputs]`, none negative.
    pub deviation: Vec<f32>,
}

/// An open dataset. Cheap to share by reference between threads; reading costs page faults, not copies.
#[derive(Debug)]
pub struct Dataset {
    meta: Meta,
    index: Index,
    map: Mmap,
}

impl Dataset {
    /// Opens the dataset in the folder `dir`, and reads it once to see that it is whole: length, structure, label range
    /// and SHA-256.
    ///
    /// # Errors
    /// [`DatasetError`] that names the file and what is wrong with it; nothing is ever read from a doubtful file.
    pub fn open(dir: &Path) -> Result<Self, DatasetError> {
        let meta = read_meta(dir)?;
        let path = dir.join(DATA_FILE);
        let file = File::open(&path).map_err(DatasetError::io("open", &path))?;
        #[expect(unsafe_code, reason = "a memory map is the format's purpose")]
        // SAFETY: the file is opened read-only and is never written again once `Writer` has renamed its folder into
        // place; a site that truncates it under a running worker can crash that worker and nothing else.
        let map = unsafe { Mmap::map(&file) }.map_err(DatasetError::io("map", &path))?;
        let header = Header::read(&map, &path)?;
        let index = Index::read(&map, &header, &path)?;
        let found = hex::encode(Sha256::digest(&map));
        if found != meta.digest {
            return Err(DatasetError::Digest { path, expected: meta.digest, found });
        }
        let dataset = Self { meta, index, map };
        dataset.check(&header, &path)?;
        Ok(dataset)
    }

    /// What it is.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Number of utterances, both splits together.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Whether there is no utterance: never so for a dataset that `data prepare` wrote.
    pub fn is_empty(&self) -> bool {
        self.index.entries.is_empty()
    }

    /// Utterance number `i`, in the order of the preparation (sorted by speaker, then id).
    ///
    /// # Panics
    /// If `i` is not below [`Dataset::len`], as a slice would.
    pub fn utterance(&self, i: usize) -> Utterance<'_> {
        let Entry { offset, frames, speaker, user, split, ref id } = self.index.entries[i];
        let values = frames as usize * self.meta.inputs;
        let start = offset as usize;
        let middle = start + values * size_of::<f32>();
        let end = middle + frames as usize * size_of::<u16>();
        Utterance {
            id,
            features: bytemuck::cast_slice(&self.map[start..middle]),
            labels: bytemuck::cast_slice(&self.map[middle..end]),
            speaker,
            user,
            split,
        }
    }

    /// Numbers of the utterances of a split, ascending.
    pub fn split(&self, split: Split) -> Vec<usize> {
        let of_split = |(i, entry): (usize, &Entry)| (entry.split == split).then_some(i);
        self.index.entries.iter().enumerate().filter_map(of_split).collect()
    }

    /// The privacy units of a split: for each, the numbers of its utterances, ascending. Units are ordered by their first
    /// utterance, so the order is the same at every opening. Together they are exactly [`Dataset::split`].
    ///
    /// # Errors
    /// [`DatasetError::NoUsers`] where there is no column of users; [`DatasetError::Mixed`] when what a unit holds depends
    /// on others, so that no job can protect it.
    pub fn units(&self, unit: PrivacyUnit, split: Split) -> Result<Vec<Vec<usize>>, DatasetError> {
        let normalization = self.meta.treatment.unwrap_or_default().normalization;
        let name = || self.meta.name.clone();
        if unit == PrivacyUnit::User && self.index.users.is_empty() {
            return Err(DatasetError::NoUsers(name()));
        }
        let by_speaker = unit == PrivacyUnit::Record && !normalization.keeps_records_apart();
        if by_speaker || !self.meta.units.contains(&unit) {
            let (record, means) = (self.meta.preparation.as_ref(), normalization.describe());
            let options =
                record.into_iter().flat_map(|record| record.across_units.iter().chain(&record.across_records));
            let options: Vec<&str> = options.map(String::as_str).collect();
            let cause = if options.is_empty() { means.to_owned() } else { options.join(", ") };
            let unit = match unit {
                PrivacyUnit::Record => "record",
                PrivacyUnit::Speaker => "speaker",
                PrivacyUnit::User => "user",
                PrivacyUnit::Words => "word",
            };
            return Err(DatasetError::Mixed { name: name(), unit, cause });
        }
        Ok(self.groups(unit, split))
    }

    /// As [`Dataset::units`], of data that need no protection: whether units depend on each other is not asked, and
    /// speakers stand for users where there is no column of users.
    pub fn groups(&self, unit: PrivacyUnit, split: Split) -> Vec<Vec<usize>> {
        let mut place: BTreeMap<u32, usize> = BTreeMap::new();
        let mut units: Vec<Vec<usize>> = Vec::new();
        for i in self.split(split) {
            let Entry { speaker, user, .. } = self.index.entries[i];
            let key = match unit {
                // Words of an utterance are nothing that a gradient could be taken of; no job over labels protects them.
                PrivacyUnit::Record | PrivacyUnit::Words => i as u32,
                PrivacyUnit::Speaker => speaker,
                PrivacyUnit::User => user.unwrap_or(speaker),
            };
            let at = *place.entry(key).or_insert(units.len());
            if at == units.len() {
                units.push(Vec::new());
            }
            units[at].push(i);
        }
        units
    }

    /// The name of a user, by the owner's ids, for the site's own eyes; `None` if there is no such number.
    pub fn user_name(&self, user: u32) -> Option<&str> {
        self.index.users.get(user as usize).map(AsRef::as_ref)
    }

    /// The name of a speaker in the corpus, for the site's own eyes; `None` if there is no such number.
    pub fn speaker_name(&self, speaker: u32) -> Option<&str> {
        self.index.speakers.get(speaker as usize).map(AsRef::as_ref)
    }

    /// Mean and standard deviation of each coefficient over the frames of a split (`[inputs]` each; a deviation of 0 where
    /// nothing varies). Of private data this is a release like any other: use it to scale inputs on public data only.
    pub fn moments(&self, split: Split) -> Moments {
        let inputs = self.meta.inputs;
        let (mut sum, mut square, mut frames) = (vec![0.0_f64; inputs], vec![0.0_f64; inputs], 0.0_f64);
        for i in self.split(split) {
            for frame in self.utterance(i).features.chunks_exact(inputs) {
                frames += 1.0;
                for ((sum, square), value) in sum.iter_mut().zip(&mut square).zip(frame) {
                    *sum += f64::from(*value);
                    *square += f64::from(*value).powi(2);
                }
            }
        }
        let frames = frames.max(1.0);
        let mean: Vec<f64> = sum.iter().map(|sum| sum / frames).collect();
        let deviation = square.iter().zip(&mean).map(|(square, mean)| (square / frames - mean * mean).max(0.0).sqrt());
        Moments {
            deviation: deviation.map(|value| value as f32).collect(),
            mean: mean.iter().map(|m| *m as f32).collect(),
        }
    }

    /// That header, description and content tell one story, so that no reader needs to check again.
    fn check(&self, header: &Header, path: &Path) -> Result<(), DatasetError> {
        let damaged = |reason: String| DatasetError::Damaged { path: path.to_path_buf(), reason };
        let meta = &self.meta;
        let stated = (header.inputs as usize, header.classes as usize, header.frames, self.len());
        let one_story = meta.unit_column.is_none() == self.index.users.is_empty();
        if stated != (meta.inputs, meta.classes, meta.frames, meta.utterances) || !one_story {
            return Err(damaged(format!("{META_FILE} describes another {DATA_FILE}")));
        }
        for i in 0..self.len() {
            let utterance = self.utterance(i);
            if let Some(label) = utterance.labels.iter().find(|label| usize::from(**label) >= meta.classes) {
                return Err(damaged(format!(
                    "utterance {} has label {label} of {} classes",
                    utterance.id, meta.classes
                )));
            }
            if !utterance.features.iter().all(|value| value.is_finite()) {
                return Err(damaged(format!("utterance {} has a feature that is not a number", utterance.id)));
            }
        }
        Ok(())
    }
}

/// Reads the description alone, without opening or checking the content: for lists.
///
/// # Errors
/// [`DatasetError`] if there is none, or if it is of another version.
pub fn read_meta(dir: &Path) -> Result<Meta, DatasetError> {
    /// The one field every version has, and the one that a dataset of speech never has.
    #[derive(Deserialize)]
    struct Versioned {
        format: u32,
        #[serde(default)]
        content: Content,
    }
    let path = dir.join(META_FILE);
    let text = fs::read(&path).map_err(DatasetError::io("read", &path))?;
    let Ok(Versioned { format: found, content }) = serde_json::from_slice(&text) else {
        return Err(DatasetError::Foreign { path, reason: "no layout version in its description" });
    };
    match content {
        Content::Speech => {}
        Content::Queries => return Err(DatasetError::Foreign { path, reason: "it holds queries, not speech" }),
        Content::Recordings => {
            return Err(DatasetError::Foreign { path, reason: "it holds recordings without labels" });
        }
    }
    if !(layout::VERSION..=layout::WITH_USERS).contains(&found) {
        return Err(DatasetError::Version { path, found, supported: layout::WITH_USERS });
    }
    serde_json::from_slice(&text)
        .map_err(|source| DatasetError::Damaged { path, reason: format!("unreadable description, {source}") })
}

#[cfg(test)]
mod tests;
