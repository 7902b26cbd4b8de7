//! Finds recordings in a folder and chooses among them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Options;

/// How deep a folder is searched.
const DEEPEST: usize = 8;

/// One recording.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Recording {
    /// The folder above its chapter. The same name is the same person, in whatever subset.
    pub(super) speaker: String,
    /// Its file name without extension.
    pub(super) id: String,
    /// The folder above the speaker, or empty.
    pub(super) subset: String,
    /// Where it is.
    pub(super) path: PathBuf,
}

/// What a folder holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// By speaker, then id; no id twice.
    pub(super) recordings: Vec<Recording>,
    /// Audio whose id another recording has already.
    pub(super) repeated: Vec<PathBuf>,
    /// Audio that is not in a speaker's chapter.
    pub(super) misplaced: Vec<PathBuf>,
}

/// Which speakers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speakers {
    /// All of them.
    All,
    /// These, by name.
    Named(Vec<String>),
    /// These, by place in the sorted list of the chosen subsets' speakers, from 0, end excluded.
    Range(Range<usize>),
}

/// Which utterances of each speaker, in the order of their ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// All of them.
    All,
    /// So many from the start.
    First(usize),
    /// All but so many from the start.
    Skip(usize),
}

/// Why there is nothing to choose from, or not what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ScanError {
    /// The file system refused.
    #[error("cannot read {path}: check --input")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// No recording at all.
    #[error(
        "no recording in {0}: --input should hold <subset>/<speaker>/<chapter>/<id>.flac or .wav, and nothing was written"
    )]
    Empty(PathBuf),
    /// Audio there is, but not where it should be.
    #[error(
        "{count} audio files in {input}, none in a speaker's chapter (as {first}): arrange them as \
         <subset>/<speaker>/<chapter>/<id>.flac or .wav"
    )]
    Misplaced {
        /// The folder.
        input: PathBuf,
        /// Audio files found.
        count: usize,
        /// One of them.
        first: PathBuf,
    },
    /// A subset that is not there.
    #[error("no subset {asked}: there is {}", there.join(", "))]
    Subset {
        /// The one asked for.
        asked: String,
        /// Those there are.
        there: Vec<String>,
    },
    /// A speaker who is not there.
    #[error("no speaker {asked} among the {there} of the chosen subsets")]
    Speaker {
        /// The one asked for.
        asked: String,
        /// How many there are.
        there: usize,
    },
    /// A range beyond the list.
    #[error("--speaker-range {}..{}: the chosen subsets have {there} speakers", asked.start, asked.end)]
    Range {
        /// The one asked for.
        asked: Range<usize>,
        /// How many there are.
        there: usize,
    },
    /// A choice that leaves nothing.
    #[error("--skip {0} leaves no utterance of any chosen speaker")]
    Skipped(usize),
}

/// Finds all recordings below `input`.
pub(super) fn scan(input: &Path) -> Result<Found, ScanError> {
    let mut files = Vec::new();
    walk(input, 0, &mut files)?;
    files.sort();
    let (mut found, mut by_id) = (Found::default(), BTreeMap::new());
    for path in files {
        let relative = path.strip_prefix(input).unwrap_or(&path);
        let parts: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let [above @ .., speaker, _chapter, _file] = parts.as_slice() else {
            found.misplaced.push(path);
            continue;
        };
        let subset = above.last().cloned().unwrap_or_default();
        let recording = Recording { speaker: speaker.clone(), id: id.clone(), subset, path };
        match by_id.entry(id) {
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(recording);
            }
            std::collections::btree_map::Entry::Occupied(_) => found.repeated.push(recording.path),
        }
    }
    found.recordings = by_id.into_values().collect();
    found.recordings.sort();
    match found.misplaced.first() {
        _ if !found.recordings.is_empty() => Ok(found),
        None => Err(ScanError::Empty(input.to_path_buf())),
        Some(first) => {
            let (input, count) = (input.to_path_buf(), found.misplaced.len());
            Err(ScanError::Misplaced { input, count, first: first.clone() })
        }
    }
}

/// Collects audio files; hidden names are passed over.
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
        // Follows links: corpora are often linked together from several disks. The depth ends a circle.
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

/// Keeps what the options ask for, in order.
pub(super) fn choose(recordings: Vec<Recording>, options: &Options) -> Result<Vec<Recording>, ScanError> {
    let subsets: BTreeSet<&String> = recordings.iter().map(|recording| &recording.subset).collect();
    if let Some(asked) = options.subsets.iter().find(|asked| !subsets.contains(asked)) {
        let there = subsets.into_iter().cloned().collect();
        return Err(ScanError::Subset { asked: asked.clone(), there });
    }
    let of_subset = |recording: &Recording| options.subsets.is_empty() || options.subsets.contains(&recording.subset);
    let mut by_speaker: BTreeMap<String, Vec<Recording>> = BTreeMap::new();
    for recording in recordings.into_iter().filter(of_subset) {
        by_speaker.entry(recording.speaker.clone()).or_default().push(recording);
    }
    let there = by_speaker.len();
    match &options.speakers {
        Speakers::All => {}
        Speakers::Named(names) => {
            if let Some(asked) = names.iter().find(|name| !by_speaker.contains_key(*name)) {
                return Err(ScanError::Speaker { asked: asked.clone(), there });
            }
            by_speaker.retain(|name, _| names.contains(name));
        }
        Speakers::Range(range) => {
            if range.is_empty() || range.end > there {
                return Err(ScanError::Range { asked: range.clone(), there });
            }
            by_speaker = by_speaker.into_iter().skip(range.start).take(range.len()).collect();
        }
    }
    let of_speaker = |recordings: Vec<Recording>| {
        let (skip, take) = match options.take {
            Take::All => (0, usize::MAX),
            Take::First(count) => (0, count),
            Take::Skip(count) => (count, usize::MAX),
        };
        recordings.into_iter().skip(skip).take(take)
    };
    let chosen: Vec<_> = by_speaker.into_values().flat_map(of_speaker).collect();
    match options.take {
        Take::Skip(count) if chosen.is_empty() => Err(ScanError::Skipped(count)),
        _ => Ok(chosen),
    }
}
