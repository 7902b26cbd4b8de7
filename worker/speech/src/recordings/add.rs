//! Creates a dataset from the recordings in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use undertone_api::dataset::DatasetContent;

use super::{FORMAT, LARGEST_REFERENCE, LONGEST, MOST, Meta, Recording, collision, digest, digest_of_file};
use crate::audio::SampleHash;
use crate::audio::error::AudioError;
use crate::audio::resample::RATE;
use crate::audio::stream::Stream;
use crate::dataset::META_FILE;
use undertone_worker_site::fault;
use undertone_worker_site::folder::{FolderError, create_private, exchange, recover, sync_folder, write_durably};
use undertone_worker_site::lineage::{LineageError, LineageIntake, LineageMarker};

/// File name extensions of supported audio files.
const ENDINGS: [&str; 2] = ["wav", "flac"];
/// Maximum length of a file or folder name, bytes. Transcripts have the same names with extensions, and are written
/// after the ledger is charged.
const LONGEST_NAME: usize = 200;
/// Maximum depth below the input folder.
pub const DEEPEST: usize = 16;

/// The recordings to add.
#[derive(Debug, Clone)]
pub struct Options {
    /// A folder with WAV and FLAC files, also in subfolders.
    pub input: PathBuf,
    /// The folder of the dataset.
    pub output: PathBuf,
    /// The name of the dataset.
    pub name: String,
    /// True to replace an existing dataset.
    pub replace: bool,
    /// The current time (RFC 3339, UTC).
    pub created: String,
}

/// The result of an addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddSummary {
    /// Number of recordings.
    pub recordings: usize,
    /// Their length in seconds, rounded up.
    pub seconds: u64,
    /// Number of recordings with a reference transcript.
    pub references: usize,
}

/// Prints the result for the terminal.
impl std::fmt::Display for AddSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { recordings, seconds, references } = self;
        write!(f, "Recordings      {recordings}\nSeconds         {seconds}\nWith reference  {references}")
    }
}

/// Reasons why no dataset was created.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The input cannot be read.
    #[error("cannot read {path}: check --input")]
    Input {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The input contains no recording.
    #[error("{0} holds no WAV or FLAC file: check --input")]
    None(PathBuf),
    /// The input contains too many recordings.
    #[error("--input: {0} recordings, at most {MOST}: add them as several datasets")]
    Many(usize),
    /// Two recordings have the same name.
    #[error("--input: two recordings are called `{0}` but for their endings: rename one")]
    Twice(String),
    /// The transcript of one recording would have the path of another recording's folder.
    #[error(
        "--input: a transcript of `{first}` would lie where the folder of `{second}` has to be, both in the folder of transcripts: \
         rename one"
    )]
    Place {
        /// The recording with the transcript.
        first: String,
        /// The recording in the folder.
        second: String,
    },
    /// The name is not valid for a transcript.
    #[error("--input: the name of {0} is too long or no UTF-8: name files and folders in at most {LONGEST_NAME} bytes")]
    Name(PathBuf),
    /// A recording is invalid.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// A reference is too long or not text.
    #[error("{0} is no reference transcript: a file, no link, of UTF-8 text of at most {limit} MiB", limit = LARGEST_REFERENCE >> 20)]
    Reference(PathBuf),
    /// The recordings are charged to the accounts of another dataset.
    #[error(transparent)]
    Lineage(Box<LineageError>),
    /// A dataset with this name exists.
    #[error("{0} is there already: choose another --name, or say --replace (its budget stays spent)")]
    There(PathBuf),
    /// The site's folder cannot be written.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Copies the recordings of a folder, each with the text of the same name next to it, into a dataset. Every recording
/// is decoded once; an invalid one aborts the call, and nothing is left. A crash leaves either the previous dataset or
/// the new one, complete.
///
/// # Errors
/// [`AddError`] with the file and the remedy.
pub fn add(options: &Options) -> Result<AddSummary, AddError> {
    add_to_lineage(options, None)
}

/// Adds recordings as [`add`] does, for a dataset of a site: its lineage is decided before the dataset is published.
///
/// # Errors
/// The errors of [`add`]; [`AddError::Lineage`] if the recordings are charged to other accounts.
pub fn add_to_lineage(options: &Options, intake: Option<&mut LineageIntake>) -> Result<AddSummary, AddError> {
    recover(&options.output)?;
    if options.output.exists() && !options.replace {
        return Err(AddError::There(options.output.clone()));
    }
    let mut files = BTreeMap::new();
    look(&options.input, &options.input, 0, &mut files)?;
    check_count(files.len(), &options.input)?;
    if let Some((first, second)) = collision(files.keys().map(String::as_str)) {
        return Err(AddError::Place { first: first.to_owned(), second: second.to_owned() });
    }
    let above = options.output.parent().unwrap_or(Path::new("."));
    create_private(above)?;
    // Hidden until complete.
    let growing = above.join(format!(".{}.growing", options.name));
    remove(&growing)?;
    let outcome = copy(options, &files, &growing, intake);
    if outcome.is_ok() {
        // After a failure both folders stay, because it is unknown which of them the disk has under the name. The next
        // call removes the remaining one.
        exchange(&growing, &options.output)?;
    }
    // The incomplete folder, or the replaced one.
    remove(&growing)?;
    outcome
}

