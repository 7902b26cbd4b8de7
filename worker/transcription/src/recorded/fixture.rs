//! Recorded speech for the tests of this module: index lines in the form that a recognizer yields.

use super::index::{IndexLine, IndexedPiece};
use crate::piece::{TimedWord, sample};
use crate::sensitive::SensitiveFinder;
use crate::sensitive::language::SensitiveLexicon;
use crate::sensitive::settings::SensitiveSettings;
use crate::vocabulary::language::StemmingLanguage;
use crate::vocabulary::{Vocabulary, WordList, public};

pub(super) fn language() -> StemmingLanguage {
    StemmingLanguage::new("en").expect("it is known")
}

/// The words "medicine" and "window".
pub(super) fn vocabulary() -> Vocabulary {
    let list = WordList::parse("medicine\nwindow\n").expect("they are words");
    public(language(), &list).expect("they are no stop words")
}

pub(super) fn finder() -> SensitiveFinder {
    SensitiveFinder::new(SensitiveLexicon::bundled("en").expect("it is built in"), &SensitiveSettings::default())
        .expect("they are the usual ones")
}

/// Returns recording `recording`, in which each phrase is a piece: words of 0.4 s with 0.1 s of silence between them, 1 s
/// between phrases.
pub(super) fn line(recording: u32, phrases: &[&str]) -> IndexLine {
    let mut at = 0.5;
    let mut pieces = Vec::new();
    for phrase in phrases {
        let start = at;
        let mut words = Vec::new();
        for text in phrase.split(' ') {
            words.push(TimedWord { text: text.to_owned(), start: at, end: at + 0.4, confidence: None });
            at += 0.5;
        }
        let samples = sample(start)..sample(at);
        at += 1.0;
        pieces.push(IndexedPiece { start: samples.start, end: samples.end, words });
    }
    IndexLine { recording, digest: format!("{recording:064x}"), pieces }
}
