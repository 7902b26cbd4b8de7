//! Writes a dataset: streamed, fsynced, and there only when it is whole.
//!
//! All is written into a hidden folder beside the target, which is renamed as the last step. A writer that is dropped
//! before [`Writer::finish`] takes its hidden folder with it; one that is killed leaves a hidden folder that nothing reads.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::layout::{Entry, HEADER_LEN, Header, Index, VERSION};
use super::staging::Staging;
use super::{DATA_FILE, DatasetError, META_FILE, Meta, REPORT_FILE, Split, SplitCounts};

/// What the writer cannot know by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// The name its owner gives it.
    pub name: String,
    /// Coefficients a frame, at least 1.
    pub inputs: usize,
    /// Classes, 1 to 65,536.
    pub classes: usize,
    /// Sampling rate of the features, Hz.
    pub sample_rate: u32,
    /// How the features were computed.
    pub features: String,
    /// What the labels are.
    pub labels: String,
    /// Now, RFC 3339 in UTC.
    pub created: String,
}

/// A dataset in the making.
#[derive(Debug)]
pub struct Writer {
    staging: Staging,
    target: PathBuf,
    replace: bool,
    description: Description,
    data: BufWriter<File>,
    position: u64,
    index: Index,
    ids: BTreeSet<Box<str>>,
    split_speakers: [BTreeSet<u32>; 2],
}

impl Writer {
    /// Starts a dataset that will lie in the folder `target`, which must not exist yet.
    ///
    /// # Errors
    /// [`DatasetError::Exists`], or what the file system says.
    pub fn create(target: &Path, description: Description) -> Result<Self, DatasetError> {
        if target.symlink_metadata().is_ok() {
            return Err(DatasetError::Exists(target.to_path_buf()));
        }
        Self::start(target, description, false)
    }

    /// Starts a dataset that will take the place of the one in the folder `target`, if there is one by then. Nothing but a
    /// dataset is ever replaced.
    ///
    /// # Errors
    /// [`DatasetError`] if something else is there, or what the file system says.
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
        let staging = Staging::beside(target)?;
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
            index: Index::default(),
            ids: BTreeSet::new(),
            split_speakers: Default::default(),
        })
    }

    /// Adds one utterance: `features` `[frames, inputs]` row-major and finite, `labels` `[frames]` below the number of
    /// classes, at least one frame, an id not used before.
    ///
    /// # Errors
    /// [`DatasetError::Utterance`] naming what does not hold; the file system's refusal.
    pub fn push(
        &mut self,
        id: &str,
        speaker: &str,
        split: Split,
        features: &[f32],
        labels: &[u16],
    ) -> Result<(), DatasetError> {
        self.check(id, speaker, features, labels)
            .map_err(|reason| DatasetError::Utterance { id: id.to_owned(), reason })?;
        let path = self.staging.path().join(DATA_FILE);
        let labels_bytes: &[u8] = bytemuck::cast_slice(labels);
        let padding = &[0; 2][..labels_bytes.len() % 4];
        for part in [bytemuck::cast_slice(features), labels_bytes, padding] {
            self.data.write_all(part).map_err(DatasetError::io("write", &path))?;
        }
        let speaker = self.speaker_number(speaker);
        self.split_speakers[usize::from(split == Split::Test)].insert(speaker);
        let frames = labels.len() as u32;
        self.index.entries.push(Entry { offset: self.position, frames, speaker, split, id: id.into() });
        self.ids.insert(id.into());
        self.position += (size_of_val(features) + labels_bytes.len() + padding.len()) as u64;
        Ok(())
    }

    /// Adds a JSON document of its own beside the data, which is not part of the digest.
    ///
    /// # Errors
    /// What the file system says.
    pub fn attach(&mut self, name: &str, document: &impl serde::Serialize) -> Result<(), DatasetError> {
        self.staging.write_json(name, document)
    }

    /// Utterances added so far.
    pub fn len(&self) -> usize {
        self.index.entries.len()
    }

    /// Whether nothing was added yet.
    pub fn is_empty(&self) -> bool {
        self.index.entries.is_empty()
    }

    /// Writes index, header, description and `report` (a JSON document, given the finished description), makes all of it
    /// durable, and puts the dataset in its place.
    ///
    /// # Errors
    /// What the file system says; the target is then untouched.
    pub fn finish(mut self, report: impl FnOnce(&Meta) -> serde_json::Value) -> Result<Meta, DatasetError> {
        let path = self.staging.path().join(DATA_FILE);
        let index = self.index.write();
        let frames = self.index.entries.iter().map(|entry| u64::from(entry.frames)).sum();
        let header = Header {
            inputs: self.description.inputs as u32,
            classes: self.description.classes as u32,
            utterances: self.index.entries.len() as u32,
            speakers: self.index.speakers.len() as u32,
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
        let meta = self.meta(frames, sealed.map_err(DatasetError::io("write", &path))?);
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
        // Speakers come in runs, so the newest is nearly always the one.
        let known = self.index.speakers.iter().rposition(|speaker| speaker.as_ref() == name);
        known.unwrap_or_else(|| {
            self.index.speakers.push(name.into());
            self.index.speakers.len() - 1
        }) as u32
    }

    fn check(&self, id: &str, speaker: &str, features: &[f32], labels: &[u16]) -> Result<(), String> {
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
        if id.is_empty() || [id, speaker].iter().any(|text| text.len() > usize::from(u16::MAX)) {
            return Err("its id or speaker is empty or longer than 65535 bytes".to_owned());
        }
        if self.ids.contains(id) {
            return Err("there is another utterance of that id".to_owned());
        }
        Ok(())
    }

    fn meta(&self, frames: u64, digest: String) -> Meta {
        let counts = |split: Split| {
            let of_split = || self.index.entries.iter().filter(|entry| entry.split == split);
            SplitCounts {
                utterances: of_split().count(),
                speakers: self.split_speakers[usize::from(split == Split::Test)].len(),
                frames: of_split().map(|entry| u64::from(entry.frames)).sum(),
            }
        };
        let description = self.description.clone();
        Meta {
            format: VERSION,
            name: description.name,
            inputs: description.inputs,
            classes: description.classes,
            utterances: self.index.entries.len(),
            speakers: self.index.speakers.len(),
            frames,
            train: counts(Split::Train),
            test: counts(Split::Test),
            sample_rate: description.sample_rate,
            features: description.features,
            labels: description.labels,
            created: description.created,
            digest,
        }
    }
}

/// Feeds a hash from a reader.
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
