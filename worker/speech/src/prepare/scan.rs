//! Finds and selects recordings in a folder.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use undertone_api::dataset::Visibility;

use super::PrepareOptions;
use super::units::UserTable;

/// Maximum depth of the search in folders.
const DEEPEST: usize = 8;

/// One recording.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScannedRecording {
    /// The folder above its chapter. The same name is the same person in every subset.
    pub(super) speaker: String,
    /// Its file name without extension.
    pub(super) id: String,
    /// The folder above the speaker, or empty.
    pub(super) subset: String,
    /// Its path.
    pub(super) path: PathBuf,
}

/// The content of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FolderContent {
    /// By path.
    pub(super) recordings: Vec<ScannedRecording>,
    /// Audio files outside a speaker's chapter.
    pub(super) misplaced: Vec<PathBuf>,
}

/// The selected recordings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RecordingSelection {
    /// By speaker, then id; no id twice.
    pub(super) recordings: Vec<ScannedRecording>,
    /// Audio files whose id an earlier recording has, by path. For public data only.
    pub(super) repeated: Vec<PathBuf>,
}

/// The selection of speakers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SpeakerChoice {
    /// All of them.
    All,
    /// These, by name.
    Named(Vec<String>),
    /// These, by index in the sorted list of the chosen subsets' speakers, from 0, end excluded. The index of a speaker
    /// depends on the other speakers, so this is for public data only.
    Range(Range<usize>),
}

/// The selection of utterances of each speaker (with users: of each user of the speaker), in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UtteranceChoice {
    /// All of them.
    All,
    /// These, by id.
    Named(BTreeSet<String>),
    /// This number of first utterances.
    First(usize),
    /// All but this number of first utterances.
    Skip(usize),
}

/// Reasons why a selection fails.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The folder cannot be read.
    #[error("cannot read {path}: check --input")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// There is no recording.
    #[error(
        "no recording in {0}: --input should hold <subset>/<speaker>/<chapter>/<id>.flac or .wav, and nothing was written"
    )]
    Empty(PathBuf),
    /// Audio files exist, but outside any speaker's chapter.
    #[error(
        "{count} audio files in {input}, none in a speaker's chapter (as {first}): arrange them as \
         <subset>/<speaker>/<chapter>/<id>.flac or .wav"
    )]
    Misplaced {
        /// The folder.
        input: PathBuf,
        /// Number of audio files.
        count: usize,
        /// One of them.
        first: PathBuf,
    },
    /// The subset does not exist.
    #[error("no subset {asked}: there is {}", there.join(", "))]
    Subset {
        /// The requested subset.
        asked: String,
        /// The existing subsets.
        there: Vec<String>,
    },
    /// The speaker does not exist.
    #[error("no speaker {asked} among the {there} of the chosen subsets")]
    Speaker {
        /// The requested speaker.
        asked: String,
        /// Number of existing speakers.
        there: usize,
    },
    /// The range exceeds the list.
    #[error("--speaker-range {}..{}: the chosen subsets have {there} speakers", asked.start, asked.end)]
    Range {
        /// The requested range.
        asked: Range<usize>,
        /// Number of existing speakers.
        there: usize,
    },
    /// The utterance does not exist.
    #[error("no utterance {asked} among the {there} of the chosen speakers")]
    Utterance {
        /// The requested utterance.
        asked: String,
        /// Number of existing utterances.
        there: usize,
    },
    /// Two recordings have the same id.
    #[error(
        "{count} recordings have the id of another one ({first} and {second}): labels, transcripts and users are found by id, \
         and which of two recordings is meant would be decided by the other one. Give each an id of its own (its file's name), or \
         leave them out with --subset or --speakers; of public data (--visibility public) the first by path is taken"
    )]
    Repeated {
        /// Number of such recordings.
        count: usize,
        /// A recording.
        first: PathBuf,
        /// Another one with the same id.
        second: PathBuf,
    },
    /// The selection is empty.
    #[error("--skip {0} leaves no utterance of any chosen speaker")]
    Skipped(usize),
}

/// Finds all recordings below `input`.
pub(super) fn scan(input: &Path) -> Result<FolderContent, ScanError> {
    let mut files = Vec::new();
    walk(input, 0, &mut files)?;
    files.sort();
    let mut content = FolderContent::default();
    for path in files {
        let relative = path.strip_prefix(input).unwrap_or(&path);
        let parts: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let [above @ .., speaker, _chapter, _file] = parts.as_slice() else {
            content.misplaced.push(path);
            continue;
        };
        let subset = above.last().cloned().unwrap_or_default();
        content.recordings.push(ScannedRecording { speaker: speaker.clone(), id, subset, path });
    }
    match content.misplaced.first() {
        _ if !content.recordings.is_empty() => Ok(content),
        None => Err(ScanError::Empty(input.to_path_buf())),
        Some(first) => {
            let (input, count) = (input.to_path_buf(), content.misplaced.len());
            Err(ScanError::Misplaced { input, count, first: first.clone() })
        }
    }
}

