//! The pieces of recorded speech that may be dummies for one vocabulary, and which of them a job sets aside.
//!
//! The same that makes a piece of a recording fit to leave makes one fit to be a dummy: at most one word of the vocabulary, nothing
//! sensitive, something heard in it. A dummy with a name in it would be known for one, for no true piece has a name.

use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasher;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::index::{Base, Line};
use super::journal::Used;
use crate::dp::noise::below;
use crate::speech::transcribe::dummy::Length;
use crate::speech::transcribe::parts::parts;
use crate::speech::transcribe::piece::{Heard, Piece};
use crate::speech::transcribe::sensitive::Finder;
use crate::speech::transcribe::transcript::Part;
use crate::speech::transcribe::vocabulary::{Held, Vocabulary};

/// A piece that may be a dummy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The number of its recording in the list that goes with it.
    pub recording: u32,
    /// Its first sample.
    pub start: u64,
    /// The sample after its last.
    pub end: u64,
    /// The word of the vocabulary that it carries; none for one without.
    pub word: Option<u32>,
    /// How long it is in words.
    pub length: Length,
}

/// What makes pieces fit.
pub struct Sieve<'a> {
    vocabulary: &'a Vocabulary,
    finder: &'a Finder,
    stops: BTreeSet<String>,
}

impl<'a> Sieve<'a> {
    /// For a vocabulary, without what is sensitive.
    pub fn new(vocabulary: &'a Vocabulary, finder: &'a Finder) -> Self {
        Self { vocabulary, finder, stops: vocabulary.language().stop_words() }
    }

