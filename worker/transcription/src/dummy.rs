//! Texts of dummies: short phrases that carry the word they were drawn for and no other vocabulary word.
//!
//! A small language model generates a phrase around its word ([`author`]). Providers receive parts of its corpus as speech, so the
//! corpus must be one that anyone may have, never transcripts of the recording. A short public text is bundled
//! ([`corpus::TextCorpus::bundled`]); a corpus of the field makes better dummies.
//!
//! Lengths are public ([`PhraseLengths::public`]): lengths of the true pieces would reveal to each provider the lengths of pieces
//! that other providers receive.
//!
//! For dummies from recorded speech no text is generated; lengths decide which pieces are taken
//! ([`recorded`](super::recorded)).
//!
//! The texts are drawn once, like the plan, and stored with it. Providers receive their speech, but the site keeps secret which
//! texts are dummies; this module prints and logs no text.

pub mod author;
pub mod corpus;
mod kneser_ney;

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::piece::TimedWord;
use super::plan::Plan;
use super::vocabulary::Vocabulary;
use super::vocabulary::language::normal;
use author::PhraseAuthor;
use corpus::{TextCorpus, WordFrequencies};
use undertone_worker_training::noise::below;
use undertone_worker_training::randomness::{Purpose, Randomness};

/// Longest phrase in words: so many fit into the longest piece, 4.5 s, at the fastest rate of engines.
pub const MOST_WORDS: u32 = 24;
/// Lengths of windows of read or spontaneous speech, in words. At 130 to 190 words a minute with pauses, 3 s hold about 7 words, a window
/// of 1.5 s or with a pause fewer, one of 4.5 s more. About half of the words of English are stop words. Public, and the same for every recording.
const USUAL: [(u32, u32); 20] = [
    (2, 1),
    (3, 1),
    (3, 2),
    (4, 2),
    (4, 3),
    (5, 2),
    (5, 3),
    (6, 3),
    (6, 4),
    (7, 3),
    (7, 3),
    (7, 4),
    (8, 3),
    (8, 4),
    (8, 5),
    (9, 4),
    (9, 5),
    (10, 5),
    (11, 5),
    (12, 6),
];
/// Attempts at a new phrase before a phrase may be repeated.
const TRIES: usize = 20;

/// Length of a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhraseLength {
    /// Words, 1 to 24.
    pub words: u32,
    /// Largest number of content words (no stop words) among these, at least 1. Recorded pieces are chosen by it; the language model
    /// decides by itself how many words of a generated phrase are content words.
    pub content: u32,
}

/// The lengths to draw from, each as often as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhraseLengths(Vec<PhraseLength>);

/// The text of a dummy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DummyText {
    /// The dummy's number in the plan.
    pub number: u32,
    /// The text, in lower case.
    pub text: String,
}

/// Reasons that there are no texts.
#[derive(Debug, thiserror::Error)]
pub enum DummyError {
    /// The randomness has another purpose.
    #[error("dummies are drawn with randomness of their own, not with that of {0:?}")]
    Purpose(Purpose),
    /// There is no length, or one is out of range.
    #[error("lengths: at least one, of 1 to {MOST_WORDS} words and at least 1 of content")]
    Lengths,
    /// Nothing of the corpus can be used.
    #[error("corpus: no word outside the vocabulary is in it; give a longer text")]
    Corpus,
    /// The corpus is too long.
    #[error("corpus: {0} bytes, at most {most}", most = corpus::MOST_BYTES)]
    CorpusSize(usize),
    /// The plan has another vocabulary.
    #[error("the plan has dummies of word {0}, which is not in the vocabulary")]
    Word(u32),
}

impl PhraseLength {
    /// Returns the length of a piece with these words, of which `stops` are stop words. A piece without words counts as one word.
    pub fn from_words(words: &[TimedWord], stops: &BTreeSet<String>) -> Self {
        let words: Vec<String> =
            words.iter().flat_map(|word| word.text.split_whitespace()).filter_map(normal).collect();
        let content = words.iter().filter(|word| !stops.contains(*word)).count() as u32;
        Self { words: (words.len() as u32).clamp(1, MOST_WORDS), content: content.clamp(1, MOST_WORDS) }
    }
}

impl PhraseLengths {
    /// Returns the lengths of the dummies of every job: none of them is a recording's.
    pub fn public() -> Self {
        Self(USUAL.into_iter().map(|(words, content)| PhraseLength { words, content }).collect())
    }

    /// Builds given lengths, for measurements.
    ///
    /// # Errors
    /// [`DummyError::Lengths`] when there is none, or one is out of range.
    pub fn stated(lengths: Vec<PhraseLength>) -> Result<Self, DummyError> {
        let fits = |length: &PhraseLength| (1..=MOST_WORDS).contains(&length.words) && length.content >= 1;
        if lengths.is_empty() || !lengths.iter().all(fits) { Err(DummyError::Lengths) } else { Ok(Self(lengths)) }
    }

    /// Returns the largest number of content words.
    pub fn most_content(&self) -> u32 {
        self.0.iter().map(|length| length.content).max().unwrap_or(1)
    }

    /// Draws one length.
    pub fn draw(&self, rng: &mut impl Rng) -> PhraseLength {
        self.0[below(self.0.len() as u32, rng) as usize]
    }
}

/// Prints number and size, never the text.
impl fmt::Debug for DummyText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DummyText({}, {} bytes)", self.number, self.text.len())
    }
}

/// Writes the texts of all dummies of a plan, in the order of their numbers.
///
/// # Errors
/// [`DummyError`] when nothing of the corpus can be used or the plan has another vocabulary.
pub fn write(
    plan: &Plan,
    vocabulary: &Vocabulary,
    corpus: &TextCorpus,
    lengths: &PhraseLengths,
    randomness: &Randomness,
) -> Result<Vec<DummyText>, DummyError> {
    if randomness.purpose() != Purpose::Dummies {
        return Err(DummyError::Purpose(randomness.purpose()));
    }
    let author = PhraseAuthor::new(vocabulary, corpus, &WordFrequencies::bundled(vocabulary.language()))?;
    let mut rng = randomness.stream(0);
    let mut phrases = HashSet::new();
    let write = |dummy: super::plan::PlannedDummy| {
        let mut text = author.phrase(dummy.word, lengths.draw(&mut rng), &mut rng)?;
        for _ in 0..TRIES {
            if phrases.insert(text.clone()) {
                break;
            }
            // A length of one word has few phrases; another length has more.
            text = author.phrase(dummy.word, lengths.draw(&mut rng), &mut rng)?;
        }
        Ok(DummyText { number: dummy.number, text })
    };
    plan.dummies().map(write).collect()
}

#[cfg(test)]
mod tests;
