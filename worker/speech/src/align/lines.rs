//! Reads a file line by line with a bound on the memory for a line.

use std::io::BufRead;

use serde::{Deserialize, Serialize};

/// Maximum length of a line in bytes, far above an hour of speech.
pub(super) const LONGEST_LINE: usize = 16 << 20;
/// Maximum length of a stored reason, in characters.
pub(super) const LONGEST_REASON: usize = 200;

/// A line that was skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    /// Line number, from 1. For a folder, the number of the file in sorted order. 0 if the problem is not in a single
    /// line.
    pub line: usize,
    /// The problem.
    pub reason: String,
}

impl BadLine {
    /// Returns a line with its reason, truncated to a readable length because the reason may repeat the line's content.
    pub(super) fn new(line: usize, mut reason: String) -> Self {
        if let Some((cut, _)) = reason.char_indices().nth(LONGEST_REASON) {
            reason.truncate(cut);
            reason.push('…');
        }
        Self { line, reason }
    }
}

/// Passes every line that is not blank to `take`. A line that `take` rejects, or that is longer than [`LONGEST_LINE`],
/// is recorded with its number and the reason, and skipped.
///
/// # Errors
/// The reader's errors.
pub(crate) fn each(
    mut reader: impl BufRead,
    mut take: impl FnMut(&[u8]) -> Result<(), String>,
) -> std::io::Result<Vec<BadLine>> {
    let (mut line, mut number, mut bad_lines) = (Vec::new(), 0, Vec::new());
    while next(&mut reader, &mut line)? {
        number += 1;
        let content = line.trim_ascii();
        if content.is_empty() {
            continue;
        }
        let outcome =
            if line.len() > LONGEST_LINE { Err(format!("longer than {LONGEST_LINE} bytes")) } else { take(content) };
        if let Err(reason) = outcome {
            bad_lines.push(BadLine::new(number, reason));
        }
    }
    Ok(bad_lines)
}

/// Reads up to the next line feed into `line`, storing at most one byte more than [`LONGEST_LINE`]. Returns false at
/// the end.
pub(crate) fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
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
