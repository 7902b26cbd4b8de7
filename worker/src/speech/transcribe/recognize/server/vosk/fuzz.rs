//! Hostile answers at the reader of what vosk-server says: words within the sound, or a refusal.

use undertone_fuzz::Target;

use super::super::fuzz::sound;
use super::answer::{Answer, read};
use crate::speech::transcribe::piece::Heard;

const WORDS: [&str; 9] =
    ["\"partial\":", "\"result\":", "\"text\":", "\"start\":", "null", "1e308", "-1e308", "60.9", "\" a  b \""];

#[test]
fn no_answer_of_vosk_breaks_its_reader() {
    let words = "{\"result\" : [{\"conf\" : 0.9, \"end\" : 1.11, \"start\" : 0.87, \"word\" : \"go\"}, \
                 {\"conf\" : 1.0, \"end\" : 1.53, \"start\" : 1.11, \"word\" : \"on\"}], \"text\" : \"go on\"}";
    let partial = "{\"partial\" : \"go\"}";
    assert!(matches!(read(words.as_bytes()), Ok(Answer::Words(words)) if words.len() == 2), "a good answer is changed");
    assert!(matches!(read(partial.as_bytes()), Ok(Answer::Partial)), "a good answer is changed");
    Target::new("worker.answer_vosk", 3_000).seeds([words, partial]).words(&WORDS).run(|bytes| {
        if let Ok(Answer::Words(words)) = read(bytes) {
            sound(Heard { words });
        }
    });
}