/// Checks that a dataset may have `found` recordings.
fn check_count(found: usize, input: &Path) -> Result<(), AddError> {
    match found {
        0 => Err(AddError::None(input.to_owned())),
        many if many > MOST => Err(AddError::Many(many)),
        _ => Ok(()),
    }
}

fn copy(
    options: &Options,
    found: &BTreeMap<String, PathBuf>,
    to: &Path,
    mut intake: Option<&mut LineageIntake>,
) -> Result<AddSummary, AddError> {
    let (audio, references) = (to.join("audio"), to.join("references"));
    create_private(&audio)?;
    create_private(&references)?;
    let mut recordings = Vec::with_capacity(found.len());
    for (number, (name, path)) in found.iter().enumerate() {
        let mut samples = 0;
        let mut sound = SampleHash::default();
        for block in Stream::open(path, LONGEST)? {
            let block = block?;
            samples += block.len() as u64;
            sound.update(&block);
        }
        let ending = ending(path).unwrap_or(ENDINGS[0]);
        let file = format!("{number}.{ending}");
        let copied = audio.join(&file);
        let bytes = private_copy(path, &copied)?;
        let digest = digest_of_file(&copied).map_err(FolderError::io("read", &copied))?;
        if let Some(intake) = intake.as_deref_mut() {
            intake.add_recording(&digest, &sound.finish());
        }
        let reference = reference(path)?.map(|text| -> Result<_, FolderError> {
            let file = format!("{number}.txt");
            write_durably(&references.join(&file), text.as_bytes())?;
            Ok((file, hex::encode(Sha256::digest(&text))))
        });
        recordings.push(Recording {
            name: name.clone(),
            file,
            samples,
            bytes,
            digest: hex::encode(digest),
            reference: reference.transpose()?,
        });
    }
    sync_folder(&audio)?;
    if let Some(intake) = intake {
        let marker = intake.admit().map_err(|error| AddError::Lineage(Box::new(error)))?;
        write_durably(&to.join(LineageMarker::FILE), &marker.to_json())?;
    }
    let samples: u64 = recordings.iter().map(|recording| recording.samples).sum();
    let added = AddSummary {
        recordings: recordings.len(),
        seconds: samples.div_ceil(u64::from(RATE)),
        references: recordings.iter().filter(|recording| recording.reference.is_some()).count(),
    };
    let meta = Meta {
        content: DatasetContent::Recordings,
        format: FORMAT,
        name: options.name.clone(),
        digest: digest(&recordings),
        recordings,
        created: options.created.clone(),
    };
    let path = to.join(META_FILE);
    let text = serde_json::to_vec_pretty(&meta)
        .map_err(|error| FolderError::io("write", &path)(std::io::Error::other(error)))?;
    write_durably(&path, &text)?;
    Ok(added)
}

/// Copies a file with permissions for its owner only, makes it durable, and returns its size in bytes.
fn private_copy(from: &Path, to: &Path) -> Result<u64, AddError> {
    let mut input = fs::File::open(from).map_err(|source| AddError::Input { path: from.to_owned(), source })?;
    let mut options = fs::OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut output = options.open(to).map_err(FolderError::io("create", to))?;
    let bytes = std::io::copy(&mut input, &mut output).map_err(FolderError::io("write", to))?;
    output.flush().and_then(|()| output.sync_all()).map_err(FolderError::io("sync", to))?;
    Ok(bytes)
}

/// Returns the reference text of a recording.
fn reference(recording: &Path) -> Result<Option<String>, AddError> {
    let path = recording.with_extension("txt");
    let refused = || AddError::Reference(path.clone());
    // A link is rejected, as for recordings: its target may be any file.
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(refused()),
        Ok(about) if !about.is_file() || about.len() > LARGEST_REFERENCE => Err(refused()),
        Ok(_) => fs::read_to_string(&path).map(Some).map_err(|_| refused()),
    }
}

