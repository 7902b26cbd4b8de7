//! A query log of transcripts: a row for each utterance between two silences.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use serde::Serialize;

use super::{FinishedError, FinishedTranscripts};
use crate::queries::log::ColumnMap;
use crate::site::folder::FolderError;

/// The column of texts.
const TEXT: &str = "text";
/// The column of speakers.
const SPEAKER: &str = "speaker";

/// The result of dividing transcripts into rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LogSummary {
    /// Rows in the log.
    pub(crate) rows: u64,
    /// Rows that are left out because they contain words of a piece with sensitive content.
    pub(crate) sensitive: u64,
}

#[derive(Serialize)]
struct LogRow<'a> {
    text: &'a str,
    speaker: &'a str,
}

/// Returns the columns of the log.
pub(crate) fn columns() -> ColumnMap {
    ColumnMap { user: Some(SPEAKER.to_owned()), ..ColumnMap::text(TEXT) }
}

impl FinishedTranscripts {
    /// Writes a row for each utterance, as JSON Lines: the words between two silences of `pause` seconds or more, with the
    /// recording's speaker.
    ///
    /// # Errors
    /// [`FinishedError`] when a transcript cannot be read, or the disk refuses.
    pub(crate) fn write_log(&self, path: &Path, pause: f64) -> Result<LogSummary, FinishedError> {
        let io = |source| FolderError::io("write", path)(source);
        let mut file = BufWriter::new(File::create(path).map_err(io)?);
        let mut summary = LogSummary::default();
        for recording in self.recordings() {
            let words = self.words(recording)?;
            for utterance in words.chunk_by(|one, next| next.start - one.end < pause) {
                if utterance.iter().any(super::TranscriptWord::is_sensitive) {
                    summary.sensitive += 1;
                    continue;
                }
                let texts: Vec<&str> = utterance.iter().flat_map(|word| word.text.split_whitespace()).collect();
                let row = LogRow { text: &texts.join(" "), speaker: self.speaker(recording) };
                // Strings always serialize.
                let mut line = serde_json::to_vec(&row).unwrap_or_default();
                line.push(b'\n');
                file.write_all(&line).map_err(io)?;
                summary.rows += 1;
            }
        }
        file.flush().map_err(io)?;
        Ok(summary)
    }
}
