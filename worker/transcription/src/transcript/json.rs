//! A transcript as JSON, with all information about each word.

use serde::Serialize;

use super::{OfflineReason, TranscriptWord, WordSource};

/// The file format; a reader should refuse other versions.
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
    let text = serde_json::to_string_pretty(&JsonDocument { version: 1, words: words.collect() }).unwrap_or_default();
    text + "\n"
}
