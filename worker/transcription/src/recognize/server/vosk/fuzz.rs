//! Hostile answers at the parser of vosk-server's messages: it returns words within the sound, or an error.

use undertone_fuzz::Target;

use super::super::fuzz::assert_within_sound;
use super::answer::{VoskMessage, read};
use crate::piece::Recognition;

const WORDS: [&str; 9] =
    ["\"partial\":", "\"result\":", "\"text\":", "\"start\":", "null", "1e308", "-1e308", "60.9", "\" a  b \""];

#[test]
fn hostile_vosk_answers_are_parsed_or_refused() {
    let words = "{\"result\" : [{\"conf\" : 0.9, \"end\" : 1.11, \"start\" : 0.87, \"word\" : \"go\"}, \
                 {\"conf\" : 1.0, \"end\" : 1.53, \"start\" : 1.11, \"word\" : \"on\"}], \"text\" : \"go on\"}";
    let partial = "{\"partial\" : \"go\"}";
    assert!(
        matches!(read(words.as_bytes()), Ok(VoskMessage::Words(words)) if words.len() == 2),
        "a good answer is changed"
    );
    assert!(matches!(read(partial.as_bytes()), Ok(VoskMessage::Partial)), "a good answer is changed");
    Target::new("worker.answer_vosk", 3_000).seeds([words, partial]).words(&WORDS).run(|bytes| {
        if let Ok(VoskMessage::Words(words)) = read(bytes) {
            assert_within_sound(Recognition { words });
        }
    });
}
