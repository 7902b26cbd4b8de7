//! Recognizers at the site: the first transcript, by a program or a server that belongs to whoever holds the recording.
//!
//! It decides the vocabulary and which pieces never leave, and it is the text of those. It hears the recording as it is,
//! before anything protects it: so a [`pocketsphinx`] runs on this machine, and a [`server`] must be on this machine or in the
//! site's own network; [`ears`] put one to work. Cloud recognizers are not asked from here. To add one: a file that implements [`Recognizer`], with a
//! test on real speech.

pub mod ears;
pub mod pocketsphinx;
pub mod server;

use async_trait::async_trait;

use super::piece::Heard;
use crate::speech::audio::RATE;

/// The most audio that is heard at once, seconds.
pub const LONGEST: f64 = 60.0;
/// The most words that are believed, a second: fast talkers say six.
const DENSEST: f64 = 30.0;
/// How far beyond the audio a word may end, seconds: servers round.
const BEYOND: f64 = 1.0;

/// Hears words in speech.
#[async_trait]
pub trait Recognizer: Send + Sync {
    /// What it is, for reports: program and version, or kind and model of a server; never an address.
    fn name(&self) -> &str;

    /// The words in `audio` (mono, 16 kHz, full scale = 1; not empty, at most [`LONGEST`] seconds), timed from its beginning.
    /// It answers in bounded time, and as if it had heard nothing before. As many may be asked at a time as are started.
    ///
    /// # Errors
    /// [`RecognizerError`]; unless the recognizer is gone, the next audio may be tried.
    async fn hear(&self, audio: &[f32]) -> Result<Heard, RecognizerError>;
}

/// Why nothing was heard.
#[derive(Debug, thiserror::Error)]
pub enum RecognizerError {
    /// A program that is not there.
    #[error("cannot start the recognizer {command}: {remedy}")]
    Missing {
        /// The program.
        command: String,
        /// How to get it.
        remedy: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A program that started and refused, or became another one.
    #[error("the recognizer {command} cannot work: {reason}; {remedy}")]
    Refused {
        /// The program.
        command: String,
        /// Why.
        reason: String,
        /// How to mend it.
        remedy: &'static str,
    },
    /// A setting that cannot be.
    #[error("{field}: {reason}")]
    Setting {
        /// The field.
        field: &'static str,
        /// What it should be.
        reason: String,
    },
    /// Audio that is not heard.
    #[error("{seconds:.1} s of audio: more than none and at most {LONGEST} s are heard at once; cut it into pieces")]
    Length {
        /// Its length, seconds.
        seconds: f64,
    },
    /// A server that does not answer, or not whole.
    #[error("the recognizer's server {0}: see that it runs, and that `url` is its address")]
    Web(#[source] super::web::WebError),
    /// A server that answers otherwise than by words.
    #[error("the recognizer's server answered with status {status}: {remedy}")]
    Status {
        /// Of HTTP.
        status: u16,
        /// What to do.
        remedy: &'static str,
    },
    /// This audio was not heard: it hung or crashed over it, or its answer cannot be.
    #[error("{0}")]
    Failed(String),
}

/// The length of audio that may be heard, seconds.
fn length(audio: &[f32]) -> Result<f64, RecognizerError> {
    let seconds = audio.len() as f64 / f64::from(RATE);
    if audio.is_empty() || seconds > LONGEST { Err(RecognizerError::Length { seconds }) } else { Ok(seconds) }
}

/// An answer about so many seconds, if it can be: words in order, within the audio, not more than anybody says.
fn believed(mut heard: Heard, seconds: f64) -> Result<Heard, RecognizerError> {
    let failed = |reason: &str| Err(RecognizerError::Failed(format!("the recognizer's answer cannot be: {reason}")));
    if heard.words.len() as f64 > 1.0 + DENSEST * seconds {
        return failed("it has more words than anybody says");
    }
    let mut start = 0.0;
    for word in &mut heard.words {
        // No number fails here too.
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
    Ok(heard)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::speech::transcribe::piece::Word;

    fn heard(times: &[(f64, f64)]) -> Heard {
        let word =
            |(start, end): &(f64, f64)| Word { text: "a".to_owned(), start: *start, end: *end, confidence: Some(1.5) };
        Heard { words: times.iter().map(word).collect() }
    }

    #[test]
    fn times_a_rounding_outside_are_brought_back_and_others_refused() {
        let kept = believed(heard(&[(-0.1, 0.4), (0.3, 0.9), (0.8, 1.2)]), 1.0).unwrap();
        let times: Vec<(f64, f64)> = kept.words.iter().map(|word| (word.start, word.end)).collect();
        assert_eq!(times, [(0.0, 0.4), (0.3, 0.9), (0.8, 1.0)]);
        assert_eq!(kept.words[0].confidence, Some(1.0));
        for wrong in [(0.5, 0.4), (0.0, 9.0), (f64::NAN, 0.5), (0.1, f64::INFINITY), (-5.0, 0.1)] {
            assert!(believed(heard(&[wrong]), 1.0).is_err(), "{wrong:?}");
        }
        assert!(believed(heard(&[(9.0, 9.1), (1.0, 1.1)]), 10.0).is_err(), "out of order");
        // One, and thirty a second.
        assert!(believed(heard(&[(0.1, 0.2); 31]), 1.0).is_ok());
        assert!(believed(heard(&[(0.1, 0.2); 32]), 1.0).is_err(), "nobody says so many words a second");
        assert!(believed(heard(&[(0.5, 1.0 + BEYOND)]), 1.0).is_ok());
        assert!(believed(heard(&[(0.5, 1.01 + BEYOND)]), 1.0).is_err());
        assert_eq!(believed(heard(&[]), 1.0).unwrap(), Heard::default(), "nothing is an answer");
    }

    #[test]
    fn nothing_and_too_much_are_refused_with_the_limit() {
        let refused = length(&vec![0.0; 960_001]).unwrap_err().to_string();
        assert!(refused.contains("60.0 s") && refused.contains("cut it"), "{refused}");
        assert!(length(&[]).is_err());
        assert!((length(&vec![0.0; 960_000]).unwrap() - LONGEST).abs() < 1e-9);
    }
}
