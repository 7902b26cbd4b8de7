//! Labels: one class for every 10 ms of an utterance, from where people have them, or made by forced [`aligner`]s.
//!
//! Four forms are read; `phones` turns phones into tied classes. Which form a line has is decided by the options and by that
//! line alone, so that no utterance's labels decide how those of others are read. To add a form: a file beside these, its
//! branch in `read`.
//!
//! | form | one utterance | classes | read by |
//! |---|---|---|---|
//! | run lengths, JSON Lines | a line `{"u": id, "frames": N, "runs": [[class, frames], ...]}` | as written, 0 to 65,535 | `runs` |
//! | Kaldi, `ali-to-pdf ... ark,t:` | a line `id class class ...` | as written; `--label-step 3` for a subsampled model | `kaldi` |
//! | CTM, `ali-to-phones --ctm-output` and others | lines `id channel start duration phone [confidence]`, seconds | phones → states → tied classes | `ctm` |
//! | TextGrid, Montreal Forced Aligner | a file `<id>.TextGrid` with an interval tier `phones` | phones → states → tied classes | `textgrid` |
//! | none: transcripts | `--align pocketsphinx`: a line `id TEXT` in a `*.trans.txt` beside the recordings | the model's tied states | [`pocketsphinx`] |
//!
//! Aligners differ from our features by a frame or three at the end of a recording, so labels are cut or features left
//! over, within a stated limit; beyond it the two are not of the same recording and [`Alignment::labels`] refuses. A line
//! that does not hold is counted, with its number and the reason, and passed over.

pub mod aligner;
mod ctm;
pub mod journal;
mod kaldi;
pub(super) mod lines;
mod phones;
pub mod pocketsphinx;
pub(super) mod process;
mod runs;
mod textgrid;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use self::phones::Phones;

pub use self::phones::PhoneMap;
pub use self::runs::parse;

/// How many frames labels and features may differ by, unless told otherwise.
pub const TOLERANCE: usize = 10;
/// The most frames an utterance may state: a day of speech.
const MOST_FRAMES: u64 = 8_640_000;
/// As much of a reason as is kept, characters.
const LONGEST_REASON: usize = 200;

/// The labels of one utterance, as runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alignment {
    /// Class and number of frames, in order of time; no run is empty.
    runs: Vec<(u16, u32)>,
    frames: usize,
}

/// Labels and features that cannot be of the same recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{labels} labels for {features} feature frames, more than {tolerance} apart")]
pub struct Mismatch {
    /// Frames the alignment has.
    pub labels: usize,
    /// Frames the features have.
    pub features: usize,
    /// How far apart they may be.
    pub tolerance: usize,
}

impl Alignment {
    /// Frames it has.
    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Classes and their frames, in order of time.
    pub fn runs(&self) -> &[(u16, u32)] {
        &self.runs
    }

    /// One label for each of the first frames that both labels and `features` frames of features have.
    ///
    /// # Errors
    /// [`Mismatch`] if the two differ by more than `tolerance` frames.
    pub fn labels(&self, features: usize, tolerance: usize) -> Result<Vec<u16>, Mismatch> {
        if self.frames.abs_diff(features) > tolerance {
            return Err(Mismatch { labels: self.frames, features, tolerance });
        }
        let each = self.runs.iter().flat_map(|(class, frames)| std::iter::repeat_n(*class, *frames as usize));
        Ok(each.take(features).collect())
    }
}

/// A line that was passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    /// Its number, from 1; of a folder, the file's in sorted order; 0 when what does not hold is in no one line.
    pub line: usize,
    /// What does not hold.
    pub reason: String,
}

impl BadLine {
    /// A line with the reason, of which no more is kept than a person reads: it may repeat what stands there.
    fn new(line: usize, mut reason: String) -> Self {
        if let Some((cut, _)) = reason.char_indices().nth(LONGEST_REASON) {
            reason.truncate(cut);
            reason.push('…');
        }
        Self { line, reason }
    }
}

