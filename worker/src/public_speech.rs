//! The recorded speech for dummies: its location, and the proof that all of it is public.
//!
//! The words of a dummy leave the site in the clear, in as many pieces as there are dummies, without a budget. So only
//! recordings that their owner declared public are used: those from `data index-speech --input`, or a dataset that the
//! policy marks as public. In addition, none of them may be in a dataset that is not public, now or before a
//! replacement.
//!
//! The server does not learn which they are: see [`recorded`](crate::speech::transcribe::recorded). It knows a dataset
//! of the site by its name and its size; an indexed folder is known only to the site.

use std::path::PathBuf;

use undertone_api::dataset::Visibility;

use crate::datasets::DatasetMeta;
use crate::site::folder::{Folder, FolderError};
use crate::site::lineage::{self, LineageError};
use crate::site::policy::{Policy, PolicyError};
use crate::speech::dataset::DatasetError;
use crate::speech::recordings::Recordings;

/// The reason to refuse recordings.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// There are no recordings.
    #[error(
        "this site has no recordings for dummies: give a folder of them to `undertone-worker data index-speech --input`, \
         or name a dataset in [transcription.speech]"
    )]
    None,
    /// The dataset is not declared public.
    #[error(
        "transcription.speech.dataset: the policy does not mark `{0}` as public, so its recordings must not leave; name public \
         recordings"
    )]
    Private(String),
    /// Some recordings are in a dataset that is not public.
    #[error(
        "{count} of the recordings for dummies are or were in the dataset `{dataset}`, which is not public: remove them"
    )]
    Shared {
        /// The dataset.
        dataset: String,
        /// The number of such recordings.
        count: usize,
    },
    /// The folder failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The policy failed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The recordings failed.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The lineages of the site failed.
    #[error(transparent)]
    Lineage(Box<LineageError>),
}

/// Returns the folder of recordings that were given for indexing.
pub fn input_folder(folder: &Folder) -> PathBuf {
    folder.speech().join("recordings")
}

/// Opens the recordings: those of a dataset of the site, or those that were given.
///
/// # Errors
/// [`SpeechError`] unless there are some, and all of them are public.
pub fn open(folder: &Folder, dataset: Option<&str>) -> Result<Recordings, SpeechError> {
    let policy = Policy::load(&folder.policy())?;
    let is_public = |name: &str| policy.rules(name).visibility == Visibility::Public;
    let path = match dataset {
        Some(name) if !is_public(name) => return Err(SpeechError::Private(name.to_owned())),
        Some(name) => folder.dataset(name)?,
        None => input_folder(folder),
    };
    if dataset.is_none() && !path.exists() {
        return Err(SpeechError::None);
    }
    let recordings = Recordings::open(&path)?;
    let digests = recordings.meta().recordings.iter().map(|one| one.digest.as_str());
    // Replaced recordings still belong to their dataset.
    match lineage::find_recordings::<DatasetMeta>(folder, &policy, digests)
        .map_err(|error| SpeechError::Lineage(Box::new(error)))?
    {
        Some((dataset, count)) => Err(SpeechError::Shared { dataset: dataset.name, count }),
        None => Ok(recordings),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::*;
    use crate::site::policy::{TEMPLATE, declare};
    use crate::speech::recordings::{Options, add};
    use crate::speech::transcribe::wav;

    /// Makes a folder of recordings, each with samples of one loudness.
    fn recordings(folder: &Path, output: PathBuf, name: &str, loudness: &[f32]) {
        let input = folder.join(format!("in-{name}"));
        std::fs::create_dir(&input).unwrap();
        for (loudness, number) in loudness.iter().zip(0..) {
            std::fs::write(input.join(format!("{number}.wav")), wav::write(&[*loudness; 800])).unwrap();
        }
        add(&Options { input, output, name: name.to_owned(), replace: false, created: String::new() }).unwrap();
    }

    #[test]
    fn only_given_or_public_recordings_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("site"));
        folder.create().unwrap();
        std::fs::write(folder.policy(), TEMPLATE).unwrap();
        assert!(matches!(open(&folder, None), Err(SpeechError::None)));
        recordings(dir.path(), input_folder(&folder), "recordings", &[0.1, 0.2]);
        assert_eq!(open(&folder, None).unwrap().meta().recordings.len(), 2);
        recordings(dir.path(), folder.dataset("readings").unwrap(), "readings", &[0.3]);
        assert!(matches!(open(&folder, Some("readings")), Err(SpeechError::Private(name)) if name == "readings"));
        declare(&folder.policy(), "readings", Visibility::Public).unwrap();
        assert_eq!(open(&folder, Some("readings")).unwrap().meta().recordings.len(), 1);
        assert!(open(&folder, Some("../work")).is_err());
    }

    #[test]
    fn recordings_of_a_private_dataset_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("site"));
        folder.create().unwrap();
        std::fs::write(folder.policy(), TEMPLATE).unwrap();
        recordings(dir.path(), input_folder(&folder), "recordings", &[0.1, 0.2]);
        recordings(dir.path(), folder.dataset("ward").unwrap(), "ward", &[0.5, 0.2]);
        let error = open(&folder, None).unwrap_err();
        assert!(matches!(&error, SpeechError::Shared { dataset, count: 1 } if dataset == "ward"), "{error}");
        // Recordings still belong to their dataset after a replacement.
        let input = dir.path().join("in-ward");
        std::fs::write(input.join("1.wav"), wav::write(&[0.6; 800])).unwrap();
        let output = folder.dataset("ward").unwrap();
        add(&Options { input, output, name: "ward".to_owned(), replace: true, created: String::new() }).unwrap();
        let error = open(&folder, None).unwrap_err();
        assert!(matches!(&error, SpeechError::Shared { dataset, count: 1 } if dataset == "ward"), "{error}");
        declare(&folder.policy(), "ward", Visibility::Public).unwrap();
        assert!(open(&folder, None).is_ok());
    }
}
