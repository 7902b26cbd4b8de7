//! Reads labels: one class for every 10 ms of an utterance, as run-length JSONL.
//!
//! A line is `{"u": id, "frames": N, "runs": [[class, frames], ...]}`, the runs adding up to N. Aligners differ from our
//! features by a frame or three at the end of a recording, so labels are cut or features left over, within a stated limit;
//! beyond it the two are not of the same recording and [`Alignment::labels`] refuses. A line that does not hold is counted,
//! with its number and the reason, and passed over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::BufRead;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// How many frames labels and features may differ by, unless told otherwise.
pub const TOLERANCE: usize = 10;
/// The longest line that is read, bytes: far above an hour of speech.
const LONGEST_LINE: usize = 16 << 20;
/// The most frames an utterance may state: a day of speech.
const MOST_FRAMES: u64 = 8_640_000;

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
    /// Its number, from 1.
    pub line: usize,
    /// What does not hold.
    pub reason: String,
}

/// All alignments of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Alignments {
    /// By utterance id.
    pub by_id: BTreeMap<String, Alignment>,
    /// What was passed over.
    pub bad_lines: Vec<BadLine>,
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
        "{path} has no alignment: a line should be {{\"u\": id, \"frames\": N, \"runs\": [[class, frames], ...]}} ({reason})"
    )]
    Nothing {
        /// The file.
        path: PathBuf,
        /// What is wrong with its first bad line, or that it is empty.
        reason: String,
    },
}

/// Reads a file of alignments.
///
/// # Errors
/// [`AlignError`] if it cannot be read or has not one good line.
pub fn read(path: &Path) -> Result<Alignments, AlignError> {
    let io = |source| AlignError::Io { path: path.to_path_buf(), source };
    let file = std::fs::File::open(path).map_err(io)?;
    let alignments = parse(std::io::BufReader::new(file)).map_err(io)?;
    if alignments.by_id.is_empty() {
        let first = alignments.bad_lines.into_iter().next();
        let reason = first.map_or_else(|| "it is empty".to_owned(), |bad| format!("line {}: {}", bad.line, bad.reason));
        return Err(AlignError::Nothing { path: path.to_path_buf(), reason });
    }
    Ok(alignments)
}

/// Reads alignments line by line. Blank lines are nothing; of two lines for one utterance the first holds.
///
/// # Errors
/// Only what the reader itself says; a bad line is no error.
pub fn parse(mut reader: impl BufRead) -> std::io::Result<Alignments> {
    let mut alignments = Alignments::default();
    let (mut line, mut number) = (Vec::new(), 0);
    while next_line(&mut reader, &mut line)? {
        number += 1;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let outcome = parse_line(&line).and_then(|(id, alignment)| match alignments.by_id.entry(id) {
            Entry::Occupied(_) => Err("there is an earlier line for this utterance".to_owned()),
            Entry::Vacant(place) => {
                place.insert(alignment);
                Ok(())
            }
        });
        if let Err(reason) = outcome {
            alignments.bad_lines.push(BadLine { line: number, reason });
        }
    }
    Ok(alignments)
}

/// Reads up to the next line feed into `line`, keeping one byte more than [`LONGEST_LINE`] at most. False at the end.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        line.extend(&part[..part.len().min(LONGEST_LINE + 1 - line.len())]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        reader.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn parse_line(line: &[u8]) -> Result<(String, Alignment), String> {
    #[derive(Deserialize)]
    struct Line {
        u: String,
        frames: u64,
        runs: Vec<(u64, u64)>,
    }
    if line.len() > LONGEST_LINE {
        return Err(format!("longer than {LONGEST_LINE} bytes"));
    }
    let Line { u, frames, runs } = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if u.is_empty() {
        return Err("the utterance id is empty".to_owned());
    }
    if frames == 0 || frames > MOST_FRAMES {
        return Err(format!("{frames} frames: between 1 and {MOST_FRAMES}"));
    }
    let run = |(class, frames): (u64, u64)| match (u16::try_from(class), u32::try_from(frames)) {
        (Err(_), _) => Err(format!("class {class}: at most {}", u16::MAX)),
        (_, Err(_) | Ok(0)) => Err(format!("a run of {frames} frames")),
        (Ok(class), Ok(frames)) => Ok((class, frames)),
    };
    let runs = runs.into_iter().map(run).collect::<Result<Vec<_>, _>>()?;
    let sum: u64 = runs.iter().map(|(_, frames)| u64::from(*frames)).sum();
    if sum != frames {
        return Err(format!("the runs add up to {sum} frames, not to {frames}"));
    }
    Ok((u, Alignment { runs, frames: frames as usize }))
}

#[cfg(test)]
mod tests;
