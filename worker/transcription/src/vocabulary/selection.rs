//! Chooses words of a public list of candidates from first transcripts, with noise.
//!
//! Each piece that leaves votes for one candidate: of the candidates among its words, the one of greatest public weight; a fair
//! draw decides among equal weights. Each candidate's votes get discrete Laplace noise of rate ε/d, rounded down to a multiple of
//! 2⁻³² nat, which [`DiscreteLaplace`] draws exactly. The m candidates with the largest products of noisy votes and weight are
//! chosen, m whatever was said. The choice is ε-private for recordings whose pieces that leave differ by at most d, added and
//! removed together; [`undertone_api::job::transcription::vocabulary`] has the proof.
//!
//! A candidate keeps the forms of the public list: the spoken forms are not disclosed.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use rand_chacha::rand_core::Rng;
use undertone_privacy::Epsilon;
use undertone_worker_training::noise::{DiscreteLaplace, below};
use undertone_worker_training::randomness::{Purpose, Randomness};

use super::language::{StemmingLanguage, normal};
use super::{BaselineCounts, Vocabulary, VocabularyError, VocabularyOrigin, WordList};
use crate::piece::Recognition;

/// Parameters of a choice with noise.
#[derive(Debug, Clone, Copy)]
pub struct WordSelection<'a> {
    /// m: the number of chosen words; all candidates if there are not more.
    pub choose: u32,
    /// ε of the choice.
    pub epsilon: Epsilon,
    /// d: the most pieces that leave, added and removed together, by which neighbouring recordings differ.
    pub distance: NonZeroU32,
    /// The candidates.
    pub candidates: &'a WordList,
    /// Frequencies in a public corpus, for choosing words that are more frequent than there; `None` to choose the most frequent
    /// words.
    pub corpus: Option<&'a BaselineCounts>,
    /// A public list in addition. Its words are in the vocabulary, and are no candidates.
    pub list: Option<&'a WordList>,
}

impl WordSelection<'_> {
    /// Returns the noise of one candidate's votes; its rate times d is at most ε.
    fn noise(&self) -> Result<DiscreteLaplace, VocabularyError> {
        let refusal = || VocabularyError::Choice { field: "epsilon", reason: "between 0.01 and 50" };
        if !(0.01..=50.0).contains(&self.epsilon.get()) {
            return Err(refusal());
        }
        // Exact: a product with a power of two, and a division of integers.
        let whole = (self.epsilon.get() * DiscreteLaplace::DENOMINATOR as f64).floor() as u64;
        let numerator = whole / u64::from(self.distance.get());
        DiscreteLaplace::new(numerator as f64 / DiscreteLaplace::DENOMINATOR as f64).ok_or_else(refusal)
    }
}

/// A stem among the candidates.
struct CandidateStem {
    stem: String,
    forms: BTreeSet<String>,
    /// The public value of a vote, at least 0.
    weight: f64,
    votes: i64,
}

/// Returns the vocabulary of the chosen words and of the list. `pieces` are the words of each piece that leaves.
///
/// # Errors
/// [`VocabularyError`] for parameters out of range, or when no word remains or there are too many.
///
/// # Panics
/// If `randomness` is for another purpose than [`Purpose::Vocabulary`].
pub fn select_words<'a>(
    language: StemmingLanguage,
    pieces: impl Iterator<Item = &'a Recognition>,
    selection: &WordSelection<'_>,
    randomness: &Randomness,
) -> Result<Vocabulary, VocabularyError> {
    assert_eq!(randomness.purpose(), Purpose::Vocabulary, "the randomness of a choice of words");
    let noise = selection.noise()?;
    let mut forms = selection.list.map(|list| list.stems(language)).unwrap_or_default();
    let weight = |stem: &str| selection.corpus.map_or(1.0, |corpus| corpus.idf(stem));
    let stems = selection.candidates.stems(language).into_iter().filter(|(stem, _)| !forms.contains_key(stem));
    let mut candidates: Vec<CandidateStem> =
        stems.map(|(stem, forms)| CandidateStem { weight: weight(&stem), stem, forms, votes: 0 }).collect();
    count_votes(language, pieces, &mut candidates, randomness);
    choose_candidates(&mut candidates, selection.choose, noise, &mut randomness.stream(1));
    forms.extend(candidates.into_iter().map(|candidate| (candidate.stem, candidate.forms)));
    let origin = VocabularyOrigin::Selected {
        epsilon: selection.epsilon,
        candidates: selection.candidates.digest(),
        list: selection.list.map(WordList::digest),
    };
    Vocabulary::new(language, forms, origin)
}

