//! A recording in its pieces, each with what was heard in it, and which of them must not leave because of what is said in them.
//!
//! The same for recordings that are transcribed and for recorded speech of which dummies are made: what true pieces never have,
//! a dummy must not have either.

use super::piece::{Heard, Piece, Word};
use super::sensitive::{self, Finder};
use super::transcript::{Part, Why};

/// The pieces with their words, and those that stay marked so. `pieces` and `words` are one recording's, in order of time, timed from
/// its beginning; pieces are numbered from 0 and do not overlap.
pub fn parts(pieces: Vec<Piece>, words: &[Word], finder: &Finder) -> Vec<Part> {
    let stay = sensitive::kept(&pieces, words, &finder.find(words));
    let mut offline: Vec<Heard> = vec![Heard::default(); pieces.len()];
    for word in words {
        let at = pieces.partition_point(|piece| piece.end() <= word.middle());
        if pieces.get(at).is_some_and(|piece| piece.holds(word)) {
            offline[at].words.push(word.clone());
        }
    }
    let part = |(piece, offline): (Piece, Heard)| {
        let stays = stay.contains_key(&piece.id).then_some(Why::Sensitive);
        Part { piece, offline, stays }
    };
    pieces.into_iter().zip(offline).map(part).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::speech::transcribe::sensitive::Settings;
    use crate::speech::transcribe::sensitive::language::Language;

    #[test]
    fn each_word_is_in_one_piece_and_pieces_with_numbers_or_nothing_stay() {
        let pieces: Vec<Piece> =
            [(0, 16_000), (16_000, 32_000), (40_000, 56_000)].into_iter().zip(0..).map(piece).collect();
        let word = |text: &str, start: f64| Word { text: text.to_owned(), start, end: start + 0.3, confidence: None };
        let words = [word("garden", 0.2), word("twenty", 1.2), word("between", 2.1)];
        let finder = Finder::new(Language::known("en").unwrap(), &Settings::default()).unwrap();
        let parts = parts(pieces, &words, &finder);
        let texts: Vec<String> = parts.iter().map(|part| part.offline.text()).collect();
        assert_eq!(texts, ["garden", "twenty", ""], "a word in the silence is nobody's");
        let stays: Vec<bool> = parts.iter().map(|part| part.stays.is_some()).collect();
        assert_eq!(stays, [false, true, true]);
    }

    fn piece(((start, end), id): ((u64, u64), u32)) -> Piece {
        Piece { id, samples: start..end }
    }
}