/// Collects audio files; hidden names are skipped.
fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ScanError> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ScanError::Io { path, source }
    };
    for entry in std::fs::read_dir(folder).map_err(io(folder))? {
        let entry = entry.map_err(io(folder))?;
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        // Follows links, because corpora are often linked together from several disks. The depth limit ends a cycle.
        if path.is_dir() {
            if depth < DEEPEST {
                walk(&path, depth + 1, files)?;
            }
        } else if path
            .extension()
            .is_some_and(|ext| ext.eq_ignore_ascii_case("flac") || ext.eq_ignore_ascii_case("wav"))
        {
            files.push(path);
        }
    }
    Ok(())
}

/// Selects recordings by the options, in order. Except for a range of speakers, the selection of a recording depends on
/// its own name and, with [`UtteranceChoice::First`] and [`UtteranceChoice::Skip`], on the other recordings of its speaker and user.
///
/// # Errors
/// [`ScanError`] if a requested item does not exist, or if two recordings of data that are not public have one id.
pub(super) fn choose(
    recordings: &[ScannedRecording],
    options: &PrepareOptions,
    units: Option<&UserTable>,
) -> Result<RecordingSelection, ScanError> {
    let subsets: BTreeSet<&String> = recordings.iter().map(|recording| &recording.subset).collect();
    if let Some(asked) = options.subsets.iter().find(|asked| !subsets.contains(asked)) {
        let there = subsets.into_iter().cloned().collect();
        return Err(ScanError::Subset { asked: asked.clone(), there });
    }
    let of_subset =
        |recording: &&ScannedRecording| options.subsets.is_empty() || options.subsets.contains(&recording.subset);
    let of_subsets: Vec<&ScannedRecording> = recordings.iter().filter(of_subset).collect();
    let speakers = choose_speakers(&of_subsets, options)?;
    let of_speakers = of_subsets.into_iter().filter(|recording| speakers.contains(recording.speaker.as_str()));
    let mut selection = unique(of_speakers.cloned(), options)?;
    selection.recordings.sort();
    let there = selection.recordings.len();
    if let UtteranceChoice::Named(ids) = &options.take {
        let existing: BTreeSet<&str> = selection.recordings.iter().map(|recording| recording.id.as_str()).collect();
        if let Some(asked) = ids.iter().find(|id| !existing.contains(id.as_str())) {
            return Err(ScanError::Utterance { asked: asked.clone(), there });
        }
    }
    let mut places: BTreeMap<(String, Option<&str>), usize> = BTreeMap::new();
    selection.recordings.retain(|recording| {
        let user = units.and_then(|units| units.user(&recording.id));
        let place = places.entry((recording.speaker.clone(), user)).or_default();
        *place += 1;
        match &options.take {
            UtteranceChoice::All => true,
            UtteranceChoice::Named(ids) => ids.contains(&recording.id),
            UtteranceChoice::First(count) => *place <= *count,
            UtteranceChoice::Skip(count) => *place > *count,
        }
    });
    match options.take {
        UtteranceChoice::Skip(count) if selection.recordings.is_empty() => Err(ScanError::Skipped(count)),
        _ => Ok(selection),
    }
}

/// Returns the names of the selected speakers.
fn choose_speakers<'a>(
    recordings: &[&'a ScannedRecording],
    options: &PrepareOptions,
) -> Result<BTreeSet<&'a str>, ScanError> {
    let all: BTreeSet<&str> = recordings.iter().map(|recording| recording.speaker.as_str()).collect();
    let there = all.len();
    match &options.speakers {
        SpeakerChoice::All => Ok(all),
        SpeakerChoice::Named(names) => {
            if let Some(asked) = names.iter().find(|name| !all.contains(name.as_str())) {
                return Err(ScanError::Speaker { asked: asked.clone(), there });
            }
            Ok(all.into_iter().filter(|name| names.iter().any(|asked| asked == name)).collect())
        }
        SpeakerChoice::Range(range) => {
            if range.is_empty() || range.end > there {
                return Err(ScanError::Range { asked: range.clone(), there });
            }
            Ok(all.into_iter().skip(range.start).take(range.len()).collect())
        }
    }
}

/// Checks that every recording has a unique id. For public data the first by path is used.
fn unique(
    recordings: impl Iterator<Item = ScannedRecording>,
    options: &PrepareOptions,
) -> Result<RecordingSelection, ScanError> {
    let (mut by_id, mut repeated) = (BTreeMap::new(), Vec::new());
    for recording in recordings {
        match by_id.entry(recording.id.clone()) {
            Entry::Vacant(place) => {
                place.insert(recording);
            }
            Entry::Occupied(earlier) => repeated.push((earlier.get().path.clone(), recording.path)),
        }
    }
    match repeated.first() {
        Some((first, second)) if options.visibility != Visibility::Public => {
            Err(ScanError::Repeated { count: repeated.len(), first: first.clone(), second: second.clone() })
        }
        _ => Ok(RecordingSelection {
            recordings: by_id.into_values().collect(),
            repeated: repeated.into_iter().map(|(_, path)| path).collect(),
        }),
    }
}