/// Keeps the `choose` candidates with the largest products of noisy votes and weight.
fn choose_candidates(candidates: &mut Vec<CandidateStem>, choose: u32, noise: DiscreteLaplace, rng: &mut impl Rng) {
    for candidate in candidates.iter_mut() {
        candidate.votes = candidate.votes.saturating_add(noise.sample(rng));
    }
    let score = |candidate: &CandidateStem| candidate.votes as f64 * candidate.weight;
    // The sort is stable: candidates with equal scores stay in the order of their stems, which is public.
    candidates.sort_by(|one, other| score(other).total_cmp(&score(one)));
    candidates.truncate(choose as usize);
}

/// Adds the vote of each piece. `candidates` are in the order of their stems.
fn count_votes<'a>(
    language: StemmingLanguage,
    pieces: impl Iterator<Item = &'a Recognition>,
    candidates: &mut [CandidateStem],
    randomness: &Randomness,
) {
    let places: BTreeMap<String, usize> =
        candidates.iter().enumerate().map(|(place, candidate)| (candidate.stem.clone(), place)).collect();
    let mut rng = randomness.stream(0);
    for piece in pieces {
        let words = piece.words.iter().flat_map(|word| word.text.split_whitespace()).filter_map(normal);
        let present: BTreeSet<usize> = words.filter_map(|word| places.get(&language.stem(&word)).copied()).collect();
        let greatest = present.iter().map(|place| candidates[*place].weight).fold(f64::NEG_INFINITY, f64::max);
        let best: Vec<usize> = present.into_iter().filter(|place| candidates[*place].weight >= greatest).collect();
        if !best.is_empty() {
            candidates[best[below(best.len() as u32, &mut rng) as usize]].votes += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::piece::TimedWord;
    use crate::vocabulary::WordDisclosure;

    const CANDIDATES: &str = "insulin\nwindow\nwindows\ngarden\nthe\nsurgery\ntumour\n";

    fn pieces(texts: &[(&str, usize)]) -> Vec<Recognition> {
        let word = |text: &str| TimedWord { text: text.to_owned(), start: 0.0, end: 0.1, confidence: None };
        let piece = |text: &str| Recognition { words: text.split_whitespace().map(word).collect() };
        texts.iter().flat_map(|(text, count)| std::iter::repeat_n(*text, *count)).map(piece).collect()
    }

    fn english() -> StemmingLanguage {
        StemmingLanguage::new("en").unwrap()
    }

    /// Returns the first forms of the chosen words.
    fn choose(pieces: &[Recognition], selection: &WordSelection<'_>) -> Vec<String> {
        let randomness = Randomness::from_os(Purpose::Vocabulary);
        let vocabulary = select_words(english(), pieces.iter(), selection, &randomness).unwrap();
        assert_eq!(vocabulary.disclosure(), WordDisclosure::Selected(selection.epsilon));
        (0..vocabulary.len()).map(|word| vocabulary.forms(word)[0].clone()).collect()
    }

    fn selection(candidates: &WordList, epsilon: f64, distance: u32) -> WordSelection<'_> {
        WordSelection {
            choose: 2,
            epsilon: Epsilon::new(epsilon).unwrap(),
            distance: NonZeroU32::new(distance).unwrap(),
            candidates,
            corpus: None,
            list: None,
        }
    }

    #[test]
    fn most_voted_candidates_are_chosen_with_their_public_forms() {
        let candidates = WordList::parse(CANDIDATES).unwrap();
        // With noise of deviation 0.1 pieces the choice is certain, except with a probability below 10⁻⁸⁰.
        let all = selection(&candidates, 50.0, 1);
        let said = pieces(&[("a window", 90), ("Insulin", 60), ("garden the", 20), ("zebra", 200), ("the", 300)]);
        assert_eq!(choose(&said, &all), ["insulin", "window"]);
        let forms = select_words(english(), said.iter(), &all, &Randomness::from_os(Purpose::Vocabulary)).unwrap();
        assert_eq!(forms.forms(1), ["window", "windows"], "the list's forms, said or not");
        let list = WordList::parse("insulin\nzebra\n").unwrap();
        let added = WordSelection { list: Some(&list), choose: 1, ..all };
        assert_eq!(choose(&said, &added), ["insulin", "window", "zebra"], "a listed word is no candidate");
        let most = WordSelection { choose: 9, ..all };
        assert_eq!(choose(&said, &most).len(), 5, "two forms are one word, and a stop word is none");
    }

    #[test]
    fn public_weights_decide_the_vote_and_the_score() {
        let candidates = WordList::parse(CANDIDATES).unwrap();
        // Of ten documents nine have `window`, and one has `insulin`.
        let texts: Vec<&str> = std::iter::repeat_n("window", 9).chain(["insulin"]).collect();
        let corpus = BaselineCounts::count(texts, english());
        let weighted = WordSelection { corpus: Some(&corpus), choose: 1, ..selection(&candidates, 50.0, 1) };
        let said = pieces(&[("window", 300), ("insulin window", 60)]);
        assert_eq!(choose(&said, &weighted), ["insulin"], "60 votes of weight 1.7, against 300 of weight 0.1");
        assert_eq!(choose(&said, &WordSelection { corpus: None, ..weighted }), ["window"]);
    }

    #[test]
    fn choice_of_neighbours_keeps_the_ratio() {
        // Two candidates, ε = 0.5 at d = 4: four exchanged votes change the odds of a choice by at most e^0.5.
        let list = WordList::parse("insulin\nwindow\n").unwrap();
        let noise = selection(&list, 0.5, 4).noise().unwrap();
        let mut rng = Randomness::from_os(Purpose::Vocabulary).stream(1);
        let mut chance = |insulin: i64, window: i64| {
            let candidate = |(stem, votes): (&str, i64)| CandidateStem {
                stem: stem.to_owned(),
                forms: BTreeSet::new(),
                weight: 1.0,
                votes,
            };
            let mut draw = || {
                let mut all: Vec<_> = [("insulin", insulin), ("window", window)].map(candidate).into();
                choose_candidates(&mut all, 1, noise, &mut rng);
                all[0].stem == "insulin"
            };
            (0..100_000).filter(|_| draw()).count() as f64 / 100_000.0
        };
        let (less, more) = (chance(10, 12), chance(12, 10));
        assert!(more > less + 0.05, "{less} {more}: the choice depends on the votes");
        // Six standard errors: each frequency has one of at most 0.0016.
        let error = 6.0 * 0.0016 * 2.0;
        assert!(more - less * 0.5_f64.exp() < error, "{less} {more}");
        assert!((1.0 - less) - (1.0 - more) * 0.5_f64.exp() < error, "{less} {more}");
    }

    #[test]
    fn rate_times_distance_is_at_most_epsilon() {
        let candidates = WordList::parse(CANDIDATES).unwrap();
        for (epsilon, distance) in [(0.01, 10_000), (0.3, 10), (1.0, 3), (50.0, 7), (0.1, 1)] {
            let rate = selection(&candidates, epsilon, distance).noise().unwrap().rate();
            assert!(rate * f64::from(distance) <= epsilon && rate * f64::from(distance) > 0.999 * epsilon, "{rate}");
        }
        for epsilon in [0.0, 0.009, 50.1] {
            assert!(selection(&candidates, epsilon, 10).noise().is_err(), "{epsilon}");
        }
    }
}
