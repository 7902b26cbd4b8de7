//! A prepared dataset: features and labels of many utterances, in one memory-mapped file next to its description.
//!
//! A dataset is a folder with `data.bin` (see [`layout`]), `meta.json` ([`Meta`]) and `report.json` (the preparation's
//! report). It never changes after it is written: [`Writer`] builds it in a hidden folder next to the target and
//! renames the folder, and [`Dataset::open`] rejects a folder whose content does not match its digest. To add a column,
//! raise [`layout::VERSION`]; older files are then rejected by version, not misread.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;

use memmap2::Mmap;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use undertone_api::dataset::{DatasetContent, usual_units};
use undertone_privacy::PrivacyUnit;

pub mod layout;
pub(crate) mod staging;
mod writer;

pub use undertone_worker_site::dataset_meta::{ClassSource, DatasetError, META_FILE, PreparationRecord, REPORT_FILE};
pub use writer::{Description, Writer};

use layout::{DatasetIndex, FileHeader, IndexEntry};

use super::features::Treatment;

/// The file with features, labels and index.
pub const DATA_FILE: &str = "data.bin";

/// The permitted use of an utterance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// For training.
    Train,
    /// Held out for tests, never used for training.
    Test,
}

/// Size of one split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SplitCounts {
    /// Number of utterances.
    pub utterances: usize,
    /// Number of distinct speakers.
    pub speakers: usize,
    /// Number of feature frames, at 100 per second.
    pub frames: u64,
    /// Number of distinct users; 0 without a column of users.
    #[serde(default)]
    pub users: usize,
}

/// The description of a dataset, without any of its content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// Version of the binary layout, see [`layout`].
    pub format: u32,
    /// The name its owner gave it.
    pub name: String,
    /// Coefficients per frame.
    pub inputs: usize,
    /// Number of classes; every label is below it.
    pub classes: usize,
    /// Number of utterances in both splits.
    pub utterances: usize,
    /// Number of distinct speakers in both splits.
    pub speakers: usize,
    /// Number of frames in both splits.
    pub frames: u64,
    /// The training split.
    pub train: SplitCounts,
    /// The test split.
    pub test: SplitCounts,
    /// Sampling rate of the audio for the features, Hz.
    pub sample_rate: u32,
    /// How the features were computed, as text.
    pub features: String,
    /// The part of the feature computation that decides which recordings a feature depends on. Absent in older
    /// descriptions, whose features depend on their utterance alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub treatment: Option<Treatment>,
    /// The labels, as text.
    pub labels: String,
    /// The name of the column of users, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit_column: Option<String>,
    /// The units whose data do not mix, ascending: a job may protect these.
    #[serde(default = "usual_units")]
    pub units: Vec<PrivacyUnit>,
    /// The computations of the preparation across units; absent in older descriptions, whose preparations did not
    /// record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preparation: Option<PreparationRecord>,
    /// Time of writing (RFC 3339, UTC). Not part of the digest.
    pub created: String,
    /// SHA-256 of `data.bin`, hexadecimal: the identity of the content (`sha256sum data.bin` prints the same).
    pub digest: String,
}

impl Meta {
    /// Returns the counts of one split.
    pub fn split(&self, split: Split) -> SplitCounts {
        match split {
            Split::Train => self.train,
            Split::Test => self.test,
        }
    }
}

/// One utterance, borrowed from the memory map.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utterance<'a> {
    /// Its id in the source corpus. Never leaves the site.
    pub id: &'a str,
    /// `[frames, inputs]`, row-major.
    pub features: &'a [f32],
    /// `[frames]`, each below [`Meta::classes`].
    pub labels: &'a [u16],
    /// Number of its speaker within this dataset, dense from 0; see [`Dataset::speaker_name`].
    pub speaker: u32,
    /// Number of its user, dense from 0, where there is a column of users.
    pub user: Option<u32>,
    /// Its permitted use.
    pub split: Split,
}

impl Utterance<'_> {
    /// Returns the number of frames, at least one.
    pub fn frames(&self) -> usize {
        self.labels.len()
    }
}

/// Mean and standard deviation by coefficient, see [`Dataset::moments`].
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureMoments {
    /// `[inputs]`
    pub mean: Vec<f32>,
    /// `[inputs]`, none negative.
    pub deviation: Vec<f32>,
}

/// An open dataset. Threads share it by reference; reading causes page faults, not copies.
#[derive(Debug)]
pub struct Dataset {
    meta: Meta,
    index: DatasetIndex,
    map: Mmap,
}

