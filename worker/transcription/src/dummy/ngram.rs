//! A small language model: words after two words, and words before two words, with Witten and Bell's back-off.
//!
//! P(x | h) = (c(h x) + T(h) P(x | h′)) / (c(h) + T(h)), with T(h) the number of distinct words after h and h′ the history without
//! its farthest word (Witten and Bell 1991). A draw follows that sum: with probability c(h) / (c(h) + T(h)) it is one of the words
//! after h, otherwise a word after a shorter history. A forbidden word is drawn again, which does not change the distribution of
//! the others. The same model of the reversed text generates backwards.

use std::collections::HashMap;
use std::hash::Hash;

use rand_chacha::rand_core::Rng;

use super::DummyError;
use crate::vocabulary::language::normal;
use undertone_worker_training::noise::below;

/// Longest corpus, in bytes: 64 MiB.
pub const MOST_BYTES: usize = 64 << 20;
/// Number of draws before a stop word is drawn instead.
const TRIES: usize = 64;

/// A text that anyone may have.
#[derive(Clone, PartialEq, Eq)]
pub struct TextCorpus {
    sentences: Vec<Vec<String>>,
}

impl TextCorpus {
    /// Parses a text: sentences end with a full stop, a question mark, an exclamation mark or an empty line. Lines that begin with
    /// `#` are ignored, and so is every word with a digit, because digits can be read in several ways.
    ///
    /// # Errors
    /// [`DummyError::CorpusSize`] for more than 64 MiB.
    pub fn parse(text: &str) -> Result<Self, DummyError> {
        if text.len() > MOST_BYTES {
            return Err(DummyError::CorpusSize(text.len()));
        }
        let mut sentences = Vec::new();
        let mut open = Vec::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            if line.trim().is_empty() {
                sentences.push(std::mem::take(&mut open));
            }
            for token in line.split_whitespace() {
                open.extend(normal(token).filter(|word| word.chars().all(|sign| sign.is_alphabetic() || sign == '\'')));
                if token.ends_with(['.', '?', '!']) {
                    sentences.push(std::mem::take(&mut open));
                }
            }
        }
        sentences.push(open);
        sentences.retain(|sentence| !sentence.is_empty());
        Ok(Self { sentences })
    }

    /// Returns a short English text in the public domain.
    ///
    /// # Errors
    /// Never in practice; the same as [`TextCorpus::parse`].
    pub fn bundled() -> Result<Self, DummyError> {
        Self::parse(include_str!("english.txt"))
    }
}

/// Permitted use of a word of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordKind {
    /// Always.
    Stop,
    /// While the phrase may have further content words.
    Content,
    /// Never: it belongs to the vocabulary.
    Never,
}

/// Words by number, with their cumulative counts.
#[derive(Default)]
struct FollowerCounts {
    words: Vec<u32>,
    upto: Vec<u32>,
}

impl FollowerCounts {
    fn new(words: impl Iterator<Item = (u32, u32)>) -> Self {
        let mut followers = Self::default();
        for (word, count) in words {
            followers.words.push(word);
            followers.upto.push(followers.total() + count);
        }
        followers
    }

    fn total(&self) -> u32 {
        self.upto.last().copied().unwrap_or(0)
    }

    /// Draws one of the words by its count; there is at least one.
    fn draw(&self, rng: &mut impl Rng) -> u32 {
        let at = below(self.total(), rng);
        self.words[self.upto.partition_point(|upto| *upto <= at)]
    }
}

/// The transitions in one direction.
struct WordChain {
    pairs: HashMap<[u32; 2], FollowerCounts>,
    singles: HashMap<u32, FollowerCounts>,
}

/// A trained model.
pub struct NgramModel {
    words: Vec<String>,
    kinds: Vec<WordKind>,
    numbers: HashMap<String, u32>,
    forward: WordChain,
    backward: WordChain,
    all: FollowerCounts,
    stops: FollowerCounts,
}

