//! Recorded speech for the tests of this room: lines of an index as a recognizer would make them.

use super::index::{Base, Line};
use crate::speech::transcribe::piece::{Word, sample};
use crate::speech::transcribe::sensitive::language::Language as Sensitive;
use crate::speech::transcribe::sensitive::{Finder, Settings};
use crate::speech::transcribe::vocabulary::language::Language;
use crate::speech::transcribe::vocabulary::{List, Vocabulary, public};

pub(super) fn language() -> Language {
    Language::new("en").expect("it is known")
}

/// "medicine" and "window".
pub(super) fn vocabulary() -> Vocabulary {
    let list = List::parse("medicine\nwindow\n").expect("they are words");
    public(language(), &list).expect("they are no stop words")
}

pub(super) fn finder() -> Finder {
    Finder::new(Sensitive::known("en").expect("it is built in"), &Settings::default()).expect("they are the usual ones")
}

/// The recording of this number, in which each of these phrases is a piece: words of 0.4 s with 0.1 s of silence between, 1 s between
/// phrases.
pub(super) fn line(recording: u32, phrases: &[&str]) -> Line {
    let (mut at, mut pieces) = (0.5, Vec::new());
    for phrase in phrases {
        let start = at;
        let mut words = Vec::new();
        for text in phrase.split(' ') {
            words.push(Word { text: text.to_owned(), start: at, end: at + 0.4, confidence: None });
            at += 0.5;
        }
        let samples = sample(start)..sample(at);
        at += 1.0;
        pieces.push(Base { start: samples.start, end: samples.end, words });
    }
    Line { recording, digest: format!("{recording:064x}"), pieces }
}