/// Collects the recordings below `folder`, by name.
fn look(root: &Path, folder: &Path, depth: usize, found: &mut BTreeMap<String, PathBuf>) -> Result<(), AddError> {
    let refused = |path: &Path| {
        let path = path.to_owned();
        move |source| AddError::Input { path, source }
    };
    if depth > DEEPEST {
        return Ok(());
    }
    for item in fs::read_dir(folder).map_err(refused(folder))? {
        let item = item.map_err(refused(folder))?;
        let path = item.path();
        // Links are not followed: they may form a cycle or leave the folder.
        let kind = item.file_type().map_err(refused(&path))?;
        if kind.is_dir() {
            look(root, &path, depth + 1, found)?;
        } else if kind.is_file() && ending(&path).is_some() {
            let name = name(path.strip_prefix(root).unwrap_or(&path)).ok_or_else(|| AddError::Name(path.clone()))?;
            if found.insert(name.clone(), path).is_some() {
                return Err(AddError::Twice(name));
            }
        }
    }
    Ok(())
}

/// Returns the name of a recording, if it is valid for a transcript.
fn name(path: &Path) -> Option<String> {
    let fits = path.iter().all(|part| part.len() <= LONGEST_NAME);
    path.with_extension("").to_str().filter(|_| fits).map(str::to_owned)
}

fn ending(path: &Path) -> Option<&'static str> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    ENDINGS.into_iter().find(|known| *known == extension)
}

