//! The pieces of recorded speech that may be dummies for one vocabulary, and the random sample that a job reserves.
//!
//! A piece qualifies as a dummy by the rules by which a piece of a recording may leave: at most one vocabulary word, nothing
//! sensitive, at least one recognized word. A dummy with a name in it would be recognizable, because no true piece has a name.

use std::collections::{BTreeSet, HashSet};
use std::hash::BuildHasher;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::index::{IndexLine, IndexedPiece};
use super::used_pieces::UsedPieces;
use crate::dummy::PhraseLength;
use crate::parts::parts;
use crate::piece::{Piece, Recognition};
use crate::sensitive::SensitiveFinder;
use crate::transcript::TranscriptPart;
use crate::vocabulary::{PieceWords, Vocabulary};
use undertone_worker_training::noise::below;

/// A piece that may be a dummy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PieceOffer {
    /// Number of its recording in the accompanying list.
    pub recording: u32,
    /// First sample.
    pub start: u64,
    /// Sample after the last.
    pub end: u64,
    /// The vocabulary word that it carries; `None` for a piece without one.
    pub word: Option<u32>,
    /// Length in words.
    pub length: PhraseLength,
}

/// Selects qualifying pieces.
pub struct OfferFilter<'a> {
    vocabulary: &'a Vocabulary,
    finder: &'a SensitiveFinder,
    stops: BTreeSet<String>,
}

impl<'a> OfferFilter<'a> {
    /// Creates a filter for a vocabulary that excludes sensitive pieces.
    pub fn new(vocabulary: &'a Vocabulary, finder: &'a SensitiveFinder) -> Self {
        Self { vocabulary, finder, stops: vocabulary.language().stop_words() }
    }

    /// Returns the qualifying pieces of a recording, in order of time.
    pub fn offers(&self, line: &IndexLine) -> Vec<PieceOffer> {
        let piece = |(base, id): (&IndexedPiece, u32)| {
            (Piece { id, samples: base.start..base.end }, Recognition { words: base.words.clone() })
        };
        let pieces = line.pieces.iter().zip(0..).map(piece).collect();
        let fit = parts(pieces, self.finder).into_iter().filter(|part| part.stays.is_none());
        let offer = |part: TranscriptPart| {
            let (piece, words) = (part.piece, part.offline.words);
            let word = match self.vocabulary.classify(&words) {
                PieceWords::Nothing => None,
                PieceWords::One(word) => Some(word),
                PieceWords::Several => return None,
            };
            let length = PhraseLength::from_words(&words, &self.stops);
            Some(PieceOffer {
                recording: line.recording,
                start: piece.samples.start,
                end: piece.samples.end,
                word,
                length,
            })
        };
        fit.filter_map(offer).collect()
    }
}

/// A random sample of the qualifying pieces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferSample {
    /// The sampled pieces, at most the requested number for each word; of more, all are equally likely.
    pub drawn: Vec<PieceOffer>,
    /// Number of qualifying pieces of each vocabulary word, then of those without one.
    pub there: Vec<u32>,
}

impl OfferSample {
    /// Returns the words with fewer than `needed` pieces; the index after the last word stands for no word.
    pub fn short(&self, needed: u32) -> Vec<u32> {
        (0_u32..).zip(&self.there).filter(|(_, there)| **there < needed).map(|(word, _)| word).collect()
    }
}

