//! What the recognizers of a finished job received, for the owner of the site: counts of words, and a few of the sounds.
//!
//! The sounds ([`super::sounds`]) derive from recordings, so they stay in the site's folder for its owner alone, as the
//! transcripts do, and no page of the server has them.

use std::path::{Path, PathBuf};

use undertone_api::job::transcription::Report;

use super::TranscriptionError;
use super::finished::FinishedError;
use super::outcome::{HISTOGRAM_FILE, read_planned};
use super::sounds::{KeptSound, LIST, sound_path};
use crate::run::RunError;

/// The counts of one word at one recognizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WordCount {
    /// The word.
    pub(crate) word: String,
    /// The recognizer.
    pub(crate) provider: String,
    /// Occurrences in true pieces.
    pub(crate) said: u64,
    /// Occurrences in true pieces and dummies: the count that the recognizer could make.
    pub(crate) heard: u64,
}

/// What the recognizers of a job received.
#[derive(Debug)]
pub(crate) struct ReceivedReport {
    /// The plan with its promises.
    pub(crate) planned: Report,
    /// The counts, by recognizer and word.
    pub(crate) counts: Vec<WordCount>,
    /// The kept sounds.
    pub(crate) sounds: Vec<KeptSound>,
    results: PathBuf,
}

/// Reads what the recognizers of the job with these results received; `None` before the job is finished.
///
/// # Errors
/// [`FinishedError`] when a file cannot be read. Jobs of earlier versions have no sounds.
pub(crate) fn read_received(results: &Path) -> Result<Option<ReceivedReport>, FinishedError> {
    let Some(planned) = read_planned(results)? else { return Ok(None) };
    let read = |name: &str| {
        let path = results.join(name);
        std::fs::read_to_string(&path).map_err(|source| FinishedError::Read { path, source })
    };
    let counts = read(HISTOGRAM_FILE)?.lines().skip(1).filter_map(parse_count).collect();
    let path = results.join(LIST);
    let sounds = if path.exists() {
        let text = read(LIST)?;
        serde_json::from_str(&text)
            .map_err(|source| RunError::from(TranscriptionError::ForeignReport { path, source }))?
    } else {
        Vec::new()
    };
    Ok(Some(ReceivedReport { planned, counts, sounds, results: results.to_owned() }))
}

impl ReceivedReport {
    /// Reads the WAV file of a kept sound; `None` if there is no such number.
    ///
    /// # Errors
    /// [`FinishedError::Read`] when the file cannot be read.
    pub(crate) fn read_sound(&self, number: u32) -> Result<Option<Vec<u8>>, FinishedError> {
        if !self.sounds.iter().any(|sound| sound.number == number) {
            return Ok(None);
        }
        let path = sound_path(&self.results, number);
        std::fs::read(&path).map(Some).map_err(|source| FinishedError::Read { path, source })
    }
}

/// Reads a line of the histogram: word, recognizer, said and heard.
fn parse_count(line: &str) -> Option<WordCount> {
    let mut cells = line.split('\t');
    let (word, provider) = (cells.next()?.to_owned(), cells.next()?.to_owned());
    let said = cells.next()?.parse().ok()?;
    Some(WordCount { word, provider, said, heard: cells.next()?.parse().ok()? })
}
