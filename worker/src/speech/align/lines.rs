//! Reads a file line by line without ever keeping more of a line than is allowed.

use std::io::BufRead;

use super::BadLine;

/// The longest line that is read, bytes: far above an hour of speech.
pub(super) const LONGEST_LINE: usize = 16 << 20;

/// Hands every line that is not blank to `take`; a line that `take` refuses, or that is longer than [`LONGEST_LINE`], is
/// noted with its number and the reason, and passed over.
///
/// # Errors
/// Only what the reader itself says.
pub(in crate::speech) fn each(
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

/// Reads up to the next line feed into `line`, keeping one byte more than [`LONGEST_LINE`] at most. False at the end.
pub(super) fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
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