/// All alignments of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alignments {
    /// By utterance id.
    pub by_id: BTreeMap<String, Alignment>,
    /// What was passed over.
    pub bad_lines: Vec<BadLine>,
}

impl Alignments {
    /// Takes an utterance; of two the first holds.
    fn insert(&mut self, id: String, alignment: Alignment) -> Result<(), String> {
        match self.by_id.entry(id) {
            Entry::Occupied(_) => Err("there is an earlier line for this utterance".to_owned()),
            Entry::Vacant(place) => {
                place.insert(alignment);
                Ok(())
            }
        }
    }
}

/// Why a file of alignments is of no use at all.
#[derive(Debug, thiserror::Error)]
pub enum AlignError {
    /// The file system refused.
    #[error("cannot read the alignments in {path}: check --alignments")]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Not one good line.
    #[error(
        "{path} has no alignment: a line should be {{\"u\": id, \"frames\": N, \"runs\": [[class, frames], ...]}}, or \
         `id class class ...` (Kaldi), or `id channel start duration phone` (CTM); a folder should hold <id>.TextGrid ({reason})"
    )]
    Nothing {
        /// The file.
        path: PathBuf,
        /// What is wrong with its first bad line, or that it is empty.
        reason: String,
    },
    /// Packed or binary.
    #[error("{path} is {what}")]
    Packed {
        /// The file.
        path: PathBuf,
        /// What it is, and how to make it text.
        what: &'static str,
    },
    /// Phones, and no word on which classes they become.
    #[error(
        "{0} names phones: say with --phone-frames how many frames a phone's state in its context needs for a class of its \
         own (counted here: for public data), or give the phones.json of another dataset with --phone-map"
    )]
    Phones(PathBuf),
    /// Classes, and a map for phones.
    #[error("{0} has class numbers, no phones: leave --phone-frames and --phone-map out")]
    NoPhones(PathBuf),
    /// Phones that cannot become classes.
    #[error("{path}: {reason}")]
    Tying {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// How labels are read, where a file does not say so itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Frames that one class number of a Kaldi archive stands for: 1 to 8, 3 for a model with subsampling.
    pub step: u32,
    /// How phones become classes; `None` where no phones are expected.
    pub phones: Option<Tying>,
}

impl Default for Reading {
    fn default() -> Self {
        Self { step: 1, phones: None }
    }
}

/// How phones become classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tying {
    /// A state in its context has a class of its own with at least so many frames here. Counts frames: for public data.
    Least(u64),
    /// By a map that was made before.
    Map(PhoneMap),
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// The classes.
    pub alignments: Alignments,
    /// By which map phones became classes.
    pub phones: Option<PhoneMap>,
}

/// Why a line of phones is passed over where class numbers are expected.
const PHONES: &str = "a phone, where class numbers are expected";
/// Why a line of class numbers is passed over where phones are expected.
const NUMBERS: &str = "class numbers, where phones are expected";

/// Reads a file, or a folder of TextGrids.
///
/// # Errors
/// [`AlignError`] if it cannot be read, has not one good line, or is not what `reading` expects.
pub fn read(path: &Path, reading: &Reading) -> Result<Labels, AlignError> {
    let io = |source| AlignError::Io { path: path.to_path_buf(), source };
    if path.is_dir() {
        let (phones, bad_lines) = textgrids(path).map_err(io)?;
        return tied(path, reading, &phones, bad_lines);
    }
    let mut file = BufReader::new(std::fs::File::open(path).map_err(io)?);
    let beginning = file.fill_buf().map_err(io)?;
    if let Some(what) = packed(beginning) {
        return Err(AlignError::Packed { path: path.to_path_buf(), what });
    }
    let among = |reason: &str, bad: &[BadLine]| bad.iter().any(|bad| bad.reason == reason);
    if reading.phones.is_some() {
        let (phones, bad_lines) = ctm::parse(file).map_err(io)?;
        if phones.is_empty() && among(NUMBERS, &bad_lines) {
            return Err(AlignError::NoPhones(path.to_path_buf()));
        }
        return tied(path, reading, &phones, bad_lines);
    }
    let alignments = class_numbers(file, reading.step).map_err(io)?;
    if alignments.by_id.is_empty() {
        let of_phones = among(PHONES, &alignments.bad_lines);
        let error = nothing(path, alignments.bad_lines);
        return Err(if of_phones { AlignError::Phones(path.to_path_buf()) } else { error });
    }
    Ok(Labels { alignments, phones: None })
}

