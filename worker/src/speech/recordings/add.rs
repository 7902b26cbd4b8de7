//! Makes a dataset of the recordings in a folder.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use undertone_api::dataset::Content;

use super::{FORMAT, LARGEST_REFERENCE, LONGEST, MOST, Meta, Recording, collision, digest, digest_of_file};
use crate::fault;
use crate::site::folder::{FolderError, create_private, exchange, recover, sync_folder, write_durably};
use crate::site::lineage::{LineageError, LineageIntake, LineageMarker};
use crate::speech::audio::{AudioError, RATE, SampleHash, Stream};
use crate::speech::dataset::META_FILE;

/// Endings of sound files that are read.
const ENDINGS: [&str; 2] = ["wav", "flac"];
/// Longest name of a file or folder, bytes: transcripts are written under it, with endings, after everything is paid.
const LONGEST_NAME: usize = 200;
/// Deepest folder below the one that is given.
pub(crate) const DEEPEST: usize = 16;

/// What is to be added.
#[derive(Debug, Clone)]
pub struct Options {
    /// A folder of WAV and FLAC files, in folders below it too.
    pub input: PathBuf,
    /// Where the dataset is to lie.
    pub output: PathBuf,
    /// Its name.
    pub name: String,
    /// Whether one that lies there already is replaced.
    pub replace: bool,
    /// When (RFC 3339, UTC).
    pub created: String,
}

/// What was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Added {
    /// Recordings.
    pub recordings: usize,
    /// Their seconds, rounded up.
    pub seconds: u64,
    /// How many have a reference transcript.
    pub references: usize,
}

/// For people.
impl std::fmt::Display for Added {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { recordings, seconds, references } = self;
        write!(f, "Recordings      {recordings}\nSeconds         {seconds}\nWith reference  {references}")
    }
}