fn remove(folder: &Path) -> Result<(), FolderError> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(FolderError::io("remove", folder)(error)),
        _ => {
            fault::point(fault::AFTER_REMOVAL);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::path::Path;

    use super::super::Recordings;
    use super::{AddError, AddSummary, DEEPEST, LARGEST_REFERENCE, MOST, Options, add, check_count};
    use crate::wav;
    use undertone_worker_site::fault::{self, FailureKind, FailurePlan};

    fn options(folder: &Path) -> Options {
        Options {
            input: folder.join("in"),
            output: folder.join("data/ward"),
            name: "ward".to_owned(),
            replace: false,
            created: String::new(),
        }
    }

    fn write(folder: &Path, name: &str, seconds: usize) {
        let path = folder.join("in").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, wav::write(&vec![0.25; 16_000 * seconds])).unwrap();
    }

    #[test]
    fn recordings_are_copied_with_their_references_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "b.wav", 2);
        write(folder.path(), "ward/a.WAV", 1);
        std::fs::write(folder.path().join("in/b.txt"), "go forward").unwrap();
        std::fs::write(folder.path().join("in/notes.md"), "not a recording").unwrap();
        let options = options(folder.path());
        assert_eq!(add(&options).unwrap(), AddSummary { recordings: 2, seconds: 3, references: 1 });
        let dataset = Recordings::check(&options.output).unwrap();
        let names: Vec<&str> = dataset.meta().recordings.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, dataset.meta().seconds()), (vec!["b", "ward/a"], 3));
        let first = &dataset.meta().recordings[0];
        assert_eq!(dataset.reference(first).unwrap().as_deref(), Some("go forward"));
        let samples: usize = dataset.stream(first).unwrap().map(|block| block.unwrap().len()).sum();
        assert_eq!(samples as u64, first.samples);
        assert!(!format!("{dataset:?}").contains("ward/a"), "names of recordings are not printed");
        // A changed file is rejected.
        std::fs::write(options.output.join("audio").join(&first.file), wav::write(&vec![0.5; 32_000])).unwrap();
        assert!(Recordings::check(&options.output).is_err() && dataset.stream(first).is_err());
    }

    #[test]
    fn dataset_above_the_recording_limit_is_refused() {
        let input = Path::new("in");
        assert!(check_count(1, input).is_ok() && check_count(MOST, input).is_ok());
        assert!(matches!(check_count(0, input), Err(AddError::None(_))));
        let refused = check_count(MOST + 1, input).unwrap_err();
        assert!(refused.to_string().contains("100001 recordings, at most 100000"), "{refused}");
    }

    #[test]
    fn reference_above_its_limit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.wav", 1);
        let text = std::fs::File::create(folder.path().join("in/a.txt")).unwrap();
        text.set_len(LARGEST_REFERENCE).unwrap();
        let options = options(folder.path());
        assert_eq!(add(&options).unwrap().references, 1);
        text.set_len(LARGEST_REFERENCE + 1).unwrap();
        let refused = add(&Options { replace: true, ..options }).unwrap_err();
        assert!(refused.to_string().contains("at most 16 MiB"), "{refused}");
    }

    #[test]
    fn folders_are_searched_to_the_maximum_depth() {
        let folder = tempfile::tempdir().unwrap();
        for depth in [DEEPEST, DEEPEST + 1] {
            write(folder.path(), &format!("{}{depth}.wav", "deep/".repeat(depth)), 1);
        }
        let options = options(folder.path());
        add(&options).unwrap();
        let dataset = Recordings::open(&options.output).unwrap();
        let names: Vec<&str> = dataset.meta().recordings.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, [format!("{}{DEEPEST}", "deep/".repeat(DEEPEST))]);
    }

    #[test]
    fn unreadable_recording_is_named_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        assert!(matches!(add(&options), Err(AddError::Input { .. })));
        write(folder.path(), "a.wav", 1);
        std::fs::write(folder.path().join("in/broken.wav"), "RIFF").unwrap();
        assert!(matches!(add(&options), Err(AddError::Audio(_))));
        assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 0);
        std::fs::write(folder.path().join("in/broken.wav"), wav::write(&[0.1; 800])).unwrap();
        add(&options).unwrap();
        assert!(matches!(add(&options), Err(AddError::There(_))));
        assert_eq!(add(&Options { replace: true, ..options.clone() }).unwrap().recordings, 2);
        write(folder.path(), "a.flac", 1);
        assert!(matches!(add(&Options { replace: true, ..options }), Err(AddError::Twice(name)) if name == "a"));
    }

    #[test]
    fn crash_while_replacing_leaves_old_or_new_recordings() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { replace: true, ..options(folder.path()) };
        write(folder.path(), "a.wav", 1);
        std::fs::write(folder.path().join("in/a.txt"), "go forward").unwrap();
        let (mut seconds, mut deaths, mut swapped) = (1, 0, 0);
        add(&options).unwrap();
        for after in 1.. {
            write(folder.path(), "a.wav", seconds + 1);
            fault::plan(Some(FailurePlan { accident: FailureKind::Crash, after }));
            let ended = std::panic::catch_unwind(|| add(&options));
            fault::plan(None);
            let there = Recordings::check(&options.output).expect("they are whole").meta().seconds() as usize;
            assert!([seconds, seconds + 1].contains(&there), "{there} seconds instead of {seconds} or one more");
            if let Ok(added) = ended {
                assert_eq!((added.unwrap().seconds as usize, there), (seconds + 1, seconds + 1));
                break;
            }
            deaths += 1;
            swapped += usize::from(there > seconds);
            seconds = there;
        }
        assert!(deaths > 4 && (1..deaths).contains(&swapped), "{swapped} of {deaths}");
        assert_eq!(std::fs::read_dir(folder.path().join("data")).unwrap().count(), 1, "nothing is left beside them");
    }

    #[test]
    fn replaced_dataset_stays_until_the_new_name_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { replace: true, ..options(folder.path()) };
        write(folder.path(), "a.wav", 1);
        add(&options).unwrap();
        write(folder.path(), "a.wav", 2);
        let seconds = |at: &Path| Recordings::open(at).ok().map(|made| made.meta().seconds());
        let (replaced, mut last) = (folder.path().join("data/.ward.growing"), None);
        for after in 1.. {
            fault::plan(Some(FailurePlan { accident: FailureKind::Disk, after }));
            let ended = add(&options);
            if fault::plan(None).is_some() {
                assert!(ended.is_ok(), "the disk did not fail any more");
                break;
            }
            last = Some((ended.is_ok(), seconds(&options.output), seconds(&replaced)));
        }
        assert_eq!(last, Some((false, Some(2), Some(1))), "the last place is the sync of the new name");
        assert_eq!((seconds(&options.output), replaced.exists()), (Some(2), false));
    }

    #[test]
    fn transcript_path_inside_another_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.wav", 1);
        write(folder.path(), "a.json/b.wav", 1);
        let options = options(folder.path());
        let refused = add(&options).unwrap_err().to_string();
        assert!(refused.contains("`a`") && refused.contains("`a.json/b`") && refused.contains("rename"), "{refused}");
        assert!(!options.output.exists());
        std::fs::rename(folder.path().join("in/a.json"), folder.path().join("in/a.mp3")).unwrap();
        assert_eq!(add(&options).unwrap().recordings, 2);
    }

    #[test]
    fn name_too_long_for_a_transcript_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path());
        let long = "x".repeat(super::LONGEST_NAME - 4);
        write(folder.path(), &format!("{long}.wav"), 1);
        assert_eq!(add(&options).unwrap().recordings, 1);
        write(folder.path(), &format!("{long}x.wav"), 1);
        assert!(matches!(add(&Options { replace: true, ..options }), Err(AddError::Name(_))));
    }

    #[cfg(unix)]
    #[test]
    fn a_reference_that_is_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a.wav", 1);
        std::fs::write(folder.path().join("secret"), "not a transcript").unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), folder.path().join("in/a.txt")).unwrap();
        assert!(matches!(add(&options(folder.path())), Err(AddError::Reference(path)) if path.ends_with("a.txt")));
    }
}
