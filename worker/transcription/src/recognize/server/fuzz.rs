//! Hostile answers at the parser of `verbose_json`: it returns words within the sound, or an error.

use undertone_fuzz::Target;

use super::super::check_times;
use super::answer;
use crate::piece::Recognition;

/// Length of the sound, in seconds.
const SECONDS: f64 = 60.0;
const WORDS: [&str; 9] =
    ["\"words\":", "\"segments\":", "\"text\":", "\"start\":", "null", "1e308", "-1e308", "60.9", "\" a  b \""];

/// Asserts that checked words lie within the sound, in order, and have a text.
pub(super) fn assert_within_sound(recognition: Recognition) {
    let Ok(recognition) = check_times(recognition, SECONDS) else { return };
    let mut before = 0.0;
    for word in &recognition.words {
        assert!(before <= word.start && word.start <= word.end && word.end <= SECONDS, "{word:?} after {before}");
        assert!(!word.text.is_empty() && !word.text.contains(char::is_whitespace), "{word:?}");
        assert!(word.confidence.is_none_or(|sure| (0.0..=1.0).contains(&sure)), "{word:?}");
        before = word.start;
    }
}

#[test]
fn hostile_verbose_json_answers_are_parsed_or_refused() {
    let words = "{\"text\":\" go on\",\"words\":[{\"word\":\"go\",\"start\":0.1,\"end\":0.4},\
                 {\"word\":\"on\",\"start\":0.5,\"end\":0.9,\"score\":0.5}]}";
    let parts = "{\"text\":\" go on\",\"segments\":[{\"text\":\" go on\",\"start\":0.3,\"end\":2.0,\"words\":[\
                 {\"word\":\" go\",\"start\":0.3,\"end\":0.5,\"probability\":0.9},\
                 {\"word\":\" o\",\"start\":0.5,\"end\":1.0,\"probability\":0.8},\
                 {\"word\":\"n\",\"start\":1.0,\"end\":1.2,\"probability\":0.7}]}]}";
    let segments = "{\"text\":\"go on\",\"segments\":[{\"text\":\"go on\",\"start\":3,\"end\":4}]}";
    let seeds = [words, parts, segments];
    for seed in seeds {
        assert_eq!(answer::read(seed.as_bytes()).expect("a good answer is changed").text(), "go on", "{seed}");
    }
    Target::new("worker.answer_verbose_json", 3_000).seeds(seeds).words(&WORDS).run(|bytes| {
        if let Ok(recognition) = answer::read(bytes) {
            assert_within_sound(recognition);
        }
    });
}
