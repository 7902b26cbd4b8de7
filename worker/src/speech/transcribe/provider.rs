//! Recognizers in the cloud: how each is asked, and what a request may hold.
//!
//! A provider is three things apart. A [`Provider`] is its protocol: it makes a request of a sound and words of an answer, and
//! does nothing. A [`line::Line`] is the way to it, with its bounds: places, pace, patience, length. [`settings`] is what the site's
//! configuration says of it, [`key`] how it knows the site, [`cost`] what it asks for a sound.
//!
//! **A request holds the sound and nothing else**: a canonical header ([`super::wav`]), one file name for all, no title, no date, no
//! cookie, no user agent. Nothing here knows which sounds are dummies; they go in the order in which they are given, which was
//! drawn at random before, and nothing is sent that is not an [`Outgoing`](super::outbound::Outgoing), which only what was
//! charged can be. No answer, no word and no key is in an error or a log.
//!
//! To add one: a file that implements [`Provider`], its variant of [`settings::Protocol`], its row here and its protocol in the test
//! server (`tests/support/clouds.rs`).
//!
//! | protocol | request | key |
//! |---|---|---|
//! | [`openai`] | `POST v1/audio/transcriptions`, multipart: `file`, `model`, `language`, `response_format=verbose_json`, word times | `Authorization: Bearer` |
//! | [`google`] | `POST v1/speech:recognize`, JSON: LINEAR16 as base64, word times | `X-Goog-Api-Key`, as addresses are logged on the way |
//! | [`deepgram`] | `POST v1/listen?model=..&language=..`, the file as the body | `Authorization: Token` |

pub mod cost;
pub mod deepgram;
pub mod google;
pub mod key;
pub mod line;
#[cfg(test)]
#[path = "../../../../tests/support/clouds.rs"]
pub mod loopback;
pub mod openai;
mod pace;
pub mod settings;

use super::piece::{Heard, Word};

/// How one kind of recognizer is asked.
pub trait Provider: Send + Sync {
    /// The request for a sound, a file that [`super::wav::write`] made: a function of the sound and the settings alone.
    ///
    /// # Errors
    /// What the library says of a request that cannot be; none of its errors is expected.
    fn request(&self, http: &reqwest::Client, wav: &[u8]) -> reqwest::Result<reqwest::RequestBuilder>;

    /// The words of an answer about a sound of so many seconds, with times within it.
    ///
    /// # Errors
    /// [`Illegible`] when the answer has another form.
    fn heard(&self, answer: &[u8], seconds: f64) -> Result<Heard, Illegible>;
}

/// An answer that is not what the protocol says. What it is instead is kept to itself: it may hold words, or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer does not have the form of {0}: check protocol and url of the provider")]
pub struct Illegible(&'static str);

/// The name of the file in every request that has one.
const FILE_NAME: &str = "audio.wav";

/// A word as an answer has it: text, beginning, end (seconds, if it tells), how sure.
type Told = (String, Option<(f64, f64)>, Option<f64>);

/// What an answer told of a sound of `seconds`: without white space in words, without empty ones, in order, within the sound. If any
/// word has no times, all get even shares of the sound.
fn heard(told: Vec<Told>, seconds: f64) -> Heard {
    // A difference that is no number has no shares either.
    let numbers = |(start, end): (f64, f64)| start.is_finite() && (end - start).is_finite();
    let timed = told.iter().all(|(_, times, _)| times.is_some_and(numbers));
    let split = told.into_iter().flat_map(|(text, times, confidence)| {
        let parts: Vec<String> = text.split_whitespace().map(shown).filter(|part| !part.is_empty()).collect();
        let count = parts.len() as f64;
        let (start, end) = times.filter(|_| timed).unwrap_or_default();
        let share = move |n: usize| start + (end - start) * n as f64 / count;
        parts.into_iter().enumerate().map(move |(n, text)| (text, share(n), share(n + 1), confidence))
    });
    let mut words: Vec<Word> = split
        .map(|(text, start, end, confidence)| {
            let start = start.clamp(0.0, seconds);
            let confidence = confidence.filter(|sure| (0.0..=1.0).contains(sure));
            Word { text, start, end: end.clamp(start, seconds), confidence }
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
    Heard { words }
}

/// What of a word is shown: a transcript is read in terminals and pages, and what commands them, or turns text around, is no part
/// of a word.
fn shown(word: &str) -> String {
    let turns =
        |c: char| matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    word.chars().filter(|c| !c.is_control() && !turns(*c)).collect()
}

/// A text without times.
fn untimed(text: String) -> Vec<Told> {
    vec![(text, None, None)]
}

#[cfg(test)]
mod tests {
    use super::{Word, heard, untimed};

    #[test]
    fn words_lie_within_their_sound_in_order_and_without_white_space() {
        let told = vec![
            (" world".to_owned(), Some((0.6, 9.0)), Some(1.5)),
            ("  ".to_owned(), Some((0.0, 0.1)), None),
            ("New York".to_owned(), Some((-1.0, 0.5)), Some(0.5)),
        ];
        let words = heard(told, 1.0).words;
        let told: Vec<_> =
            words.iter().map(|word| (word.text.as_str(), word.start, word.end, word.confidence)).collect();
        assert_eq!(told, [("New", 0.0, 0.0, Some(0.5)), ("York", 0.0, 0.5, Some(0.5)), ("world", 0.6, 1.0, None)]);
    }

    #[test]
    fn what_commands_a_terminal_is_no_part_of_a_word() {
        let told = untimed("go\u{1b}[2J \u{7} \u{202e}forward\u{2069} b\u{e9}b\u{e9}\0".to_owned());
        assert_eq!(heard(told, 1.0).text(), "go[2J forward b\u{e9}b\u{e9}");
    }

    #[test]
    fn words_without_times_share_the_sound() {
        let words = heard(untimed("go forward ten meters".to_owned()), 2.0).words;
        let times: Vec<_> = words.iter().map(|word| (word.start, word.end)).collect();
        assert_eq!(times, [(0.0, 0.5), (0.5, 1.0), (1.0, 1.5), (1.5, 2.0)]);
        assert!(heard(untimed(String::new()), 2.0).words.is_empty());
        let one_has_none =
            vec![("a".to_owned(), Some((1.0, 1.1)), None), ("b".to_owned(), Some((f64::NAN, 1.0)), None)];
        assert!(heard(one_has_none, 1.0).words.iter().all(|word| word.start.is_finite()));
    }

    #[test]
    fn times_that_no_sound_has_break_nothing() {
        for times in [(-1e308, 1e308), (1e308, -1e308), (9.0, -9.0), (1e308, 1e308)] {
            let words = heard(vec![("far away".to_owned(), Some(times), None)], 1.0).words;
            let within = |word: &Word| (0.0..=word.end).contains(&word.start) && word.end <= 1.0;
            assert!(words.len() == 2 && words.iter().all(within), "{times:?}: {words:?}");
        }
    }
}