    /// The pieces of a recording that fit, in order of time.
    pub fn offers(&self, line: &Line) -> Vec<Offer> {
        let piece = |(base, id): (&Base, u32)| {
            (Piece { id, samples: base.start..base.end }, Heard { words: base.words.clone() })
        };
        let pieces = line.pieces.iter().zip(0..).map(piece).collect();
        let fit = parts(pieces, self.finder).into_iter().filter(|part| part.stays.is_none());
        let offer = |part: Part| {
            let (piece, words) = (part.piece, part.offline.words);
            let word = match self.vocabulary.held(&words) {
                Held::Nothing => None,
                Held::One(word) => Some(word),
                Held::Several => return None,
            };
            let length = Length::of(&words, &self.stops);
            Some(Offer { recording: line.recording, start: piece.samples.start, end: piece.samples.end, word, length })
        };
        fit.filter_map(offer).collect()
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Pieces, at most as many of each word as were asked for: of more each is as likely as any other.
    pub drawn: Vec<Offer>,
    /// How many there are of each word of the vocabulary, then of those without any.
    pub there: Vec<u32>,
}

impl Found {
    /// The words of which there are fewer than `needed`; one beyond the last stands for none.
    pub fn short(&self, needed: u32) -> Vec<u32> {
        (0_u32..).zip(&self.there).filter(|(_, there)| **there < needed).map(|(word, _)| word).collect()
    }
}

/// Looks through the lines of an index for pieces that were not `used`, leaves out the recordings whose digests are `without`, and
/// draws `most` of each word. In memory are those that are drawn.
///
/// # Errors
/// The first of the lines.
pub fn find<E>(
    lines: impl Iterator<Item = Result<Line, E>>,
    sieve: &Sieve<'_>,
    used: &Used,
    without: &HashSet<String, impl BuildHasher>,
    most: u32,
    rng: &mut impl Rng,
) -> Result<Found, E> {
    let kinds = sieve.vocabulary.len() as usize + 1;
    let mut drawn: Vec<Vec<Offer>> = vec![Vec::new(); kinds];
    let mut there = vec![0_u32; kinds];
    // A file that is there twice is one recording.
    let mut seen: HashSet<String> = HashSet::new();
    for line in lines {
        let line = line?;
        if without.contains(&line.digest) || !seen.insert(line.digest.clone()) {
            continue;
        }
        for offer in sieve.offers(&line) {
            if used.has(&line.digest, offer.start..offer.end) {
                continue;
            }
            let kind = offer.word.map_or(kinds - 1, |word| word as usize);
            there[kind] = there[kind].saturating_add(1);
            // Of n, each is among the drawn with a chance of most/n (Vitter 1985, algorithm R).
            let of_word = &mut drawn[kind];
            if of_word.len() < most as usize {
                of_word.push(offer);
            } else if let Some(place) = of_word.get_mut(below(there[kind], rng) as usize) {
                *place = offer;
            }
        }
    }
    Ok(Found { drawn: drawn.concat(), there })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::super::RecordedError;
    use super::super::fixture::{finder, line, vocabulary};
    use super::*;

    fn found(lines: &[Line], used: &Used, without: &[&str], most: u32, seed: u64) -> Found {
        let (vocabulary, finder) = (vocabulary(), finder());
        let sieve = Sieve::new(&vocabulary, &finder);
        let without: std::collections::HashSet<String> = without.iter().map(|digest| (*digest).to_owned()).collect();
        let lines = lines.iter().cloned().map(Ok::<_, RecordedError>);
        find(lines, &sieve, used, &without, most, &mut ChaCha20Rng::seed_from_u64(seed)).unwrap()
    }

    #[test]
    fn a_piece_has_one_word_of_the_vocabulary_or_none() {
        // "medicine" and "window" are the vocabulary.
        let line = line(0, &["the medicine was", "by the window", "nobody came back", "medicine"]);
        let (vocabulary, finder) = (vocabulary(), finder());
        let offers = Sieve::new(&vocabulary, &finder).offers(&line);
        let words: Vec<Option<u32>> = offers.iter().map(|offer| offer.word).collect();
        let number = |word| vocabulary.number(word);
        assert_eq!(words, [number("medicine"), number("window"), None, number("medicine")]);
        assert!(offers.windows(2).all(|pair| pair[0].end <= pair[1].start), "{offers:?}");
        assert_eq!(offers[2].length, Length { words: 3, content: 1 });
    }

    #[test]
    fn what_a_true_piece_never_has_no_dummy_has() {
        // A number, a name, two words of the vocabulary, and nothing.
        let mut silent = line(0, &["nobody came"]);
        silent.pieces[0].words.clear();
        let phrases = ["twenty medicine", "doctor miller spoke", "medicine window"];
        for line in phrases.map(|phrase| line(0, &[phrase])).into_iter().chain([silent]) {
            let found = found(&[line], &Used::default(), &[], 9, 1);
            assert_eq!((found.drawn, found.there), (vec![], vec![0, 0, 0]));
        }
    }

    #[test]
    fn pieces_that_were_used_recordings_that_are_transcribed_and_second_copies_are_left_out() {
        let lines: Vec<Line> = (0..4).map(|number| line(number, &["medicine", "window"])).collect();
        let all = found(&lines, &Used::default(), &[], 9, 1);
        assert_eq!(all.there, [4, 4, 0]);
        let first = lines[0].pieces[0].start;
        let used = Used::of([(lines[0].digest.clone(), first + 10..first + 20)]);
        let medicine = vocabulary().number("medicine").unwrap() as usize;
        let found_fewer = found(&lines, &used, &[lines[1].digest.as_str()], 9, 1);
        assert_eq!((found_fewer.there[medicine], found_fewer.there[1 - medicine]), (2, 3));
        let mut twice = lines.clone();
        twice[3].digest = twice[2].digest.clone();
        assert_eq!(found(&twice, &Used::default(), &[], 9, 1).there, [3, 3, 0]);
        assert_eq!(all.short(4), [2]);
        assert_eq!(all.short(5), [0, 1, 2]);
    }

    #[test]
    fn of_more_than_are_asked_for_each_is_drawn_as_often() {
        let lines: Vec<Line> = (0..10).map(|number| line(number, &["medicine"])).collect();
        let mut times = [0_u32; 10];
        for seed in 0..2_000 {
            let found = found(&lines, &Used::default(), &[], 3, seed);
            assert_eq!((found.drawn.len(), found.there.iter().sum::<u32>()), (3, 10));
            found.drawn.iter().for_each(|offer| times[offer.recording as usize] += 1);
        }
        // 600 each, with a deviation of 20.
        assert!(times.iter().all(|times| times.abs_diff(600) < 110), "{times:?}");
    }
}
