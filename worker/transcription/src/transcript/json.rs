//! A transcript as JSON, with all information about each word.

use serde::{Deserialize, Serialize};

use super::{OfflineReason, TranscriptWord, WordSource};

/// The version of the file format; other versions are refused.
const VERSION: u32 = 1;

/// Reasons that a file is no transcript. The messages may have parts of the file: for the site's terminal only.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    /// The text is not in the format.
    #[error("it is no transcript in JSON as a job writes it")]
    Format(#[from] serde_json::Error),
    /// The version is unknown.
    #[error("it has version {0}, and this worker reads {VERSION}")]
    Version(u32),
    /// A word has no valid source or times.
    #[error("word {0} has no valid source, or ends before it begins")]
    Word(usize),
}

#[derive(Deserialize)]
struct StoredDocument {
    version: u32,
    words: Vec<StoredWord>,
}

#[derive(Deserialize)]
struct StoredWord {
    word: String,
    start: f64,
    end: f64,
    confidence: Option<f64>,
    source: StoredSource,
    provider: Option<u32>,
    why: Option<OfflineReason>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredSource {
    Provider,
    Offline,
}

/// Reads the words of a document that [`write`] wrote, in order of time.
///
/// # Errors
/// [`TranscriptError`] for any other text.
pub fn read(text: &str) -> Result<Vec<TranscriptWord>, TranscriptError> {
    let document: StoredDocument = serde_json::from_str(text)?;
    if document.version != VERSION {
        return Err(TranscriptError::Version(document.version));
    }
    let word = |(number, stored): (usize, StoredWord)| {
        let source = match (stored.source, stored.provider, stored.why) {
            (StoredSource::Provider, Some(provider), None) => WordSource::Provider(provider),
            (StoredSource::Offline, None, Some(why)) => WordSource::Offline(why),
            _ => return Err(TranscriptError::Word(number)),
        };
        let StoredWord { word: text, start, end, confidence, .. } = stored;
        let is_ordered = 0.0 <= start && start <= end && end.is_finite();
        is_ordered
            .then_some(TranscriptWord { text, start, end, confidence, source })
            .ok_or(TranscriptError::Word(number))
    };
    document.words.into_iter().enumerate().map(word).collect()
}

/// The document.
#[derive(Serialize)]
struct JsonDocument<'a> {
    version: u32,
    words: Vec<JsonWord<'a>>,
}

#[derive(Serialize)]
struct JsonWord<'a> {
    word: &'a str,
    /// Seconds, to the millisecond.
    start: f64,
    end: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<f64>,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<OfflineReason>,
    sensitive: bool,
}

/// Returns the document, with a line break at its end.
pub(super) fn write(words: &[TranscriptWord]) -> String {
    let milliseconds = |seconds: f64| (seconds * 1_000.0).round() / 1_000.0;
    let words = words.iter().map(|word| {
        let (source, provider, why) = match word.source {
            WordSource::Provider(provider) => ("provider", Some(provider), None),
            WordSource::Offline(why) => ("offline", None, Some(why)),
        };
        JsonWord {
            word: &word.text,
            start: milliseconds(word.start),
            end: milliseconds(word.end),
            confidence: word.confidence,
            source,
            provider,
            why,
            sensitive: why == Some(OfflineReason::Sensitive),
        }
    });
    // Strings and finite numbers always serialize.
    let text =
        serde_json::to_string_pretty(&JsonDocument { version: VERSION, words: words.collect() }).unwrap_or_default();
    text + "\n"
}
