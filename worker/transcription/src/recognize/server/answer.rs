//! Parser for server answers: `verbose_json`, in its known forms.
//!
//! | server | words |
//! |---|---|
//! | OpenAI and compatible servers | `words: [{word, start, end}]` beside `text` |
//! | whisper.cpp | `segments: [{words: [{word, start, end, probability}]}]`, parts of words: a part without a leading space continues a word |
//! | servers without word times | `segments: [{text, start, end}]`: the words of a segment share its time by their letters |
//!
//! Times by letters are off by about a word. They suffice to assemble a transcript, because pieces are cut where the sound is
//! quiet.

use serde::Deserialize;

use super::RecognizerError;
use crate::piece::{Recognition, TimedWord};

#[derive(Deserialize)]
struct WhisperAnswer {
    #[serde(default)]
    text: String,
    words: Option<Vec<AnswerWord>>,
    segments: Option<Vec<AnswerSegment>>,
}

#[derive(Deserialize)]
struct AnswerSegment {
    #[serde(default)]
    text: String,
    start: f64,
    end: f64,
    words: Option<Vec<AnswerWord>>,
}

#[derive(Deserialize)]
struct AnswerWord {
    word: String,
    start: f64,
    end: f64,
    #[serde(alias = "confidence", alias = "score")]
    probability: Option<f64>,
}

/// Parses the words of an answer.
///
/// # Errors
/// [`RecognizerError::Failed`] when the answer has another form, or has text without any times.
pub(super) fn read(body: &[u8]) -> Result<Recognition, RecognizerError> {
    let failed = |reason: &str| RecognizerError::Failed(format!("the recognizer's server {reason}"));
    // The error does not repeat the answer, which may hold spoken words.
    let answer: WhisperAnswer = serde_json::from_slice(body)
        .map_err(|_| failed("does not answer verbose_json: choose the `protocol` that it speaks"))?;
    let timed = |word: AnswerWord| TimedWord {
        text: word.word.trim().to_owned(),
        start: word.start,
        end: word.end,
        confidence: word.probability,
    };
    let mut words: Vec<TimedWord> = match (answer.words, answer.segments) {
        (Some(words), _) => words.into_iter().map(timed).collect(),
        (None, Some(segments)) => segments.into_iter().flat_map(segment_words).collect(),
        (None, None) if answer.text.trim().is_empty() => Vec::new(),
        (None, None) => return Err(failed("gives no times of words or segments: choose one that does")),
    };
    words.retain(|word| !word.text.is_empty());
    // Some servers write two words as one entry, for example numbers and names.
    let words =
        words.into_iter().flat_map(|word| share_time(&word.text, word.start, word.end, word.confidence)).collect();
    Ok(Recognition { words })
}

/// Returns the words of a segment: its own, joined from parts, or those of its text.
fn segment_words(segment: AnswerSegment) -> Vec<TimedWord> {
    let Some(parts) = segment.words.filter(|words| !words.is_empty()) else {
        return share_time(&segment.text, segment.start, segment.end, None);
    };
    let mut words: Vec<TimedWord> = Vec::new();
    for part in parts {
        match words.last_mut() {
            Some(word) if !part.word.starts_with(char::is_whitespace) => {
                word.text.push_str(part.word.trim_end());
                word.end = part.end;
                word.confidence = word.confidence.zip(part.probability).map(|(a, b)| a.min(b));
            }
            _ => words.push(TimedWord {
                text: part.word.trim().to_owned(),
                start: part.start,
                end: part.end,
                confidence: part.probability,
            }),
        }
    }
    words
}

/// Splits `text` into words that share its time by their letters.
fn share_time(text: &str, start: f64, end: f64, confidence: Option<f64>) -> Vec<TimedWord> {
    let all = text.split_whitespace().map(|word| word.chars().count()).sum::<usize>().max(1) as f64;
    let at = |letters: usize| start + (end - start) * letters as f64 / all;
    let mut letters = 0;
    text.split_whitespace()
        .map(|word| {
            let before = letters;
            letters += word.chars().count();
            TimedWord { text: word.to_owned(), start: at(before), end: at(letters), confidence }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    fn times(recognition: &Recognition) -> Vec<(&str, f64, f64)> {
        recognition.words.iter().map(|word| (word.text.as_str(), word.start, word.end)).collect()
    }

    #[test]
    fn openai_words_are_parsed() {
        let answer = br#"{"task":"transcribe","language":"english","duration":8.47,"text":"The beach was",
            "words":[{"word":"The","start":0.0,"end":0.24},{"word":"beach","start":0.24,"end":0.56},
            {"word":"was","start":0.56,"end":0.83}],"usage":{"type":"duration","seconds":9}}"#;
        let recognition = read(answer).unwrap();
        assert_eq!(times(&recognition), [("The", 0.0, 0.24), ("beach", 0.24, 0.56), ("was", 0.56, 0.83)]);
        assert_eq!(recognition.words[0].confidence, None);
    }

    #[test]
    fn whisper_cpp_word_parts_are_joined() {
        let answer = br#"{"task":"transcribe","language":"en","duration":11.0,"text":" ask not what's",
            "segments":[{"id":0,"text":" ask not what's","start":0.3,"end":2.0,"tokens":[1265],"words":[
            {"word":" ask","start":0.32,"end":0.5,"t_dtw":-1,"probability":0.9},
            {"word":" not","start":0.5,"end":1.0,"t_dtw":-1,"probability":0.8},
            {"word":" what","start":1.0,"end":1.4,"t_dtw":-1,"probability":0.7},
            {"word":"'s","start":1.4,"end":1.6,"t_dtw":-1,"probability":0.6}],
            "temperature":0.0,"avg_logprob":-0.2,"no_speech_prob":0.01}]}"#;
        let recognition = read(answer).unwrap();
        assert_eq!(times(&recognition), [("ask", 0.32, 0.5), ("not", 0.5, 1.0), ("what's", 1.0, 1.6)]);
        assert_eq!(recognition.words[2].confidence, Some(0.6), "no surer than of its least sure part");
    }

    #[test]
    fn words_without_times_share_their_segments() {
        let answer = br#"{"text":"go on then","segments":[{"start":1.0,"end":2.0,"text":" go on"},{"start":3,"end":4,"text":"then"}]}"#;
        assert_eq!(times(&read(answer).unwrap()), [("go", 1.0, 1.5), ("on", 1.5, 2.0), ("then", 3.0, 4.0)]);
    }

    #[test]
    fn empty_answer_is_valid_and_untimed_text_is_refused() {
        for nothing in [&br#"{"text":""}"#[..], br#"{"text":" ","segments":[]}"#, br#"{"text":"","words":[]}"#] {
            assert_eq!(read(nothing).unwrap(), Recognition::default());
        }
        let refused = read(br#"{"text":"the secret"}"#).unwrap_err().to_string();
        assert!(refused.contains("no times") && !refused.contains("secret"), "{refused}");
        for wrong in [&b"the secret"[..], br#"{"words":[{"word":"secret"}]}"#, br#"["secret"]"#] {
            let refused = read(wrong).unwrap_err().to_string();
            assert!(refused.contains("verbose_json") && !refused.contains("secret"), "{refused}");
        }
    }
}
