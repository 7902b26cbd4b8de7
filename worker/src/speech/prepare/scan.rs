//! Finds recordings in a folder and chooses among them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use undertone_api::dataset::Visibility;

use super::Options;
use super::units::Units;

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
    /// By path.
    pub(super) recordings: Vec<Recording>,
    /// Audio that is not in a speaker's chapter.
    pub(super) misplaced: Vec<PathBuf>,
}

/// What the options ask for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Chosen {
    /// By speaker, then id; no id twice.
    pub(super) recordings: Vec<Recording>,
    /// Audio whose id an earlier recording has, by path. Of public data only.
    pub(super) repeated: Vec<PathBuf>,
}

/// Which speakers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Speakers {
    /// All of them.
    All,
    /// These, by name.
    Named(Vec<String>),
    /// These, by place in the sorted list of the chosen subsets' speakers, from 0, end excluded. Where a speaker stands
    /// depends on who else is there: of public data only.
    Range(Range<usize>),
}

/// Which utterances of each speaker (where there are users: of each user of the speaker), in the order of their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Take {
    /// All of them.
    All,
    /// These, by id.
    Named(BTreeSet<String>),
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
    /// An utterance that is not there.
    #[error("no utterance {asked} among the {there} of the chosen speakers")]
    Utterance {
        /// The one asked for.
        asked: String,
        /// How many there are.
        there: usize,
    },
    /// Two recordings of one id.
    #[error(
        "{count} recordings have the id of another one ({first} and {second}): labels, transcripts and users are found by id, \
         and which of two recordings is meant would be decided by the other one. Give each an id of its own (its file's name), or \
         leave them out with --subset or --speakers; of public data (--visibility public) the first by path is taken"
    )]
    Repeated {
        /// How many.
        count: usize,
        /// A recording.
        first: PathBuf,
        /// Another one of the same id.
        second: PathBuf,
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
    let mut found = Found::default();
    for path in files {
        let relative = path.strip_prefix(input).unwrap_or(&path);
        let parts: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let [above @ .., speaker, _chapter, _file] = parts.as_slice() else {
            found.misplaced.push(path);
            continue;
        };
        let subset = above.last().cloned().unwrap_or_default();
        found.recordings.push(Recording { speaker: speaker.clone(), id, subset, path });
    }
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

/// Keeps what the options ask for, in order. Apart from a range of speakers, whether a recording is kept depends on its own
/// name and, with [`Take::First`] and [`Take::Skip`], on the other recordings of its speaker and user.
///
/// # Errors
/// [`ScanError`] where something is asked for that is not there, or where two recordings of data that are not public have
/// one id.
pub(super) fn choose(recordings: &[Recording], options: &Options, units: Option<&Units>) -> Result<Chosen, ScanError> {
    let subsets: BTreeSet<&String> = recordings.iter().map(|recording| &recording.subset).collect();
    if let Some(asked) = options.subsets.iter().find(|asked| !subsets.contains(asked)) {
        let there = subsets.into_iter().cloned().collect();
        return Err(ScanError::Subset { asked: asked.clone(), there });
    }
    let of_subset = |recording: &&Recording| options.subsets.is_empty() || options.subsets.contains(&recording.subset);
    let of_subsets: Vec<&Recording> = recordings.iter().filter(of_subset).collect();
    let speakers = choose_speakers(&of_subsets, options)?;
    let of_speakers = of_subsets.into_iter().filter(|recording| speakers.contains(recording.speaker.as_str()));
    let mut chosen = unique(of_speakers.cloned(), options)?;
    chosen.recordings.sort();
    let there = chosen.recordings.len();
    if let Take::Named(ids) = &options.take {
        let known: BTreeSet<&str> = chosen.recordings.iter().map(|recording| recording.id.as_str()).collect();
        if let Some(asked) = ids.iter().find(|id| !known.contains(id.as_str())) {
            return Err(ScanError::Utterance { asked: asked.clone(), there });
        }
    }
    let mut places: BTreeMap<(String, Option<&str>), usize> = BTreeMap::new();
    chosen.recordings.retain(|recording| {
        let user = units.and_then(|units| units.of(&recording.id));
        let place = places.entry((recording.speaker.clone(), user)).or_default();
        *place += 1;
        match &options.take {
            Take::All => true,
            Take::Named(ids) => ids.contains(&recording.id),
            Take::First(count) => *place <= *count,
            Take::Skip(count) => *place > *count,
        }
    });
    match options.take {
        Take::Skip(count) if chosen.recordings.is_empty() => Err(ScanError::Skipped(count)),
        _ => Ok(chosen),
    }
}

/// Returns the names of the speakers that the options ask for.
fn choose_speakers<'a>(recordings: &[&'a Recording], options: &Options) -> Result<BTreeSet<&'a str>, ScanError> {
    let all: BTreeSet<&str> = recordings.iter().map(|recording| recording.speaker.as_str()).collect();
    let there = all.len();
    match &options.speakers {
        Speakers::All => Ok(all),
        Speakers::Named(names) => {
            if let Some(asked) = names.iter().find(|name| !all.contains(name.as_str())) {
                return Err(ScanError::Speaker { asked: asked.clone(), there });
            }
            Ok(all.into_iter().filter(|name| names.iter().any(|asked| asked == name)).collect())
        }
        Speakers::Range(range) => {
            if range.is_empty() || range.end > there {
                return Err(ScanError::Range { asked: range.clone(), there });
            }
            Ok(all.into_iter().skip(range.start).take(range.len()).collect())
        }
    }
}

/// Looks whether every recording has an id of its own. Of public data the first by path is taken.
fn unique(recordings: impl Iterator<Item = Recording>, options: &Options) -> Result<Chosen, ScanError> {
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
        _ => Ok(Chosen {
            recordings: by_id.into_values().collect(),
            repeated: repeated.into_iter().map(|(_, path)| path).collect(),
        }),
    }
}
