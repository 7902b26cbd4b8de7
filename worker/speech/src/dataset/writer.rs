//! Writes a dataset: streamed, fsynced, and visible only when complete.
//!
//! All files are written to a hidden folder next to the target, which is renamed as the last step. A writer that is
//! dropped before [`Writer::finish`] removes its hidden folder; a killed process leaves a hidden folder that no code
//! reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use undertone_privacy::PrivacyUnit;

use super::layout::{DatasetIndex, FileHeader, HEADER_LEN, IndexEntry};
use super::staging::StagingFolder;
use super::{DATA_FILE, DatasetError, META_FILE, Meta, PreparationRecord, REPORT_FILE, Split, SplitCounts};
use crate::features::Treatment;

/// The properties of a dataset that the caller supplies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The name of the dataset.
    pub name: String,
    /// Coefficients per frame, at least 1.
    pub inputs: usize,
    /// Number of classes, 1 to 65,536.
    pub classes: usize,
    /// Sampling rate of the features, Hz.
    pub sample_rate: u32,
    /// How the features were computed, as text.
    pub features: String,
    /// The part of the feature computation that decides which recordings a feature depends on.
    pub treatment: Treatment,
    /// The name of the column of users, if there is one.
    pub unit_column: Option<String>,
    /// The labels, as text.
    pub labels: String,
    /// The computations across units before rows are written.
    pub preparation: PreparationRecord,
    /// The current time, RFC 3339 in UTC.
    pub created: String,
}

/// An unfinished dataset.
#[derive(Debug)]
pub struct Writer {
    staging: StagingFolder,
    target: PathBuf,
    replace: bool,
    description: Description,
    data: BufWriter<File>,
    position: u64,
    index: DatasetIndex,
    ids: BTreeSet<Box<str>>,
    split_speakers: [BTreeSet<u32>; 2],
    split_users: [BTreeSet<u32>; 2],
    users: BTreeMap<Box<str>, u32>,
}

impl Writer {
    /// Starts a dataset in the folder `target`, which must not exist yet.
    ///
    /// # Errors
    /// [`DatasetError::Exists`], or an error of the file system.
    pub fn create(target: &Path, description: Description) -> Result<Self, DatasetError> {
        if target.symlink_metadata().is_ok() {
            return Err(DatasetError::Exists(target.to_path_buf()));
        }
        Self::start(target, description, false)
    }

    /// Starts a dataset that replaces the one in the folder `target`, if there is one at the end. Only a dataset is
    /// ever replaced.
    ///
    /// # Errors
    /// [`DatasetError`] if `target` is not a dataset, or an error of the file system.
    pub fn replace(target: &Path, description: Description) -> Result<Self, DatasetError> {
        if target.symlink_metadata().is_ok() && !target.join(META_FILE).is_file() {
            return Err(DatasetError::Foreign { path: target.to_path_buf(), reason: "it has no meta.json" });
        }
        Self::start(target, description, true)
    }

    fn start(target: &Path, description: Description, replace: bool) -> Result<Self, DatasetError> {
        if description.inputs == 0 || !(1..=65_536).contains(&description.classes) {
            let reason =
                format!("{} inputs and {} classes: between 1 and 65536", description.inputs, description.classes);
            return Err(DatasetError::Damaged { path: target.to_path_buf(), reason });
        }
        let staging = StagingFolder::create_for(target)?;
        let path = staging.path().join(DATA_FILE);
        let mut data = BufWriter::new(File::create_new(&path).map_err(DatasetError::io("create", &path))?);
        data.write_all(&[0; HEADER_LEN]).map_err(DatasetError::io("write", &path))?;
        Ok(Self {
            staging,
            target: target.to_path_buf(),
            replace,
            description,
            data,
            position: HEADER_LEN as u64,
            index: DatasetIndex::default(),
            ids: BTreeSet::new(),
            split_speakers: Default::default(),
            split_users: Default::default(),
            users: BTreeMap::new(),
        })
    }

    /// Adds one utterance: `features` `[frames, inputs]` row-major and finite, `labels` `[frames]` below the number of
    /// classes, at least one frame, and a new id.
    ///
    /// # Errors
    /// [`DatasetError::Utterance`] with the problem, or an error of the file system.
    pub fn push(
        &mut self,
        id: &str,
        speaker: &str,
        split: Split,
        features: &[f32],
        labels: &[u16],
    ) -> Result<(), DatasetError> {
        self.push_of(id, (speaker, None), split, features, labels)
    }

    /// Adds an utterance of a speaker and a user, as [`Writer::push`] does. Every utterance has a user, or none has.
    ///
    /// # Errors
    /// The errors of [`Writer::push`].
    pub fn push_of(
        &mut self,
        id: &str,
        (speaker, user): (&str, Option<&str>),
        split: Split,
        features: &[f32],
        labels: &[u16],
    ) -> Result<(), DatasetError> {
        self.check(id, (speaker, user), features, labels)
            .map_err(|reason| DatasetError::Utterance { id: id.to_owned(), reason })?;
        let path = self.staging.path().join(DATA_FILE);
        let labels_bytes: &[u8] = bytemuck::cast_slice(labels);
        let padding = &[0; 2][..labels_bytes.len() % 4];
        for part in [bytemuck::cast_slice(features), labels_bytes, padding] {
            self.data.write_all(part).map_err(DatasetError::io("write", &path))?;
        }
        let speaker = self.speaker_number(speaker);
        self.split_speakers[usize::from(split == Split::Test)].insert(speaker);
        let user = user.map(|user| self.user_number(user));
        self.split_users[usize::from(split == Split::Test)].extend(user);
        let frames = labels.len() as u32;
        self.index.entries.push(IndexEntry { offset: self.position, frames, speaker, user, split, id: id.into() });
        self.ids.insert(id.into());
        self.position += (size_of_val(features) + labels_bytes.len() + padding.len()) as u64;
        Ok(())
    }

