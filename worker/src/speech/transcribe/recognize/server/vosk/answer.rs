//! What vosk-server answers: words that may still change, or words with their times.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{RecognizerError, failed};
use crate::speech::transcribe::piece::Word;

/// One answer.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// Nothing is decided yet.
    Partial,
    /// All words since the last answer that had words; there may be none.
    Words(Vec<Word>),
}

#[derive(Deserialize)]
struct Said {
    partial: Option<IgnoredAny>,
    text: Option<String>,
    #[serde(default)]
    result: Vec<Timed>,
}

#[derive(Deserialize)]
struct Timed {
    word: String,
    start: f64,
    end: f64,
    conf: Option<f64>,
}

/// Reads an answer.
///
/// # Errors
/// [`RecognizerError::Failed`] when it is no such answer, or has text without any times.
pub(super) fn read(message: &[u8]) -> Result<Answer, RecognizerError> {
    // The answer itself is not repeated: it may hold what was said.
    let other = || failed("does not answer as vosk-server does: choose the `protocol` that it speaks");
    let said: Said = serde_json::from_slice(message).map_err(|_| other())?;
    let Some(text) = said.text else { return said.partial.map(|_| Answer::Partial).ok_or_else(other) };
    if said.result.is_empty() && !text.trim().is_empty() {
        return Err(failed("gives no times of words: start it with a model that does"));
    }
    let word = |word: Timed| Word { text: word.word, start: word.start, end: word.end, confidence: word.conf };
    Ok(Answer::Words(said.result.into_iter().map(word).collect()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn words_have_their_times_and_how_sure_they_are() {
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
        let word = |text: &str, start, end, sure| Word { text: text.to_owned(), start, end, confidence: Some(sure) };
        let words = vec![word("what", 0.87, 1.11, 0.912), word("zero", 1.11, 1.53, 1.0)];
        assert_eq!(read(answer).unwrap(), Answer::Words(words));
    }

    #[test]
    fn what_may_change_is_not_read_and_silence_has_no_words() {
        let partial = br#"{"partial" : "what", "partial_result" : [{"conf" : 1.0, "word" : "what"}]}"#;
        for partial in [&partial[..], br#"{"partial" : ""}"#] {
            assert_eq!(read(partial).unwrap(), Answer::Partial);
        }
        for silence in [&br#"{"text" : ""}"#[..], br#"{"result" : [], "text" : " "}"#] {
            assert_eq!(read(silence).unwrap(), Answer::Words(Vec::new()));
        }
    }

    #[test]
    fn what_is_no_answer_is_refused_and_not_repeated() {
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