impl Dataset {
    /// Opens the dataset in the folder `dir` and reads it once to verify it: length, structure, label range and
    /// SHA-256.
    ///
    /// # Errors
    /// [`DatasetError`] with the file and the problem. No data is returned from an invalid file.
    pub fn open(dir: &Path) -> Result<Self, DatasetError> {
        let meta = read_meta(dir)?;
        let path = dir.join(DATA_FILE);
        let file = File::open(&path).map_err(DatasetError::io("open", &path))?;
        #[expect(unsafe_code, reason = "a memory map is the format's purpose")]
        // SAFETY: the file is opened read-only and is never written again once `Writer` has renamed its folder into
        // place; a site that truncates it under a running worker can crash that worker and nothing else.
        let map = unsafe { Mmap::map(&file) }.map_err(DatasetError::io("map", &path))?;
        let header = FileHeader::read(&map, &path)?;
        let index = DatasetIndex::read(&map, &header, &path)?;
        let digest = hex::encode(Sha256::digest(&map));
        if digest != meta.digest {
            return Err(DatasetError::Digest { path, expected: meta.digest, found: digest });
        }
        let dataset = Self { meta, index, map };
        dataset.check(&header, &path)?;
        Ok(dataset)
    }

    /// Returns the description.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Returns the number of utterances in both splits.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Returns true if there is no utterance, which never occurs in a dataset from `data prepare`.
    pub fn is_empty(&self) -> bool {
        self.index.entries.is_empty()
    }

    /// Returns utterance number `i`, in the order of the preparation (sorted by speaker, then id).
    ///
    /// # Panics
    /// If `i` is not below [`Dataset::len`].
    pub fn utterance(&self, i: usize) -> Utterance<'_> {
        let IndexEntry { offset, frames, speaker, user, split, ref id } = self.index.entries[i];
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

    /// Returns the numbers of the utterances of a split, ascending.
    pub fn split(&self, split: Split) -> Vec<usize> {
        let of_split = |(i, entry): (usize, &IndexEntry)| (entry.split == split).then_some(i);
        self.index.entries.iter().enumerate().filter_map(of_split).collect()
    }

    /// Returns the privacy units of a split: for each unit, the numbers of its utterances, ascending. Units are ordered
    /// by their first utterance, so the order is the same on every call. Together they are exactly [`Dataset::split`].
    ///
    /// # Errors
    /// [`DatasetError::NoUsers`] without a column of users; [`DatasetError::Mixed`] if the content of a unit depends on
    /// other units, so that no job can protect it.
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

    /// Returns the units as [`Dataset::units`] does, for data that need no protection: dependencies between units are
    /// not checked, and speakers replace users if there is no column of users.
    pub fn groups(&self, unit: PrivacyUnit, split: Split) -> Vec<Vec<usize>> {
        let mut place: BTreeMap<u32, usize> = BTreeMap::new();
        let mut units: Vec<Vec<usize>> = Vec::new();
        for i in self.split(split) {
            let IndexEntry { speaker, user, .. } = self.index.entries[i];
            let key = match unit {
                // The words of an utterance have no gradient of their own; no job over labels protects them.
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

    /// Returns the name of a user, in the owner's ids, for use at the site only; `None` if the number does not exist.
    pub fn user_name(&self, user: u32) -> Option<&str> {
        self.index.users.get(user as usize).map(AsRef::as_ref)
    }

    /// Returns the name of a speaker in the corpus, for use at the site only; `None` if the number does not exist.
    pub fn speaker_name(&self, speaker: u32) -> Option<&str> {
        self.index.speakers.get(speaker as usize).map(AsRef::as_ref)
    }

    /// Returns the mean and standard deviation of each coefficient over the frames of a split (`[inputs]` each; the
    /// deviation of a constant is 0). For private data this is a release like any other: use it to scale inputs on
    /// public data only.
    pub fn moments(&self, split: Split) -> FeatureMoments {
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
        FeatureMoments {
            deviation: deviation.map(|value| value as f32).collect(),
            mean: mean.iter().map(|m| *m as f32).collect(),
        }
    }

    /// Checks that header, description and content agree, so that no reader has to check again.
    fn check(&self, header: &FileHeader, path: &Path) -> Result<(), DatasetError> {
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

/// Reads the description alone, without opening or checking the content, for lists.
///
/// # Errors
/// [`DatasetError`] if the description is missing or has another version.
pub fn read_meta(dir: &Path) -> Result<Meta, DatasetError> {
    /// The field that every version has, and the one that a dataset of speech never has.
    #[derive(Deserialize)]
    struct VersionFields {
        format: u32,
        #[serde(default)]
        content: DatasetContent,
    }
    let path = dir.join(META_FILE);
    let text = fs::read(&path).map_err(DatasetError::io("read", &path))?;
    let Ok(VersionFields { format: found, content }) = serde_json::from_slice(&text) else {
        return Err(DatasetError::Foreign { path, reason: "no layout version in its description" });
    };
    match content {
        DatasetContent::Speech => {}
        DatasetContent::Queries => return Err(DatasetError::Foreign { path, reason: "it holds queries, not speech" }),
        DatasetContent::Recordings => {
            return Err(DatasetError::Foreign { path, reason: "it holds recordings without labels" });
        }
        DatasetContent::Table => {
            return Err(DatasetError::Foreign { path, reason: "it is a table of rows, not speech" });
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
