//! The pieces of a recording with their recognized words; pieces with sensitive words, and pieces longer than a sound that leaves, are
//! marked as staying at the site.
//!
//! The same code handles transcribed recordings and the recorded speech from which dummies are made: content that a true
//! piece never has, a dummy must not have either.
//!
//! A sensitive phrase may span two pieces, as a title and a name do. So each piece is searched together with the piece before
//! it and the piece after it, and no others: the words of a piece decide over at most three pieces.

use undertone_api::job::transcription::window::SOUND;

use super::piece::{Piece, Recognition, sample};
use super::sensitive::{self, SensitiveFinder};
use super::transcript::{OfflineReason, TranscriptPart};

/// Combines the pieces of one recording, in order of time, with their recognized words, and marks the pieces that stay at the
/// site. Words are timed from the beginning of the recording.
pub fn parts(pieces: Vec<(Piece, Recognition)>, finder: &SensitiveFinder) -> Vec<TranscriptPart> {
    let is_sensitive = |at: usize| {
        let near = &pieces[at.saturating_sub(1)..(at + 2).min(pieces.len())];
        let words: Vec<_> = near.iter().flat_map(|(_, recognition)| recognition.words.iter().cloned()).collect();
        let piece = std::slice::from_ref(&pieces[at].0);
        !sensitive::select_local_pieces(piece, &words, &finder.find(&words)).is_empty()
    };
    let sensitive: Vec<bool> = (0..pieces.len()).map(is_sensitive).collect();
    let part = |((piece, offline), is_sensitive): ((Piece, Recognition), bool)| {
        let is_long = piece.samples.end.saturating_sub(piece.samples.start) > sample(SOUND);
        let long = is_long.then_some(OfflineReason::Long);
        TranscriptPart { piece, offline, stays: is_sensitive.then_some(OfflineReason::Sensitive).or(long) }
    };
    pieces.into_iter().zip(sensitive).map(part).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::piece::TimedWord;
    use crate::sensitive::language::SensitiveLexicon;
    use crate::sensitive::settings::SensitiveSettings;

    fn finder() -> SensitiveFinder {
        SensitiveFinder::new(SensitiveLexicon::bundled("en").unwrap(), &SensitiveSettings::default()).unwrap()
    }

    /// Pieces of one second, with these words.
    fn pieces(texts: &[&str]) -> Vec<(Piece, Recognition)> {
        let word =
            |text: &str, start: f64| TimedWord { text: text.to_owned(), start, end: start + 0.2, confidence: None };
        let piece = |(text, id): (&&str, u32)| {
            let words = text
                .split_whitespace()
                .zip(0..)
                .map(|(text, place)| word(text, f64::from(id) + 0.1 + 0.3 * f64::from(place)));
            let start = u64::from(id) * 16_000;
            (Piece { id, samples: start..start + 16_000 }, Recognition { words: words.collect() })
        };
        texts.iter().zip(0..).map(piece).collect()
    }

    fn stays(texts: &[&str]) -> Vec<bool> {
        parts(pieces(texts), &finder()).iter().map(|part| part.stays.is_some()).collect()
    }

    #[test]
    fn pieces_with_numbers_or_no_words_stay() {
        assert_eq!(stays(&["garden", "twenty", ""]), [false, true, true]);
        let texts: Vec<String> =
            parts(pieces(&["garden", "twenty"]), &finder()).iter().map(|part| part.offline.text()).collect();
        assert_eq!(texts, ["garden", "twenty"]);
    }

    #[test]
    fn piece_longer_than_a_sound_stays() {
        for (samples, stays) in [(72_000, None), (72_001, Some(OfflineReason::Long))] {
            let mut pieces = pieces(&["garden"]);
            pieces[0].0.samples.end = pieces[0].0.samples.start + samples;
            assert_eq!(parts(pieces, &finder())[0].stays, stays, "{samples}");
        }
    }

    #[test]
    fn name_after_title_stays_across_a_cut() {
        assert_eq!(stays(&["the doctor", "okonkwo came", "garden"]), [true, true, false]);
        assert_eq!(stays(&["the garden", "okonkwo came", "garden"]), [false, false, false]);
    }

    #[test]
    fn words_decide_over_adjacent_pieces_only() {
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
