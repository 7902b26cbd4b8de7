//! A transcript as JSON: all that is known of each word.

use serde::Serialize;

use super::{Source, Spoken, Why};

/// What the file looks like; a reader should refuse another version.
#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    words: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
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
    why: Option<Why>,
    sensitive: bool,
}

/// The document, with a line break at its end.
pub(super) fn write(words: &[Spoken]) -> String {
    let milliseconds = |seconds: f64| (seconds * 1_000.0).round() / 1_000.0;
    let words = words.iter().map(|word| {
        let (source, provider, why) = match word.source {
            Source::Provider(provider) => ("provider", Some(provider), None),
            Source::Offline(why) => ("offline", None, Some(why)),
        };
        Entry {
            word: &word.text,
            start: milliseconds(word.start),
            end: milliseconds(word.end),
            confidence: word.confidence,
            source,
            provider,
            why,
            sensitive: why == Some(Why::Sensitive),
        }
    });
    // Strings and finite numbers have a JSON form.
    let text = serde_json::to_string_pretty(&Document { version: 1, words: words.collect() }).unwrap_or_default();
    text + "\n"
}
