//! Recordings that another dataset of the site has too, or had before it was replaced. What is spent on recordings is counted on their
//! dataset's account for life, so the same ones under another name would begin an account of their own.
//!
//! Told by the bytes of a file: a copy that was encoded anew is another file here, and so is one whose dataset is not at this
//! site any more. Of recordings that were replaced the dataset keeps their digests (`replaced`, one on a line) and nothing else.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::{Recording, read_meta};
use crate::site::folder::{FolderError, write_durably};

/// The file of the digests of what was replaced.
const REPLACED: &str = "replaced";

/// The first dataset beside the one at `place`, by name, that has or had some of these recordings, and how many of them.
///
/// # Errors
/// [`FolderError::Io`] when what a dataset had cannot be read.
pub(super) fn elsewhere(place: &Path, recordings: &[Recording]) -> Result<Option<(String, usize)>, FolderError> {
    let digests: HashSet<&str> = recordings.iter().map(|recording| recording.digest.as_str()).collect();
    let above = place.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = fs::read_dir(above).map_err(FolderError::io("read", above))?.flatten();
    let mut others: Vec<_> = beside.map(|item| item.path()).filter(|other| other != place).collect();
    others.sort();
    for other in others {
        let name = other.file_name().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'));
        let Some(name) = name else { continue };
        // What is no dataset of recordings, and never was one, has none of these.
        let theirs = known(&other)?;
        let shared = digests.iter().filter(|digest| theirs.contains(**digest)).count();
        if shared > 0 {
            return Ok(Some((name.to_owned(), shared)));
        }
    }
    Ok(None)
}

/// Notes in the dataset that grows at `to` which recordings the one at `place` has and had.
///
/// # Errors
/// [`FolderError::Io`] when the disk refuses: what was there must not be forgotten.
pub(super) fn remember(place: &Path, to: &Path) -> Result<(), FolderError> {
    let known = known(place)?;
    if known.is_empty() {
        return Ok(());
    }
    let lines: String = known.into_iter().map(|digest| digest + "\n").collect();
    write_durably(&to.join(REPLACED), lines.as_bytes())
}

/// The digests of the recordings that the dataset at `place` has and had.
///
/// # Errors
/// [`FolderError::Io`] when what it had cannot be read.
pub(crate) fn known(place: &Path) -> Result<BTreeSet<String>, FolderError> {
    let path = place.join(REPLACED);
    let had = match fs::read_to_string(&path) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => String::new(),
        read => read.map_err(FolderError::io("read", &path))?,
    };
    let has = read_meta(place).map(|meta| meta.recordings).unwrap_or_default();
    Ok(had.lines().map(str::to_owned).chain(has.into_iter().map(|recording| recording.digest)).collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::path::Path;

    use super::REPLACED;
    use crate::speech::recordings::{AddError, Added, Options, Recordings, add};
    use crate::speech::transcribe::wav;

    /// Adds, under a name, one recording of so many seconds.
    fn put(folder: &Path, name: &str, seconds: usize) -> Result<Added, AddError> {
        let (input, output) = (folder.join("in"), folder.join("data").join(name));
        std::fs::create_dir_all(&input).unwrap();
        std::fs::write(input.join("a.wav"), wav::write(&vec![0.25; 16_000 * seconds])).unwrap();
        add(&Options { input, output, name: name.to_owned(), replace: true, created: String::new() })
    }

    #[test]
    fn recordings_that_were_replaced_do_not_begin_a_second_account_either() {
        let folder = tempfile::tempdir().unwrap();
        for seconds in [1, 2, 3] {
            put(folder.path(), "ward", seconds).unwrap();
        }
        for seconds in [1, 2, 3] {
            let refused = put(folder.path(), "other", seconds).unwrap_err();
            assert!(matches!(&refused, AddError::Elsewhere { dataset, count: 1 } if dataset == "ward"), "{refused}");
        }
        put(folder.path(), "other", 4).unwrap();
        // Where they were they may be again, and what is kept of them is no recording.
        put(folder.path(), "ward", 1).unwrap();
        let ward = folder.path().join("data/ward");
        assert_eq!(Recordings::check(&ward).unwrap().meta().recordings.len(), 1);
        let kept = std::fs::read_to_string(ward.join(REPLACED)).unwrap();
        assert!(kept.lines().count() == 3 && kept.lines().all(|line| line.len() == 64), "{kept}");
    }

    #[test]
    fn what_a_dataset_had_is_not_forgotten_when_it_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "ward", 1).unwrap();
        std::fs::create_dir(folder.path().join("data/ward").join(REPLACED)).unwrap();
        assert!(matches!(put(folder.path(), "ward", 2), Err(AddError::Folder(_))));
        assert_eq!(Recordings::check(&folder.path().join("data/ward")).unwrap().meta().seconds(), 1);
    }
}