impl NgramModel {
    /// Trains a model; `None` if the corpus has no stop word, or no permitted content word.
    pub fn train(corpus: &TextCorpus, kind: impl Fn(&str) -> WordKind) -> Option<Self> {
        let mut words: Vec<String> = corpus.sentences.iter().flatten().cloned().collect();
        words.sort_unstable();
        words.dedup();
        let numbers: HashMap<String, u32> = words.iter().cloned().zip(0..).collect();
        let kinds: Vec<WordKind> = words.iter().map(|word| kind(word)).collect();
        let sentences: Vec<Vec<u32>> =
            corpus.sentences.iter().map(|sentence| sentence.iter().map(|word| numbers[word]).collect()).collect();
        let mut counts = vec![0_u32; words.len()];
        for word in sentences.iter().flatten() {
            counts[*word as usize] += 1;
        }
        let of = |fits: &dyn Fn(WordKind) -> bool| {
            let fitting = (0_u32..).zip(&counts).filter(|(word, _)| fits(kinds[*word as usize]));
            FollowerCounts::new(fitting.map(|(word, count)| (word, *count)))
        };
        let (all, stops) = (of(&|kind| kind != WordKind::Never), of(&|kind| kind == WordKind::Stop));
        if stops.total() == 0 || all.total() == stops.total() {
            return None;
        }
        let forward = WordChain::new(&sentences);
        let reversed: Vec<Vec<u32>> =
            sentences.iter().map(|sentence| sentence.iter().rev().copied().collect()).collect();
        let backward = WordChain::new(&reversed);
        Some(Self { words, kinds, numbers, forward, backward, all, stops })
    }

    /// Draws any permitted word.
    pub fn draw_any(&self, budget: &mut u32, rng: &mut impl Rng) -> &str {
        self.draw_word(&self.forward, [None, None], budget, rng)
    }

    /// Draws a word before `around` and the words already put `before` it, the nearest first.
    pub fn draw_before(&self, around: &str, before: &[&str], budget: &mut u32, rng: &mut impl Rng) -> &str {
        self.draw_word(&self.backward, self.history(None, around, before), budget, rng)
    }

    /// Draws a word after `around` and the words already put `after` it, the nearest first; `left` is the word before `around`.
    pub fn draw_after(
        &self,
        left: Option<&str>,
        around: &str,
        after: &[&str],
        budget: &mut u32,
        rng: &mut impl Rng,
    ) -> &str {
        self.draw_word(&self.forward, self.history(left, around, after), budget, rng)
    }

    /// Returns the last two words, the farther first, by number if they are in the corpus.
    fn history(&self, farther: Option<&str>, around: &str, since: &[&str]) -> [Option<u32>; 2] {
        let (far, near) = match since {
            [] => (farther, around),
            [one] => (Some(around), *one),
            [.., far, near] => (Some(*far), *near),
        };
        [far, Some(near)].map(|word| word.and_then(|word| self.numbers.get(word).copied()))
    }

    /// Draws a permitted word after a history, with `budget` further content words.
    fn draw_word(&self, chain: &WordChain, history: [Option<u32>; 2], budget: &mut u32, rng: &mut impl Rng) -> &str {
        let fits = |word: u32| match self.kinds[word as usize] {
            WordKind::Stop => true,
            WordKind::Content => *budget > 0,
            WordKind::Never => false,
        };
        let candidate = (0..TRIES).map(|_| chain.draw(history, &self.all, rng)).find(|word| fits(*word));
        let word = candidate.unwrap_or_else(|| self.stops.draw(rng));
        if self.kinds[word as usize] == WordKind::Content {
            *budget -= 1;
        }
        &self.words[word as usize]
    }
}

impl WordChain {
    fn new(sentences: &[Vec<u32>]) -> Self {
        let triples = sentences.iter().flat_map(|sentence| sentence.array_windows().map(|[a, b, c]| ([*a, *b], *c)));
        let doubles = sentences.iter().flat_map(|sentence| sentence.array_windows().map(|[a, b]| (*a, *b)));
        Self { pairs: table(triples.collect()), singles: table(doubles.collect()) }
    }

