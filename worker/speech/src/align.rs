//! Labels: one class for every 10 ms of an utterance, read from existing alignments or made by forced [`aligner`]s.
//!
//! The module reads four formats; `phones` converts phones to tied classes. The options and the line itself determine
//! the format of a line, so that no utterance's labels affect how those of other utterances are read. To add a format,
//! add a file next to these and its branch in `read`.
//!
//! | form | one utterance | classes | read by |
//! |---|---|---|---|
//! | run lengths, JSON Lines | a line `{"u": id, "frames": N, "runs": [[class, frames], ...]}` | as written, 0 to 65,535 | `runs` |
//! | Kaldi, `ali-to-pdf ... ark,t:` | a line `id class class ...` | as written; `--label-step 3` for a subsampled model | `kaldi` |
//! | CTM, `ali-to-phones --ctm-output` and others | lines `id channel start duration phone [confidence]`, seconds | phones → states → tied classes | `ctm` |
//! | TextGrid, Montreal Forced Aligner | a file `<id>.TextGrid` with an interval tier `phones` | phones → states → tied classes | `textgrid` |
//! | none: transcripts | `--align pocketsphinx`: a line `id TEXT` in a `*.trans.txt` beside the recordings | the model's tied states | [`pocketsphinx`] |
//!
//! Aligners differ from the features of this crate by up to three frames at the end of a recording. Extra labels are
//! dropped, or extra features remain unlabelled, within a stated limit. Beyond the limit the two belong to different
//! recordings, and [`Alignment::labels`] returns an error. An invalid line is counted, with its number and the reason,
//! and skipped.

pub mod aligner;
pub(crate) mod alignment;
mod ctm;
pub mod journal;
mod kaldi;
pub(crate) mod lines;
pub(crate) mod phones;
pub mod pocketsphinx;
pub mod process;
pub(crate) mod runs;
mod textgrid;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

use self::phones::PhoneTable;

pub use self::alignment::{Alignment, AlignmentSet, LengthMismatch};
pub use self::lines::BadLine;
pub use self::phones::PhoneMap;
pub use self::runs::parse;

/// Default limit of the difference between labels and features, in frames.
pub const TOLERANCE: usize = 10;

/// Reasons why a file of alignments cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AlignError {
    /// The file cannot be read.
    #[error("cannot read the alignments in {path}: check --alignments")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file contains no valid line.
    #[error(
        "{path} has no alignment: a line should be {{\"u\": id, \"frames\": N, \"runs\": [[class, frames], ...]}}, or \
         `id class class ...` (Kaldi), or `id channel start duration phone` (CTM); a folder should hold <id>.TextGrid ({reason})"
    )]
    Nothing {
        /// The file.
        path: PathBuf,
        /// The problem of its first invalid line, or that it is empty.
        reason: String,
    },
    /// The file is compressed or binary.
    #[error("{path} is {what}")]
    Packed {
        /// The file.
        path: PathBuf,
        /// The format, and how to convert it to text.
        what: &'static str,
    },
    /// The file contains phones, but no option maps them to classes.
    #[error(
        "{0} names phones: say with --phone-frames how many frames a phone's state in its context needs for a class of its \
         own (counted here: for public data), or give the phones.json of another dataset with --phone-map"
    )]
    Phones(PathBuf),
    /// The file contains classes, but an option maps phones to classes.
    #[error("{0} has class numbers, no phones: leave --phone-frames and --phone-map out")]
    NoPhones(PathBuf),
    /// The phones cannot be mapped to classes.
    #[error("{path}: {reason}")]
    Tying {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
}

/// Options for reading labels, where a file does not specify them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelOptions {
    /// Number of frames per class number of a Kaldi archive: 1 to 8, 3 for a model with subsampling.
    pub step: u32,
    /// The mapping from phones to classes; `None` if the file contains classes.
    pub phones: Option<PhoneTying>,
}

impl Default for LabelOptions {
    fn default() -> Self {
        Self { step: 1, phones: None }
    }
}

/// The mapping from phones to classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PhoneTying {
    /// A state in its context has its own class if it has at least this number of frames here. This counts frames: use
    /// it for public data.
    Least(u64),
    /// A map from an earlier preparation.
    Map(PhoneMap),
}

/// The labels of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFile {
    /// The classes by utterance.
    pub alignments: AlignmentSet,
    /// The map from phones to classes, if the file contains phones.
    pub phones: Option<PhoneMap>,
}

/// The reason to skip a line of phones where class numbers are expected.
const PHONES: &str = "a phone, where class numbers are expected";

/// Reads a file, or a folder of TextGrids.
///
/// # Errors
/// [`AlignError`] if the file cannot be read, has no valid line, or does not match `reading`.
pub fn read(path: &Path, reading: &LabelOptions) -> Result<LabelFile, AlignError> {
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
        if phones.is_empty() && among(ctm::NUMBERS, &bad_lines) {
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
    Ok(LabelFile { alignments, phones: None })
}

/// Reads lines of class numbers independently: run lengths if the line begins with a brace, otherwise a line of a Kaldi
/// archive, in which every number represents `step` frames.
fn class_numbers(reader: impl std::io::BufRead, step: u32) -> std::io::Result<AlignmentSet> {
    let mut alignments = AlignmentSet::default();
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

/// Returns the format and the remedy for a file that is not text.
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

/// Reads every `<id>.TextGrid` below a folder.
fn textgrids(folder: &Path) -> std::io::Result<(PhoneTable, Vec<BadLine>)> {
    let mut files = Vec::new();
    walk(folder, 0, &mut files)?;
    files.sort();
    let (mut phones, mut bad) = (PhoneTable::default(), Vec::new());
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

/// Maximum depth of the search in folders.
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

fn tied(
    path: &Path,
    reading: &LabelOptions,
    phones: &PhoneTable,
    bad_lines: Vec<BadLine>,
) -> Result<LabelFile, AlignError> {
    if phones.is_empty() {
        return Err(nothing(path, bad_lines));
    }
    let map = match &reading.phones {
        None => return Err(AlignError::Phones(path.to_path_buf())),
        Some(PhoneTying::Map(map)) => map.clone(),
        Some(PhoneTying::Least(least)) => {
            phones.tie(*least).map_err(|reason| AlignError::Tying { path: path.to_path_buf(), reason })?
        }
    };
    let alignments = AlignmentSet { bad_lines, ..phones.alignments(&map) };
    Ok(LabelFile { alignments, phones: Some(map) })
}

fn nothing(path: &Path, bad_lines: Vec<BadLine>) -> AlignError {
    let first = bad_lines.into_iter().next();
    let reason = first.map_or_else(|| "it is empty".to_owned(), |bad| format!("line {}: {}", bad.line, bad.reason));
    AlignError::Nothing { path: path.to_path_buf(), reason }
}

#[cfg(test)]
mod tests;