/// Reads lines of class numbers, each by itself: run lengths where it begins with a brace, else a line of a Kaldi archive, in
/// which every number stands for `step` frames.
fn class_numbers(reader: impl std::io::BufRead, step: u32) -> std::io::Result<Alignments> {
    let mut alignments = Alignments::default();
    alignments.bad_lines = lines::each(reader, |line| {
        let (id, alignment) = if line.starts_with(b"{") {
            runs::one(line)?
        } else {
            let of_phones = || std::str::from_utf8(line).is_ok_and(ctm::is_one);
            kaldi::one(line, step).map_err(|reason| if of_phones() { PHONES.to_owned() } else { reason })?
        };
        alignments.insert(id, alignment)
    })?;
    Ok(alignments)
}

/// What a file is that people have, but that is no text.
fn packed(beginning: &[u8]) -> Option<&'static str> {
    if beginning.starts_with(&[0x1F, 0x8B]) {
        Some("compressed: unpack it with gunzip first")
    } else if beginning
        .iter()
        .take_while(|byte| **byte != b'\n')
        .collect::<Vec<_>>()
        .windows(2)
        .any(|two| two == [&0, &b'B'])
    {
        Some("a binary Kaldi archive: write it as text, `ali-to-pdf final.mdl ark:... ark,t:FILE`")
    } else {
        None
    }
}

/// Every `<id>.TextGrid` below a folder.
fn textgrids(folder: &Path) -> std::io::Result<(Phones, Vec<BadLine>)> {
    let mut files = Vec::new();
    walk(folder, 0, &mut files)?;
    files.sort();
    let (mut phones, mut bad) = (Phones::default(), Vec::new());
    for (path, number) in files.iter().zip(1..) {
        let id = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let read = || -> Result<_, String> {
            let size = path.metadata().map_err(|error| error.to_string())?.len();
            if size > lines::LONGEST_LINE as u64 {
                return Err(format!("longer than {} bytes", lines::LONGEST_LINE));
            }
            textgrid::parse(&std::fs::read(path).map_err(|error| error.to_string())?)
        };
        if let Err(reason) = read().and_then(|segments| phones.insert(id, segments)) {
            let file = path.strip_prefix(folder).unwrap_or(path).display();
            bad.push(BadLine::new(number, format!("{file}: {reason}")));
        }
    }
    Ok((phones, bad))
}

/// How deep a folder is searched.
const DEEPEST: usize = 8;

fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            if depth < DEEPEST {
                walk(&path, depth + 1, files)?;
            }
        } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("TextGrid")) {
            files.push(path);
        }
    }
    Ok(())
}

fn tied(path: &Path, reading: &Reading, phones: &Phones, bad_lines: Vec<BadLine>) -> Result<Labels, AlignError> {
    if phones.is_empty() {
        return Err(nothing(path, bad_lines));
    }
    let map = match &reading.phones {
        None => return Err(AlignError::Phones(path.to_path_buf())),
        Some(Tying::Map(map)) => map.clone(),
        Some(Tying::Least(least)) => {
            phones.tie(*least).map_err(|reason| AlignError::Tying { path: path.to_path_buf(), reason })?
        }
    };
    let alignments = Alignments { bad_lines, ..phones.alignments(&map) };
    Ok(Labels { alignments, phones: Some(map) })
}

fn nothing(path: &Path, bad_lines: Vec<BadLine>) -> AlignError {
    let first = bad_lines.into_iter().next();
    let reason = first.map_or_else(|| "it is empty".to_owned(), |bad| format!("line {}: {}", bad.line, bad.reason));
    AlignError::Nothing { path: path.to_path_buf(), reason }
}

#[cfg(test)]
mod tests;
