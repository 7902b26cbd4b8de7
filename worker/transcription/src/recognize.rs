//! Recognizers at the site produce the first transcript, with a program or a server of the site that holds the recording.
//!
//! The first transcript determines the vocabulary and the pieces that never leave, and it is the text of those pieces. The
//! recognizer receives the recording before any protection. So a [`pocketsphinx`] runs on this machine, and a [`server`] must
//! be on this machine or in the site's own network; [`pool`] runs one of them. This module uses no cloud recognizer. To add a
//! recognizer: add a file that implements [`SpeechRecognizer`], with a test on real speech.

pub mod pocketsphinx;
pub mod pool;
pub mod server;

use async_trait::async_trait;

use super::piece::Recognition;
use undertone_worker_speech::audio::RATE;

/// Longest audio of one request, in seconds.
pub const LONGEST: f64 = 60.0;
/// Largest accepted number of words a second: fast talkers say six.
const DENSEST: f64 = 30.0;
/// How far beyond the audio a word may end, in seconds: servers round.
const BEYOND: f64 = 1.0;

/// Recognizes words in speech.
#[async_trait]
pub trait SpeechRecognizer: Send + Sync {
    /// Returns the name for reports: program and version, or kind and model of a server; never an address.
    fn name(&self) -> &str;

    /// Returns the words in `audio` (mono, 16 kHz, full scale = 1; not empty, at most [`LONGEST`] seconds), timed from its
    /// beginning. The answer arrives in bounded time and does not depend on earlier audio. The number of concurrent calls is
    /// fixed when the recognizer is started.
    ///
    /// # Errors
    /// [`RecognizerError`]; unless the recognizer is gone, the caller may try the next audio.
    async fn transcribe(&self, audio: &[f32]) -> Result<Recognition, RecognizerError>;
}

/// Reasons that audio was not recognized.
#[derive(Debug, thiserror::Error)]
pub enum RecognizerError {
    /// The program cannot be started.
    #[error("cannot start the recognizer {command}: {remedy}")]
    Missing {
        /// The program.
        command: String,
        /// How to install it.
        remedy: &'static str,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The program started and refused, or was replaced by another one.
    #[error("the recognizer {command} cannot work: {reason}; {remedy}")]
    Refused {
        /// The program.
        command: String,
        /// The reason.
        reason: String,
        /// How to repair it.
        remedy: &'static str,
    },
    /// A setting is out of range.
    #[error("{field}: {reason}")]
    Setting {
        /// The field.
        field: &'static str,
        /// The permitted values.
        reason: String,
    },
    /// The audio is empty or too long.
    #[error("{seconds:.1} s of audio: a request holds more than 0 and at most {LONGEST} s; cut it into pieces")]
    Length {
        /// Its length, seconds.
        seconds: f64,
    },
    /// The server does not answer, or not completely.
    #[error("the recognizer's server {0}: see that it runs, and that `url` is its address")]
    Web(#[source] super::web::WebError),
    /// The server answers with an error status.
    #[error("the recognizer's server answered with status {status}: {remedy}")]
    Status {
        /// HTTP status code.
        status: u16,
        /// The remedy.
        remedy: &'static str,
    },
    /// This audio was not recognized: the recognizer hung, crashed, or gave an impossible answer.
    #[error("{0}")]
    Failed(String),
}

/// Returns the length of audio (mono, 16 kHz) in seconds.
///
/// # Errors
/// [`RecognizerError::Length`] for empty audio, and for more than [`LONGEST`] seconds.
pub fn check_length(audio: &[f32]) -> Result<f64, RecognizerError> {
    let seconds = audio.len() as f64 / f64::from(RATE);
    if audio.is_empty() || seconds > LONGEST { Err(RecognizerError::Length { seconds }) } else { Ok(seconds) }
}

/// Checks an answer about `seconds` of audio: words in order, within the audio, and no more than people say.
///
/// # Errors
/// [`RecognizerError::Failed`] with the first contradiction.
pub fn check_times(mut recognition: Recognition, seconds: f64) -> Result<Recognition, RecognizerError> {
    let failed = |reason: &str| Err(RecognizerError::Failed(format!("the recognizer's answer is invalid: {reason}")));
    if recognition.words.len() as f64 > 1.0 + DENSEST * seconds {
        return failed("it has more words a second than people say");
    }
    let mut start = 0.0;
    for word in &mut recognition.words {
        // A time that is NaN fails here too.
        if !(word.start >= start - BEYOND && word.end >= word.start && word.end <= seconds + BEYOND) {
            return failed("a word's times are not in order, or not within the audio");
        }
        if word.text.is_empty() || word.text.contains(char::is_whitespace) {
            return failed("a word is empty, or two");
        }
        word.start = word.start.clamp(start, seconds.max(start));
        word.end = word.end.clamp(word.start, seconds.max(word.start));
        word.confidence = word.confidence.filter(|sure| sure.is_finite()).map(|sure| sure.clamp(0.0, 1.0));
        start = word.start;
    }
    Ok(recognition)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::piece::TimedWord;

    fn recognition(times: &[(f64, f64)]) -> Recognition {
        let word = |(start, end): &(f64, f64)| TimedWord {
            text: "a".to_owned(),
            start: *start,
            end: *end,
            confidence: Some(1.5),
        };
        Recognition { words: times.iter().map(word).collect() }
    }

    #[test]
    fn times_slightly_outside_are_clamped_others_refused() {
        let checked = check_times(recognition(&[(-0.1, 0.4), (0.3, 0.9), (0.8, 1.2)]), 1.0).unwrap();
        let times: Vec<(f64, f64)> = checked.words.iter().map(|word| (word.start, word.end)).collect();
        assert_eq!(times, [(0.0, 0.4), (0.3, 0.9), (0.8, 1.0)]);
        assert_eq!(checked.words[0].confidence, Some(1.0));
        for wrong in [(0.5, 0.4), (0.0, 9.0), (f64::NAN, 0.5), (0.1, f64::INFINITY), (-5.0, 0.1)] {
            assert!(check_times(recognition(&[wrong]), 1.0).is_err(), "{wrong:?}");
        }
        assert!(check_times(recognition(&[(9.0, 9.1), (1.0, 1.1)]), 10.0).is_err(), "out of order");
        // One, and thirty a second.
        assert!(check_times(recognition(&[(0.1, 0.2); 31]), 1.0).is_ok());
        assert!(check_times(recognition(&[(0.1, 0.2); 32]), 1.0).is_err(), "more words a second than people say");
        assert!(check_times(recognition(&[(0.5, 1.0 + BEYOND)]), 1.0).is_ok());
        assert!(check_times(recognition(&[(0.5, 1.01 + BEYOND)]), 1.0).is_err());
        assert_eq!(check_times(recognition(&[]), 1.0).unwrap(), Recognition::default(), "nothing is an answer");
    }

    #[test]
    fn empty_and_too_long_audio_is_refused() {
        let refused = check_length(&vec![0.0; 960_001]).unwrap_err().to_string();
        assert!(refused.contains("60.0 s") && refused.contains("cut it"), "{refused}");
        assert!(check_length(&[]).is_err());
        assert!((check_length(&vec![0.0; 960_000]).unwrap() - LONGEST).abs() < 1e-9);
    }
}
