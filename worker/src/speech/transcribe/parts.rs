//! A recording in its pieces, each with what was heard in it, and which of them must not leave because of what is said in them.
//!
//! The same for recordings that are transcribed and for recorded speech of which dummies are made: what true pieces never have,
//! a dummy must not have either.
//!
//! Something sensitive may take words of two pieces, as a title and a name do. So it is looked for in a piece together with the
//! piece ahead of it and the piece behind it, and nowhere further: a piece's words decide over three pieces and no more.

use super::piece::{Heard, Piece};
use super::sensitive::{self, Finder};
use super::transcript::{Part, Why};

/// The pieces of one recording in order of time, each with the words that were heard in it, and those that stay marked so. Words
/// are timed from the beginning of the recording.
pub fn parts(pieces: Vec<(Piece, Heard)>, finder: &Finder) -> Vec<Part> {
    let stays = |at: usize| {
        let near = &pieces[at.saturating_sub(1)..(at + 2).min(pieces.len())];
        let words: Vec<_> = near.iter().flat_map(|(_, heard)| heard.words.iter().cloned()).collect();
        let piece = std::slice::from_ref(&pieces[at].0);
        !sensitive::kept(piece, &words, &finder.find(&words)).is_empty()
    };
    let stay: Vec<bool> = (0..pieces.len()).map(stays).collect();
    let part = |((piece, offline), stays): ((Piece, Heard), bool)| Part {
        piece,
        offline,
        stays: stays.then_some(Why::Sensitive),
    };
    pieces.into_iter().zip(stay).map(part).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::speech::transcribe::piece::Word;
    use crate::speech::transcribe::sensitive::Settings;
    use crate::speech::transcribe::sensitive::language::Language;

    fn finder() -> Finder {
        Finder::new(Language::known("en").unwrap(), &Settings::default()).unwrap()
    }

    /// Pieces of a second, each with these words in it.
    fn pieces(texts: &[&str]) -> Vec<(Piece, Heard)> {
        let word = |text: &str, start: f64| Word { text: text.to_owned(), start, end: start + 0.2, confidence: None };
        let piece = |(text, id): (&&str, u32)| {
            let words = text
                .split_whitespace()
                .zip(0..)
                .map(|(text, place)| word(text, f64::from(id) + 0.1 + 0.3 * f64::from(place)));
            let start = u64::from(id) * 16_000;
            (Piece { id, samples: start..start + 16_000 }, Heard { words: words.collect() })
        };
        texts.iter().zip(0..).map(piece).collect()
    }

    fn stays(texts: &[&str]) -> Vec<bool> {
        parts(pieces(texts), &finder()).iter().map(|part| part.stays.is_some()).collect()
    }

    #[test]
    fn pieces_with_numbers_or_nothing_stay() {
        assert_eq!(stays(&["garden", "twenty", ""]), [false, true, true]);
        let texts: Vec<String> =
            parts(pieces(&["garden", "twenty"]), &finder()).iter().map(|part| part.offline.text()).collect();
        assert_eq!(texts, ["garden", "twenty"]);
    }

    #[test]
    fn a_name_behind_a_title_stays_across_a_cut() {
        assert_eq!(stays(&["the doctor", "okonkwo came", "garden"]), [true, true, false]);
        assert_eq!(stays(&["the garden", "okonkwo came", "garden"]), [false, false, false]);
    }

    #[test]
    fn words_decide_over_the_pieces_beside_theirs_and_no_further() {
        let usual = ["garden", "window", "medicine", "garden", "window", "garden", "window"];
        let before = stays(&usual);
        for text in ["doctor", "twenty", "street", "", "the doctor of"] {
            let mut changed = usual;
            changed[3] = text;
            let after = stays(&changed);
            for place in [0, 1, 5, 6] {
                assert_eq!(after[place], before[place], "{text}: piece {place}");
            }
        }
    }
}
