//! What dummies say: short phrases that carry the word they were drawn for and no other of the vocabulary.
//!
//! A phrase is made around its word by a small model of a language (`ngram`). The corpus of that model is spoken to providers in
//! parts, so it must be one that anybody may have; never transcripts of the recording. A little public-domain text is here for a
//! start ([`ngram::Corpus::bundled`]); a corpus of the field makes better dummies.
//!
//! Lengths are public ([`Lengths::public`]): those of the true pieces would tell each provider how long the pieces are that others
//! hear.
//!
//! Dummies that people recorded say what they say: of those no text is made, and lengths decide which are taken
//! ([`recorded`](super::recorded)).
//!
//! The texts are drawn once, like the plan, and kept with it. They are for providers, yet which text is a dummy is a secret
//! of the site; no text is printed or logged here.

pub mod ngram;

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use rand_chacha::rand_core::Rng;
use serde::{Deserialize, Serialize};

use super::piece::Word;
use super::plan::Plan;
use super::vocabulary::Vocabulary;
use super::vocabulary::language::normal;
use crate::dp::noise::below;
use crate::dp::randomness::{Purpose, Randomness};
use ngram::{Corpus, Kind, Model};

/// Longest phrase, words: so many are said within the longest piece, 4.5 s, at the fastest rate of engines.
pub const MOST_WORDS: u32 = 24;
/// Words of a window of read or spontaneous speech, 130 to 190 a minute with pauses in between: 3 s hold some 7, a window of 1.5 s or with
/// a pause fewer, one of 4.5 s more. About half of the words of English are stop words. Public, and the same for every recording.
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
/// How often another phrase is tried before one may be said twice.
const TRIES: usize = 20;

/// How long a phrase is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Length {
    /// Words, 1 to 24.
    pub words: u32,
    /// Of these, at most so many that are no stop words, at least 1.
    pub content: u32,
}

/// The lengths that are drawn from, each as often as it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lengths(Vec<Length>);

/// The text of a dummy.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Text {
    /// The dummy's number in the plan.
    pub number: u32,
    /// What it says, in lower case.
    pub text: String,
}

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum DummyError {
    /// Randomness that was made for something else.
    #[error("dummies are drawn with randomness of their own, not with that of {0:?}")]
    Purpose(Purpose),
    /// No length, or one that cannot be.
    #[error("lengths: at least one, of 1 to {MOST_WORDS} words and at least 1 of content")]
    Lengths,
    /// A corpus of which nothing is left.
    #[error("corpus: no stop word and no other word outside the vocabulary is in it; give a longer text")]
    Corpus,
    /// A corpus that is too long.
    #[error("corpus: {0} bytes, at most {most}", most = ngram::MOST_BYTES)]
    CorpusSize(usize),
    /// A plan with another vocabulary.
    #[error("the plan has dummies of word {0}, which is not in the vocabulary")]
    Word(u32),
}

impl Length {
    /// That of a piece with these words, of which `stops` are stop words. Without a word it counts as one.
    pub fn of(words: &[Word], stops: &BTreeSet<String>) -> Self {
        let words: Vec<String> =
            words.iter().flat_map(|word| word.text.split_whitespace()).filter_map(normal).collect();
        let content = words.iter().filter(|word| !stops.contains(*word)).count() as u32;
        Self { words: (words.len() as u32).clamp(1, MOST_WORDS), content: content.clamp(1, MOST_WORDS) }
    }
}

impl Lengths {
    /// Returns the lengths of the dummies of every job: none of them is a recording's.
    pub fn public() -> Self {
        Self(USUAL.into_iter().map(|(words, content)| Length { words, content }).collect())
    }

    /// These, for measurements.
    ///
    /// # Errors
    /// [`DummyError::Lengths`] when there is none, or one out of range.
    pub fn stated(lengths: Vec<Length>) -> Result<Self, DummyError> {
        let fits = |length: &Length| (1..=MOST_WORDS).contains(&length.words) && length.content >= 1;
        if lengths.is_empty() || !lengths.iter().all(fits) { Err(DummyError::Lengths) } else { Ok(Self(lengths)) }
    }

    /// The most words that are no stop words.
    pub fn most_content(&self) -> u32 {
        self.0.iter().map(|length| length.content).max().unwrap_or(1)
    }

    /// One of them.
    pub(super) fn draw(&self, rng: &mut impl Rng) -> Length {
        self.0[below(self.0.len() as u32, rng) as usize]
    }
}

/// Says how long it is and never what it says.
impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Text({}, {} bytes)", self.number, self.text.len())
    }
}

/// The texts of all dummies of a plan, in the order of their numbers.
///
/// # Errors
/// [`DummyError`] when the corpus has nothing to say or the plan is of another vocabulary.
pub fn write(
    plan: &Plan,
    vocabulary: &Vocabulary,
    corpus: &Corpus,
    lengths: &Lengths,
    randomness: &Randomness,
) -> Result<Vec<Text>, DummyError> {
    if randomness.purpose() != Purpose::Dummies {
        return Err(DummyError::Purpose(randomness.purpose()));
    }
    let author = Author::new(vocabulary, corpus)?;
    let mut rng = randomness.stream(0);
    let mut said = HashSet::new();
    let write = |dummy: super::plan::Dummy| {
        let mut text = author.phrase(dummy.word, lengths.draw(&mut rng), &mut rng)?;
        for _ in 0..TRIES {
            if said.insert(text.clone()) {
                break;
            }
            // A length of one word has few phrases; another length has more.
            text = author.phrase(dummy.word, lengths.draw(&mut rng), &mut rng)?;
        }
        Ok(Text { number: dummy.number, text })
    };
    plan.dummies().map(write).collect()
}

/// Makes phrases for one vocabulary.
struct Author<'a> {
    vocabulary: &'a Vocabulary,
    model: Model,
}

impl<'a> Author<'a> {
    fn new(vocabulary: &'a Vocabulary, corpus: &Corpus) -> Result<Self, DummyError> {
        let stops: BTreeSet<String> = vocabulary.language().stop_words();
        let kind = |word: &str| match (vocabulary.number(word), stops.contains(word)) {
            // A form of a word of the vocabulary is one even where it is a stop word by itself.
            (Some(_), _) => Kind::Never,
            (None, true) => Kind::Stop,
            (None, false) => Kind::Content,
        };
        let model = Model::train(corpus, kind).ok_or(DummyError::Corpus)?;
        Ok(Self { vocabulary, model })
    }

    /// A phrase around a word at a place that chance gives it; one without, around a word of the corpus.
    fn phrase(&self, word: Option<u32>, length: Length, rng: &mut impl Rng) -> Result<String, DummyError> {
        let place = below(length.words, rng);
        let mut budget = length.content;
        let around = match word {
            Some(number) => {
                let forms = self.vocabulary.forms(number);
                if forms.is_empty() {
                    return Err(DummyError::Word(number));
                }
                budget -= 1;
                forms[below(forms.len() as u32, rng) as usize].clone()
            }
            None => self.model.any(&mut budget, rng).to_owned(),
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for _ in 0..place {
            let next = self.model.before(&around, &before, &mut budget, rng);
            before.push(next);
        }
        for _ in place + 1..length.words {
            let next = self.model.after(before.first().copied(), &around, &after, &mut budget, rng);
            after.push(next);
        }
        let words: Vec<&str> = before.into_iter().rev().chain([around.as_str()]).chain(after).collect();
        Ok(words.join(" "))
    }
}

#[cfg(test)]
mod tests;