/// Searches the lines of an index for pieces that were not `used`, skips the recordings whose digests are in `without`, and
/// samples `most` pieces of each word. Memory holds the sampled pieces.
///
/// # Errors
/// The first error of the lines.
pub fn find<E>(
    lines: impl Iterator<Item = Result<IndexLine, E>>,
    sieve: &OfferFilter<'_>,
    used: &UsedPieces,
    without: &HashSet<String, impl BuildHasher>,
    most: u32,
    rng: &mut impl Rng,
) -> Result<OfferSample, E> {
    let kinds = sieve.vocabulary.len() as usize + 1;
    let mut samples: Vec<Vec<PieceOffer>> = vec![Vec::new(); kinds];
    let mut there = vec![0_u32; kinds];
    // A duplicate file counts as one recording.
    let mut digests: HashSet<String> = HashSet::new();
    for line in lines {
        let line = line?;
        if without.contains(&line.digest) || !digests.insert(line.digest.clone()) {
            continue;
        }
        for offer in sieve.offers(&line) {
            if used.has(&line.digest, offer.start..offer.end) {
                continue;
            }
            let kind = offer.word.map_or(kinds - 1, |word| word as usize);
            there[kind] = there[kind].saturating_add(1);
            // Of n, each is sampled with probability most/n (Vitter 1985, algorithm R).
            let of_word = &mut samples[kind];
            if of_word.len() < most as usize {
                of_word.push(offer);
            } else if let Some(place) = of_word.get_mut(below(there[kind], rng) as usize) {
                *place = offer;
            }
        }
    }
    Ok(OfferSample { drawn: samples.concat(), there })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::super::RecordedError;
    use super::super::fixture::{finder, line, vocabulary};
    use super::*;

    fn find_offers(lines: &[IndexLine], used: &UsedPieces, without: &[&str], most: u32, seed: u64) -> OfferSample {
        let vocabulary = vocabulary();
        let finder = finder();
        let sieve = OfferFilter::new(&vocabulary, &finder);
        let without: std::collections::HashSet<String> = without.iter().map(|digest| (*digest).to_owned()).collect();
        let lines = lines.iter().cloned().map(Ok::<_, RecordedError>);
        find(lines, &sieve, used, &without, most, &mut ChaCha20Rng::seed_from_u64(seed)).unwrap()
    }

    #[test]
    fn offers_have_one_vocabulary_word_or_none() {
        // "medicine" and "window" are the vocabulary.
        let line = line(0, &["the medicine was", "by the window", "nobody came back", "medicine"]);
        let vocabulary = vocabulary();
        let finder = finder();
        let offers = OfferFilter::new(&vocabulary, &finder).offers(&line);
        let words: Vec<Option<u32>> = offers.iter().map(|offer| offer.word).collect();
        let number = |word| vocabulary.number(word);
        assert_eq!(words, [number("medicine"), number("window"), None, number("medicine")]);
        assert!(offers.windows(2).all(|pair| pair[0].end <= pair[1].start), "{offers:?}");
        assert_eq!(offers[2].length, PhraseLength { words: 3, content: 1 });
    }

    #[test]
    fn offers_exclude_content_that_true_pieces_lack() {
        // A number, a name, two vocabulary words, and nothing.
        let mut silent = line(0, &["nobody came"]);
        silent.pieces[0].words.clear();
        let phrases = ["twenty medicine", "doctor miller spoke", "medicine window"];
        for line in phrases.map(|phrase| line(0, &[phrase])).into_iter().chain([silent]) {
            let sample = find_offers(&[line], &UsedPieces::default(), &[], 9, 1);
            assert_eq!((sample.drawn, sample.there), (vec![], vec![0, 0, 0]));
        }
    }

    #[test]
    fn used_pieces_transcribed_recordings_and_copies_are_skipped() {
        let lines: Vec<IndexLine> = (0..4).map(|number| line(number, &["medicine", "window"])).collect();
        let all = find_offers(&lines, &UsedPieces::default(), &[], 9, 1);
        assert_eq!(all.there, [4, 4, 0]);
        let first = lines[0].pieces[0].start;
        let used = UsedPieces::from_spans([(lines[0].digest.clone(), first + 10..first + 20)]);
        let medicine = vocabulary().number("medicine").unwrap() as usize;
        let fewer = find_offers(&lines, &used, &[lines[1].digest.as_str()], 9, 1);
        assert_eq!((fewer.there[medicine], fewer.there[1 - medicine]), (2, 3));
        let mut twice = lines.clone();
        twice[3].digest = twice[2].digest.clone();
        assert_eq!(find_offers(&twice, &UsedPieces::default(), &[], 9, 1).there, [3, 3, 0]);
        assert_eq!(all.short(4), [2]);
        assert_eq!(all.short(5), [0, 1, 2]);
    }

    #[test]
    fn offers_are_sampled_uniformly() {
        let lines: Vec<IndexLine> = (0..10).map(|number| line(number, &["medicine"])).collect();
        let mut times = [0_u32; 10];
        for seed in 0..2_000 {
            let sample = find_offers(&lines, &UsedPieces::default(), &[], 3, seed);
            assert_eq!((sample.drawn.len(), sample.there.iter().sum::<u32>()), (3, 10));
            sample.drawn.iter().for_each(|offer| times[offer.recording as usize] += 1);
        }
        // 600 each, with a standard deviation of 20.
        assert!(times.iter().all(|times| times.abs_diff(600) < 110), "{times:?}");
    }
}
