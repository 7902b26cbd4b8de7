//! Where the recorded speech lies of which dummies are made, and that all of it may be heard by anybody.
//!
//! What a dummy says leaves the site in the clear, in as many pieces as there are dummies, and no budget pays for it. So
//! recordings are taken whose owner said that anybody may have them: those that `data index-speech --input` was given, or a
//! dataset that the policy marks as public. And whatever was said, none of them may be in a dataset that is not public, or have
//! been in it before it was replaced.
//!
//! The server is not told which they are: see [`recorded`](crate::speech::transcribe::recorded). A dataset of the site is known to it by
//! its name and its size; a folder that was indexed is not known to anybody.

use std::path::PathBuf;

use undertone_api::dataset::Visibility;

use crate::datasets::Described;
use crate::site::folder::{Folder, FolderError};
use crate::site::lineage::{self, LineageError};
use crate::site::policy::{Policy, PolicyError};
use crate::speech::dataset::DatasetError;
use crate::speech::recordings::Recordings;

/// Why recordings are not taken.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    /// None were given.
    #[error(
        "there are no recordings of which dummies could be made: give a folder of them to `undertone-worker data index-speech --input`, \
         or name a dataset in [transcription.speech]"
    )]
    None,
    /// Not said to be public.
    #[error(
        "transcription.speech.dataset: the policy does not say that `{0}` is public, so nothing of it may leave; name recordings that \
         anybody may have"
    )]
    Private(String),
    /// Some are somebody's.
    #[error(
        "{count} of the recordings of which dummies would be made are or were in the dataset `{dataset}`, which is not public: leave them \
         out"
    )]
    Shared {
        /// That dataset.
        dataset: String,
        /// How many.
        count: usize,
    },
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The policy.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The recordings.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// The lineages of the site.
    #[error(transparent)]
    Lineage(Box<LineageError>),
}

/// Where recordings lie that were given to be indexed.
pub fn given(folder: &Folder) -> PathBuf {
    folder.speech().join("recordings")
}

/// Opens the recordings: those of a dataset of the site, or those that were given.
///
/// # Errors
/// [`SpeechError`] unless there are some, and all of them may be heard by anybody.
pub fn open(folder: &Folder, dataset: Option<&str>) -> Result<Recordings, SpeechError> {
    let policy = Policy::load(&folder.policy())?;
    let public = |name: &str| policy.rules(name).visibility == Visibility::Public;
    let place = match dataset {
        Some(name) if !public(name) => return Err(SpeechError::Private(name.to_owned())),
        Some(name) => folder.dataset(name)?,
        None => given(folder),
    };
    if dataset.is_none() && !place.exists() {
        return Err(SpeechError::None);
    }
    let recordings = Recordings::open(&place)?;
    let digests = recordings.meta().recordings.iter().map(|one| one.digest.as_str());
    // Recordings that were replaced stay somebody's.
    match lineage::find_recordings::<Described>(folder, &policy, digests)
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

    /// A folder of recordings, each with samples of this loudness.
    fn recordings(folder: &Path, output: PathBuf, name: &str, loudness: &[f32]) {
        let input = folder.join(format!("in-{name}"));
        std::fs::create_dir(&input).unwrap();
        for (loudness, number) in loudness.iter().zip(0..) {
            std::fs::write(input.join(format!("{number}.wav")), wav::write(&[*loudness; 800])).unwrap();
        }
        add(&Options { input, output, name: name.to_owned(), replace: false, created: String::new() }).unwrap();
    }

    #[test]
    fn recordings_are_taken_that_were_given_or_are_public_and_no_others() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("site"));
        folder.create().unwrap();
        std::fs::write(folder.policy(), TEMPLATE).unwrap();
        assert!(matches!(open(&folder, None), Err(SpeechError::None)));
        recordings(dir.path(), given(&folder), "recordings", &[0.1, 0.2]);
        assert_eq!(open(&folder, None).unwrap().meta().recordings.len(), 2);
        recordings(dir.path(), folder.dataset("readings").unwrap(), "readings", &[0.3]);
        assert!(matches!(open(&folder, Some("readings")), Err(SpeechError::Private(name)) if name == "readings"));
        declare(&folder.policy(), "readings", Visibility::Public).unwrap();
        assert_eq!(open(&folder, Some("readings")).unwrap().meta().recordings.len(), 1);
        assert!(open(&folder, Some("../work")).is_err());
    }

    #[test]
    fn recordings_that_are_somebodys_are_refused_whoever_gave_them() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("site"));
        folder.create().unwrap();
        std::fs::write(folder.policy(), TEMPLATE).unwrap();
        recordings(dir.path(), given(&folder), "recordings", &[0.1, 0.2]);
        recordings(dir.path(), folder.dataset("ward").unwrap(), "ward", &[0.5, 0.2]);
        let refused = open(&folder, None).unwrap_err();
        assert!(matches!(&refused, SpeechError::Shared { dataset, count: 1 } if dataset == "ward"), "{refused}");
        // Replaced by others, they are still somebody's.
        let input = dir.path().join("in-ward");
        std::fs::write(input.join("1.wav"), wav::write(&[0.6; 800])).unwrap();
        let output = folder.dataset("ward").unwrap();
        add(&Options { input, output, name: "ward".to_owned(), replace: true, created: String::new() }).unwrap();
        let refused = open(&folder, None).unwrap_err();
        assert!(matches!(&refused, SpeechError::Shared { dataset, count: 1 } if dataset == "ward"), "{refused}");
        declare(&folder.policy(), "ward", Visibility::Public).unwrap();
        assert!(open(&folder, None).is_ok());
    }
}
