//! Text input of the decoder: lines with numbers, within a limit of bytes, and errors that name the line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::align::lines;

/// The reason why a file of the decoder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file cannot be read.
    #[error("cannot read the {kind} {path}: check the path and its permissions")]
    Io {
        /// The kind of file.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The file is larger than allowed.
    #[error("the {kind} {path} has more than {limit} bytes: {remedy}")]
    TooLarge {
        /// The kind of file.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// The limit.
        limit: u64,
        /// The remedy.
        remedy: &'static str,
    },
    /// A line is invalid.
    #[error("{path}, line {line}: {reason}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The defect and the remedy.
        reason: String,
    },
    /// The file as a whole is invalid.
    #[error("{path} is no {kind}: {reason}")]
    Content {
        /// The kind of file.
        kind: &'static str,
        /// The file.
        path: PathBuf,
        /// The defect and the remedy.
        reason: String,
    },
}

/// A kind of text file, with its limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileKind {
    pub(super) name: &'static str,
    pub(super) most_bytes: u64,
    pub(super) remedy: &'static str,
}

/// The lines of a text file.
#[derive(Debug)]
pub(super) struct NumberedLines<R> {
    kind: FileKind,
    path: PathBuf,
    reader: R,
    bytes: u64,
    number: usize,
    line: Vec<u8>,
}

impl NumberedLines<BufReader<File>> {
    pub(super) fn open(path: &Path, kind: FileKind) -> Result<Self, InputError> {
        let failed = |source| InputError::Io { kind: kind.name, path: path.to_path_buf(), source };
        Ok(Self::new(BufReader::new(File::open(path).map_err(failed)?), path, kind))
    }
}

impl<R: BufRead> NumberedLines<R> {
    pub(super) fn new(reader: R, path: &Path, kind: FileKind) -> Self {
        Self { kind, path: path.to_path_buf(), reader, bytes: 0, number: 0, line: Vec::new() }
    }

    /// Returns the next line without white space around it; `None` at the end.
    ///
    /// # Errors
    /// [`InputError`] above the limit of bytes, and for a line that is no UTF-8.
    pub(super) fn next_line(&mut self) -> Result<Option<&str>, InputError> {
        let failed = |source| InputError::Io { kind: self.kind.name, path: self.path.clone(), source };
        if !lines::next(&mut self.reader, &mut self.line).map_err(failed)? {
            return Ok(None);
        }
        self.number += 1;
        self.bytes += self.line.len() as u64 + 1;
        let FileKind { name: kind, most_bytes: limit, remedy } = self.kind;
        if self.bytes > limit.saturating_add(1) {
            return Err(InputError::TooLarge { kind, path: self.path.clone(), limit, remedy });
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line.trim())),
            Err(_) => Err(self.error("not UTF-8: convert the file")),
        }
    }

    /// Returns an error about the present line.
    pub(super) fn error(&self, reason: impl Into<String>) -> InputError {
        InputError::Line { path: self.path.clone(), line: self.number, reason: reason.into() }
    }

    /// Returns an error about the whole file.
    pub(super) fn content_error(&self, reason: impl Into<String>) -> InputError {
        InputError::Content { kind: self.kind.name, path: self.path.clone(), reason: reason.into() }
    }

    /// Returns the number of the present line.
    pub(super) fn number(&self) -> usize {
        self.number
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::{FileKind, NumberedLines};

    #[test]
    fn file_above_its_limit_is_refused_with_a_remedy() {
        let kind = FileKind { name: "lexicon", most_bytes: 8, remedy: "keep fewer words" };
        let read = |text: &str| {
            let mut lines = NumberedLines::new(text.as_bytes(), Path::new("a.dict"), kind);
            while lines.next_line()?.is_some() {}
            Ok(lines.number())
        };
        let result = |text: &str| read(text).map_err(|error: super::InputError| error.to_string());
        assert_eq!(result("abc\nabcd").unwrap(), 2);
        assert_eq!(result("abc\nabcd5\n").unwrap_err(), "the lexicon a.dict has more than 8 bytes: keep fewer words");
    }
}