    /// Adds a separate JSON document next to the data; it is not part of the digest.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn attach(&mut self, name: &str, document: &impl serde::Serialize) -> Result<(), DatasetError> {
        self.staging.write_json(name, document)
    }

    /// Returns the number of utterances so far.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Returns true if no utterance was added yet.
    pub fn is_empty(&self) -> bool {
        self.index.entries.is_empty()
    }

    /// Writes index, header, description and `report` (a JSON document from the finished description), makes all files
    /// durable, and publishes the dataset.
    ///
    /// # Errors
    /// An error of the file system; the target is then unchanged.
    pub fn finish(mut self, report: impl FnOnce(&Meta) -> serde_json::Value) -> Result<Meta, DatasetError> {
        let path = self.staging.path().join(DATA_FILE);
        let index = self.index.write();
        let frames = self.index.entries.iter().map(|entry| u64::from(entry.frames)).sum();
        let header = FileHeader {
            inputs: self.description.inputs as u32,
            classes: self.description.classes as u32,
            utterances: self.index.entries.len() as u32,
            speakers: self.index.speakers.len() as u32,
            users: self.index.users.len() as u32,
            frames,
            index_offset: self.position,
            index_len: index.len() as u64,
            file_len: self.position + index.len() as u64,
        };
        let sealed = (|| {
            self.data.write_all(&index)?;
            self.data.seek(SeekFrom::Start(0))?;
            self.data.write_all(&header.write())?;
            self.data.flush()?;
            self.data.get_ref().sync_all()?;
            let mut hasher = Sha256::new();
            std::io::copy(&mut File::open(&path)?, &mut HashWriter(&mut hasher))?;
            Ok(hex::encode(hasher.finalize()))
        })();
        let meta = self.meta(&header, sealed.map_err(DatasetError::io("write", &path))?);
        self.staging.write_json(META_FILE, &meta)?;
        self.staging.write_json(REPORT_FILE, &report(&meta))?;
        if self.replace {
            self.staging.replace(&self.target)?;
        } else {
            self.staging.publish(&self.target)?;
        }
        Ok(meta)
    }

    fn speaker_number(&mut self, name: &str) -> u32 {
        // Speakers arrive in runs, so the search starts with the newest.
        let index = self.index.speakers.iter().rposition(|speaker| speaker.as_ref() == name);
        index.unwrap_or_else(|| {
            self.index.speakers.push(name.into());
            self.index.speakers.len() - 1
        }) as u32
    }

    fn user_number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.users.get(name) {
            return *number;
        }
        let number = self.index.users.len() as u32;
        self.index.users.push(name.into());
        self.users.insert(name.into(), number);
        number
    }

    fn check(
        &self,
        id: &str,
        (speaker, user): (&str, Option<&str>),
        features: &[f32],
        labels: &[u16],
    ) -> Result<(), String> {
        let Description { inputs, classes, .. } = self.description;
        if labels.is_empty() || labels.len() > u32::MAX as usize {
            return Err(format!("it has {} frames", labels.len()));
        }
        if features.len() != labels.len() * inputs {
            return Err(format!("{} feature values for {} labels of {inputs} inputs", features.len(), labels.len()));
        }
        if let Some(label) = labels.iter().find(|label| usize::from(**label) >= classes) {
            return Err(format!("label {label} is not below {classes}, the number of classes"));
        }
        if !features.iter().all(|value| value.is_finite()) {
            return Err("a feature is not a number".to_owned());
        }
        let names = [id, speaker, user.unwrap_or_default()];
        if id.is_empty() || names.iter().any(|text| text.len() > usize::from(u16::MAX)) {
            return Err("its id, speaker or user is empty or longer than 65535 bytes".to_owned());
        }
        if user.is_some() != self.description.unit_column.is_some() || user == Some("") {
            return Err("every utterance has a user, or none has".to_owned());
        }
        if self.ids.contains(id) {
            return Err("there is another utterance of that id".to_owned());
        }
        Ok(())
    }

    fn meta(&self, header: &FileHeader, digest: String) -> Meta {
        let counts = |split: Split| {
            let of_split = || self.index.entries.iter().filter(|entry| entry.split == split);
            SplitCounts {
                utterances: of_split().count(),
                speakers: self.split_speakers[usize::from(split == Split::Test)].len(),
                users: self.split_users[usize::from(split == Split::Test)].len(),
                frames: of_split().map(|entry| u64::from(entry.frames)).sum(),
            }
        };
        let description = self.description.clone();
        Meta {
            format: header.version(),
            name: description.name,
            inputs: description.inputs,
            classes: description.classes,
            utterances: self.index.entries.len(),
            speakers: self.index.speakers.len(),
            frames: header.frames,
            train: counts(Split::Train),
            test: counts(Split::Test),
            sample_rate: description.sample_rate,
            features: description.features,
            treatment: Some(description.treatment),
            labels: description.labels,
            unit_column: description.unit_column,
            units: self.units(),
            preparation: Some(description.preparation),
            created: description.created,
            digest,
        }
    }
}

impl Writer {
    /// Returns the units whose rows depend on nothing outside them, ascending. The description determines them, never
    /// the rows.
    fn units(&self) -> Vec<PrivacyUnit> {
        let Description { treatment, preparation, unit_column, .. } = &self.description;
        let units = preparation.speech_units(unit_column.is_some()).into_iter();
        units.filter(|unit| *unit != PrivacyUnit::Record || treatment.normalization.keeps_records_apart()).collect()
    }
}

/// Adds written bytes to a hash.
struct HashWriter<'a>(&'a mut Sha256);

impl Write for HashWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