    /// Draws a word after a history, by Witten and Bell's mixture.
    fn draw(&self, [far, near]: [Option<u32>; 2], all: &FollowerCounts, rng: &mut impl Rng) -> u32 {
        let pair = far.zip(near).and_then(|(far, near)| self.pairs.get(&[far, near]));
        let single = near.and_then(|near| self.singles.get(&near));
        for followers in [pair, single].into_iter().flatten() {
            if below(followers.total() + followers.words.len() as u32, rng) < followers.total() {
                return followers.draw(rng);
            }
        }
        all.draw(rng)
    }
}

/// Groups pairs by history. Sorted, so that the same corpus gives the same model.
fn table<H: Ord + Hash + Copy>(mut seen: Vec<(H, u32)>) -> HashMap<H, FollowerCounts> {
    seen.sort_unstable();
    let of = |run: &[(H, u32)]| {
        let words = run.chunk_by(|a, b| a.1 == b.1).map(|same| (same[0].1, same.len() as u32));
        (run[0].0, FollowerCounts::new(words))
    };
    seen.chunk_by(|a, b| a.0 == b.0).map(of).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn model(text: &str) -> NgramModel {
        let kind = |word: &str| match word {
            "the" | "a" => WordKind::Stop,
            "fever" => WordKind::Never,
            _ => WordKind::Content,
        };
        NgramModel::train(&TextCorpus::parse(text).unwrap(), kind).unwrap()
    }

    #[test]
    fn draws_follow_witten_bell_probabilities() {
        // After "the": cat twice, dog once. So with probability 3/5 one of these, else any: the 3, cat 2, dog 1, a 1 of 7.
        let model = model("The cat. The cat. The dog. A.");
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let draws = 70_000;
        let cats = (0..draws).filter(|_| model.draw_after(None, "the", &[], &mut 9, &mut rng) == "cat").count();
        let expected = 0.6 * 2.0 / 3.0 + 0.4 * 2.0 / 7.0;
        let error = (expected * (1.0 - expected) / f64::from(draws)).sqrt();
        assert!((cats as f64 / f64::from(draws) - expected).abs() < 5.0 * error, "{cats}");
    }

    #[test]
    fn preceding_words_are_learned_from_preceding_words() {
        let model = model("A cat sleeps. The dog barks. The dog barks. The dog barks.");
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let dogs = (0..2_000).filter(|_| model.draw_before("barks", &[], &mut 9, &mut rng) == "dog").count();
        assert!(dogs > 1_400, "{dogs}");
    }

    #[test]
    fn exhausted_budget_draws_stop_words_only() {
        let model = model("The cat sees a fever and the dog sees a fever.");
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        for _ in 0..500 {
            let mut budget = 0;
            assert!(["the", "a"].contains(&model.draw_after(Some("the"), "cat", &[], &mut budget, &mut rng)));
            assert_eq!(budget, 0);
            assert_ne!(model.draw_any(&mut 5, &mut rng), "fever");
        }
    }

    #[test]
    fn corpus_is_split_into_sentences_of_plain_words() {
        let corpus = TextCorpus::parse("# about\nIt was 5 o'clock. Then\nshe left!\n\n--\n").unwrap();
        assert_eq!(corpus.sentences, [vec!["it", "was", "o'clock"], vec!["then", "she", "left"]]);
        assert!(TextCorpus::bundled().unwrap().sentences.len() > 60);
        assert!(NgramModel::train(&TextCorpus::parse("cat dog").unwrap(), |_| WordKind::Content).is_none());
        // One ignored line, so that nothing is built from it.
        assert!(TextCorpus::parse(&"#".repeat(MOST_BYTES)).is_ok());
        let long = "#".repeat(MOST_BYTES + 1);
        assert!(TextCorpus::parse(&long).is_err_and(|error| error.to_string().contains("at most")));
    }
}