/// Why nothing was added.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    /// The input cannot be read.
    #[error("cannot read {path}: check --input")]
    Input {
        /// What.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Nothing there.
    #[error("{0} holds no WAV or FLAC file: check --input")]
    None(PathBuf),
    /// Too many.
    #[error("--input: {0} recordings, at most {MOST}: add them as several datasets")]
    Many(usize),
    /// Two of one name.
    #[error("--input: two recordings are called `{0}` but for their endings: rename one")]
    Twice(String),
    /// Two of which one's transcript would lie where the other is.
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
    /// A name that no transcript could have.
    #[error("--input: the name of {0} is too long or no UTF-8: name files and folders in at most {LONGEST_NAME} bytes")]
    Name(PathBuf),
    /// A recording that is none.
    #[error(transparent)]
    Audio(#[from] AudioError),
    /// A reference that is too long or no text.
    #[error("{0} is no reference transcript: a file, no link, of UTF-8 text of at most {limit} MiB", limit = LARGEST_REFERENCE >> 20)]
    Reference(PathBuf),
    /// Recordings that are charged to the accounts of another dataset.
    #[error(transparent)]
    Lineage(Box<LineageError>),
    /// A dataset lies there.
    #[error("{0} is there already: choose another --name, or say --replace (its budget stays spent)")]
    There(PathBuf),
    /// The site's folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
}

/// Copies the recordings of a folder, each with the text of the same name beside it, into a dataset. Every recording is decoded
/// once; what is broken is refused and nothing is left. Whoever dies on the way leaves the dataset that was there or the new
/// one, whole.
///
/// # Errors
/// [`AddError`] that names the file and the remedy.
pub fn add(options: &Options) -> Result<Added, AddError> {
    add_to_lineage(options, None)
}

/// As [`add`], for a dataset of a site: its lineage is decided before it has its place.
///
/// # Errors
/// As [`add`]; [`AddError::Lineage`] when the recordings are charged to other accounts.
pub fn add_to_lineage(options: &Options, intake: Option<&mut LineageIntake>) -> Result<Added, AddError> {
    recover(&options.output)?;
    if options.output.exists() && !options.replace {
        return Err(AddError::There(options.output.clone()));
    }
    let mut found = BTreeMap::new();
    look(&options.input, &options.input, 0, &mut found)?;
    counted(found.len(), &options.input)?;
    if let Some((first, second)) = collision(found.keys().map(String::as_str)) {
        return Err(AddError::Place { first: first.to_owned(), second: second.to_owned() });
    }
    let above = options.output.parent().unwrap_or(Path::new("."));
    create_private(above)?;
    // Hidden until it is whole.
    let growing = above.join(format!(".{}.growing", options.name));
    remove(&growing)?;
    let made = copy(options, &found, &growing, intake);
    if made.is_ok() {
        // Where this fails both stay: which of them the disk has under the name is not known. The next one removes what is left.
        exchange(&growing, &options.output)?;
    }
    // What is not whole, or what was replaced.
    remove(&growing)?;
    made
}

/// Whether so many recordings are a dataset.
fn counted(found: usize, input: &Path) -> Result<(), AddError> {
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
) -> Result<Added, AddError> {
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
    let added = Added {
        recordings: recordings.len(),
        seconds: samples.div_ceil(u64::from(RATE)),
        references: recordings.iter().filter(|recording| recording.reference.is_some()).count(),
    };
    let meta = Meta {
        content: Content::Recordings,
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

/// Copies a file for its owner's eyes alone, to the disk; its bytes.
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

/// The text beside a recording.
fn reference(recording: &Path) -> Result<Option<String>, AddError> {
    let path = recording.with_extension("txt");
    let refused = || AddError::Reference(path.clone());
    // A link is none, as it is no recording: what lies behind it may be anything.
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(_) => Err(refused()),
        Ok(about) if !about.is_file() || about.len() > LARGEST_REFERENCE => Err(refused()),
        Ok(_) => fs::read_to_string(&path).map(Some).map_err(|_| refused()),
    }
}

/// Recordings below `folder`, by name.
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
        // Links are not followed: they may lead back, or out.
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

/// What a recording is called, if a transcript can be called so.
fn name(path: &Path) -> Option<String> {
    let fits = path.iter().all(|part| part.len() <= LONGEST_NAME);
    path.with_extension("").to_str().filter(|_| fits).map(str::to_owned)
}

fn ending(path: &Path) -> Option<&'static str> {
    let said = path.extension()?.to_str()?.to_ascii_lowercase();
    ENDINGS.into_iter().find(|known| *known == said)
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
    use super::{AddError, Added, DEEPEST, LARGEST_REFERENCE, MOST, Options, add, counted};
    use crate::fault::{self, Accident, Plan};
    use crate::speech::transcribe::wav;

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
        assert_eq!(add(&options).unwrap(), Added { recordings: 2, seconds: 3, references: 1 });
        let made = Recordings::check(&options.output).unwrap();
        let names: Vec<&str> = made.meta().recordings.iter().map(|one| one.name.as_str()).collect();
        assert_eq!((names, made.meta().seconds()), (vec!["b", "ward/a"], 3));
        let first = &made.meta().recordings[0];
        assert_eq!(made.reference(first).unwrap().as_deref(), Some("go forward"));
        let samples: usize = made.stream(first).unwrap().map(|block| block.unwrap().len()).sum();
        assert_eq!(samples as u64, first.samples);
        assert!(!format!("{made:?}").contains("ward/a"), "names of recordings are not printed");
        // What was changed is not read.
        std::fs::write(options.output.join("audio").join(&first.file), wav::write(&vec![0.5; 32_000])).unwrap();
        assert!(Recordings::check(&options.output).is_err() && made.stream(first).is_err());
    }

    #[test]
    fn a_dataset_has_a_hundred_thousand_recordings_and_no_more() {
        let input = Path::new("in");
        assert!(counted(1, input).is_ok() && counted(MOST, input).is_ok());
        assert!(matches!(counted(0, input), Err(AddError::None(_))));
        let refused = counted(MOST + 1, input).unwrap_err();
        assert!(refused.to_string().contains("100001 recordings, at most 100000"), "{refused}");
    }

    #[test]
    fn a_reference_has_its_size_and_no_more() {
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
    fn folders_are_looked_through_as_deep_as_is_said() {
        let folder = tempfile::tempdir().unwrap();
        for depth in [DEEPEST, DEEPEST + 1] {
            write(folder.path(), &format!("{}{depth}.wav", "deep/".repeat(depth)), 1);
        }
        let options = options(folder.path());
        add(&options).unwrap();
        let made = Recordings::open(&options.output).unwrap();
        let names: Vec<&str> = made.meta().recordings.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, [format!("{}{DEEPEST}", "deep/".repeat(DEEPEST))]);
    }

    #[test]
    fn what_cannot_be_read_is_named_and_leaves_nothing() {
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
    fn who_dies_while_recordings_are_replaced_leaves_the_old_or_the_new_ones_whole() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { replace: true, ..options(folder.path()) };
        write(folder.path(), "a.wav", 1);
        std::fs::write(folder.path().join("in/a.txt"), "go forward").unwrap();
        let (mut seconds, mut deaths, mut swapped) = (1, 0, 0);
        add(&options).unwrap();
        for after in 1.. {
            write(folder.path(), "a.wav", seconds + 1);
            fault::plan(Some(Plan { accident: Accident::Death, after }));
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
    fn what_was_replaced_stays_until_the_disk_has_the_new_name() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { replace: true, ..options(folder.path()) };
        write(folder.path(), "a.wav", 1);
        add(&options).unwrap();
        write(folder.path(), "a.wav", 2);
        let seconds = |at: &Path| Recordings::open(at).ok().map(|made| made.meta().seconds());
        let (replaced, mut last) = (folder.path().join("data/.ward.growing"), None);
        for after in 1.. {
            fault::plan(Some(Plan { accident: Accident::Disk, after }));
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
    fn a_recording_whose_transcript_would_lie_where_another_has_its_folder_is_refused_by_both_names() {
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
    fn a_name_under_which_no_transcript_could_be_written_is_refused() {
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
