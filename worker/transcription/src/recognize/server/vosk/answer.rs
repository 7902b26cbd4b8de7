//! Parser for messages of vosk-server: words that may still change, or words with their times.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{RecognizerError, failed};
use crate::piece::TimedWord;

/// One message of the server.
#[derive(Debug, PartialEq)]
pub(super) enum VoskMessage {
    /// The words may still change.
    Partial,
    /// All words since the last message with words; possibly none.
    Words(Vec<TimedWord>),
}

#[derive(Deserialize)]
struct VoskResult {
    partial: Option<IgnoredAny>,
    text: Option<String>,
    #[serde(default)]
    result: Vec<VoskWord>,
}

#[derive(Deserialize)]
struct VoskWord {
    word: String,
    start: f64,
    end: f64,
    conf: Option<f64>,
}

/// Parses a message.
///
/// # Errors
/// [`RecognizerError::Failed`] when the message has another form, or has text without any times.
pub(super) fn read(message: &[u8]) -> Result<VoskMessage, RecognizerError> {
    // The error does not repeat the message, which may hold spoken words.
    let other = || failed("does not answer as vosk-server does: choose the `protocol` that it speaks");
    let result: VoskResult = serde_json::from_slice(message).map_err(|_| other())?;
    let Some(text) = result.text else { return result.partial.map(|_| VoskMessage::Partial).ok_or_else(other) };
    if result.result.is_empty() && !text.trim().is_empty() {
        return Err(failed("gives no times of words: start it with a model that does"));
    }
    let word = |word: VoskWord| TimedWord { text: word.word, start: word.start, end: word.end, confidence: word.conf };
    Ok(VoskMessage::Words(result.result.into_iter().map(word).collect()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn words_have_times_and_confidences() {
        let answer = br#"{
          "result" : [{
              "conf" : 0.912,
              "end" : 1.110000,
              "start" : 0.870000,
              "word" : "what"
            }, {
              "conf" : 1.000000,
              "end" : 1.530000,
              "start" : 1.110000,
              "word" : "zero"
            }],
          "spk" : [-0.503207, 0.344209],
          "text" : "what zero"
        }"#;
        let word =
            |text: &str, start, end, sure| TimedWord { text: text.to_owned(), start, end, confidence: Some(sure) };
        let words = vec![word("what", 0.87, 1.11, 0.912), word("zero", 1.11, 1.53, 1.0)];
        assert_eq!(read(answer).unwrap(), VoskMessage::Words(words));
    }

    #[test]
    fn partial_answers_are_skipped_and_silence_is_empty() {
        let partial = br#"{"partial" : "what", "partial_result" : [{"conf" : 1.0, "word" : "what"}]}"#;
        for partial in [&partial[..], br#"{"partial" : ""}"#] {
            assert_eq!(read(partial).unwrap(), VoskMessage::Partial);
        }
        for silence in [&br#"{"text" : ""}"#[..], br#"{"result" : [], "text" : " "}"#] {
            assert_eq!(read(silence).unwrap(), VoskMessage::Words(Vec::new()));
        }
    }

    #[test]
    fn malformed_answers_are_refused_and_not_repeated() {
        for (wrong, named) in [
            (&b"the secret"[..], "`protocol`"),
            (br#"{"error":"the secret"}"#, "`protocol`"),
            (br#"{"result":[{"word":"secret"}],"text":"secret"}"#, "`protocol`"),
            (br#"{"alternatives":[{"text":"secret"}]}"#, "`protocol`"),
            (br#"{"text":"the secret"}"#, "no times"),
        ] {
            let refused = read(wrong).unwrap_err().to_string();
            assert!(refused.contains(named) && !refused.contains("secret"), "{refused}");
        }
    }
}
