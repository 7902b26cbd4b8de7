//! Cloud recognizers: their protocols, and the permitted content of a request.
//!
//! A provider has three separate parts. A [`SpeechProvider`] is its protocol: it builds a request from a sound and parses the
//! words of an answer, without side effects. A [`line::ProviderLine`] is the connection, with its limits: concurrency, request
//! rate, retries, time and length. [`settings`] is the provider's section of the site's configuration, [`key`] the site's
//! credential, and [`cost`] the price of a sound.
//!
//! **A request holds the sound and nothing else**: a canonical header ([`super::wav`]), one file name for all, no title, no
//! date, no cookie, no user agent. This module cannot distinguish dummies from true pieces. Sounds are sent in the given
//! order, which was drawn at random before. Only an [`OutgoingSound`](super::outbound::OutgoingSound) is sent, and only a
//! charged sound becomes one. No answer, word or key appears in an error or a log.
//!
//! To add a provider: add a file that implements [`SpeechProvider`], its variant of [`settings::ProviderProtocol`], its row here, and
//! its protocol in the test server (`tests/support/clouds.rs`).
//!
//! | protocol | request | key |
//! |---|---|---|
//! | [`openai`] | `POST v1/audio/transcriptions`, multipart: `file`, `model`, `language`, `response_format=verbose_json`, word times | `Authorization: Bearer` |
//! | [`google`] | `POST v1/speech:recognize`, JSON: LINEAR16 as base64, word times | `X-Goog-Api-Key`, because proxies log addresses |
//! | [`deepgram`] | `POST v1/listen?model=..&language=..`, the file as the body | `Authorization: Token` |

pub mod cost;
pub mod deepgram;
pub mod google;
pub mod key;
pub mod line;
#[cfg(test)]
#[path = "../../../tests/support/clouds.rs"]
pub mod loopback;
pub mod openai;
mod pace;
pub mod settings;

use super::piece::{Recognition, TimedWord};

/// The protocol of one kind of provider.
pub trait SpeechProvider: Send + Sync {
    /// Builds the request for a sound, a file that [`super::wav::write`] made. The request depends on the sound and the settings
    /// only.
    ///
    /// # Errors
    /// The HTTP library's errors for an invalid request; none is expected.
    fn request(&self, http: &reqwest::Client, wav: &[u8]) -> reqwest::Result<reqwest::RequestBuilder>;

    /// Parses the words of an answer about a sound of `seconds`, with times within it.
    ///
    /// # Errors
    /// [`UnreadableAnswer`] when the answer has another form.
    fn parse_answer(&self, answer: &[u8], seconds: f64) -> Result<Recognition, UnreadableAnswer>;
}

/// An answer that does not follow the protocol. The error does not repeat it: it may hold words, or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer does not have the form of {0}: check protocol and url of the provider")]
pub struct UnreadableAnswer(&'static str);

/// Name of the file in every request that has one.
const FILE_NAME: &str = "audio.wav";

/// A word of an answer: text, start and end (seconds, if present), confidence.
type RawWord = (String, Option<(f64, f64)>, Option<f64>);

/// Converts the words of an answer about a sound of `seconds`: removes white space and empty words, and places the words in
/// order, within the sound. If any word has no times, all words get equal shares of the sound.
fn place_words(raw_words: Vec<RawWord>, seconds: f64) -> Recognition {
    // A difference that is not finite has no shares either.
    let numbers = |(start, end): (f64, f64)| start.is_finite() && (end - start).is_finite();
    let timed = raw_words.iter().all(|(_, times, _)| times.is_some_and(numbers));
    let split = raw_words.into_iter().flat_map(|(text, times, confidence)| {
        let parts: Vec<String> = text.split_whitespace().map(remove_controls).filter(|part| !part.is_empty()).collect();
        let count = parts.len() as f64;
        let (start, end) = times.filter(|_| timed).unwrap_or_default();
        let share = move |n: usize| start + (end - start) * n as f64 / count;
        parts.into_iter().enumerate().map(move |(n, text)| (text, share(n), share(n + 1), confidence))
    });
    let mut words: Vec<TimedWord> = split
        .map(|(text, start, end, confidence)| {
            let start = start.clamp(0.0, seconds);
            let confidence = confidence.filter(|sure| (0.0..=1.0).contains(sure));
            TimedWord { text, start, end: end.clamp(start, seconds), confidence }
        })
        .collect();
    if timed {
        words.sort_by(|one, other| one.start.total_cmp(&other.start));
    } else {
        let share = seconds / words.len() as f64;
        for (n, word) in words.iter_mut().enumerate() {
            (word.start, word.end) = (n as f64 * share, (n + 1) as f64 * share);
        }
    }
    Recognition { words }
}

/// Removes control characters and text-direction marks from a word: transcripts are read in terminals and pages, which would
/// execute them.
fn remove_controls(word: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    word.chars().filter(|c| !c.is_control() && !turns(*c)).collect()
}

/// Returns a text without times as one raw word.
fn untimed(text: String) -> Vec<RawWord> {
    vec![(text, None, None)]
}

#[cfg(test)]
mod tests {
    use super::{TimedWord, place_words, untimed};

    #[test]
    fn words_are_placed_within_sound_and_split() {
        let raw_words = vec![
            (" world".to_owned(), Some((0.6, 9.0)), Some(1.5)),
            ("  ".to_owned(), Some((0.0, 0.1)), None),
            ("New York".to_owned(), Some((-1.0, 0.5)), Some(0.5)),
        ];
        let words = place_words(raw_words, 1.0).words;
        let placed: Vec<_> =
            words.iter().map(|word| (word.text.as_str(), word.start, word.end, word.confidence)).collect();
        assert_eq!(placed, [("New", 0.0, 0.0, Some(0.5)), ("York", 0.0, 0.5, Some(0.5)), ("world", 0.6, 1.0, None)]);
    }

    #[test]
    fn control_characters_are_removed_from_words() {
        let raw_words = untimed("go\u{1b}[2J \u{7} \u{202e}forward\u{2069} b\u{e9}b\u{e9}\0".to_owned());
        assert_eq!(place_words(raw_words, 1.0).text(), "go[2J forward b\u{e9}b\u{e9}");
    }

    #[test]
    fn words_without_times_share_the_sound() {
        let words = place_words(untimed("go forward ten meters".to_owned()), 2.0).words;
        let times: Vec<_> = words.iter().map(|word| (word.start, word.end)).collect();
        assert_eq!(times, [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5), (1.5, 2.0)]);
        assert!(place_words(untimed(String::new()), 2.0).words.is_empty());
        let one_has_none =
            vec![("a".to_owned(), Some((1.0, 1.1)), None), ("b".to_owned(), Some((f64::NAN, 1.0)), None)];
        assert!(place_words(one_has_none, 1.0).words.iter().all(|word| word.start.is_finite()));
    }

    #[test]
    fn impossible_times_are_clamped() {
        for times in [(-1e308, 1e308), (1e308, -1e308), (9.0, -9.0), (1e308, 1e308)] {
            let words = place_words(vec![("far away".to_owned(), Some(times), None)], 1.0).words;
            let within = |word: &TimedWord| (0.0..=word.end).contains(&word.start) && word.end <= 1.0;
            assert!(words.len() == 2 && words.iter().all(within), "{times:?}: {words:?}");
        }
    }
}
