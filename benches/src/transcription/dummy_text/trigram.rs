//! The model of an earlier version, for comparison: words after two words, and words before two words, with the back-off of Witten and
//! Bell (1991), P(x | h) = (c(h x) + T(h) P(x | h′)) / (c(h) + T(h)), with T(h) the number of distinct words after h. A phrase has
//! a limit of content words; the words of the text are the words of phrases.

use std::collections::HashMap;
use std::hash::Hash;

use rand_chacha::rand_core::Rng;
use undertone_worker::dp::noise::below;
use undertone_worker::speech::transcribe::dummy::PhraseLength;

/// Number of draws before a stop word is drawn instead.
const TRIES: usize = 64;

/// Permitted use of a word of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordKind {
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

    fn count(&self, word: u32) -> f64 {
        let Ok(place) = self.words.binary_search(&word) else { return 0.0 };
        f64::from(self.upto[place] - if place == 0 { 0 } else { self.upto[place - 1] })
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
pub(super) struct TrigramModel {
    words: Vec<String>,
    kinds: Vec<WordKind>,
    numbers: HashMap<String, u32>,
    forward: WordChain,
    backward: WordChain,
    all: FollowerCounts,
    stops: FollowerCounts,
}

impl TrigramModel {
    /// Trains a model; `None` if the text has no stop word, or no permitted content word.
    pub(super) fn train(sentences: &[Vec<String>], kind: impl Fn(&str) -> WordKind) -> Option<Self> {
        let mut words: Vec<String> = sentences.iter().flatten().cloned().collect();
        words.sort_unstable();
        words.dedup();
        let numbers: HashMap<String, u32> = words.iter().cloned().zip(0..).collect();
        let kinds: Vec<WordKind> = words.iter().map(|word| kind(word)).collect();
        let numbered: Vec<Vec<u32>> =
            sentences.iter().map(|sentence| sentence.iter().map(|word| numbers[word]).collect()).collect();
        let mut counts = vec![0_u32; words.len()];
        for word in numbered.iter().flatten() {
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
        let forward = WordChain::new(&numbered);
        let reversed: Vec<Vec<u32>> =
            numbered.iter().map(|sentence| sentence.iter().rev().copied().collect()).collect();
        let backward = WordChain::new(&reversed);
        Some(Self { words, kinds, numbers, forward, backward, all, stops })
    }

    /// Generates a phrase around a word at a random position; without a word, around a word of the text.
    pub(super) fn phrase(&self, word: Option<&str>, length: PhraseLength, rng: &mut impl Rng) -> String {
        let place = below(length.words, rng);
        let mut budget = length.content - u32::from(word.is_some());
        let around = word.map_or_else(|| self.draw_any(&mut budget, rng).to_owned(), str::to_owned);
        let mut before = Vec::new();
        let mut after = Vec::new();
        for _ in 0..place {
            let next = self.draw_before(&around, &before, &mut budget, rng);
            before.push(next);
        }
        for _ in place + 1..length.words {
            let next = self.draw_after(before.first().copied(), &around, &after, &mut budget, rng);
            after.push(next);
        }
        before.into_iter().rev().chain([around.as_str()]).chain(after).collect::<Vec<_>>().join(" ")
    }

    /// Returns e to the mean negative log probability of a word of the model's text. Each sentence begins without a history.
    pub(super) fn perplexity(&self, sentences: &[Vec<String>]) -> f64 {
        let (mut log, mut known) = (0.0, 0_u32);
        for sentence in sentences {
            let mut history = [None, None];
            for word in sentence {
                let number = self.numbers.get(word).copied();
                if let Some(number) = number {
                    log -= self.probability(history, number).ln();
                    known += 1;
                }
                history = [history[1], number];
            }
        }
        (log / f64::from(known)).exp()
    }

    fn probability(&self, [far, near]: [Option<u32>; 2], word: u32) -> f64 {
        let mut probability = self.all.count(word) / f64::from(self.all.total());
        let single = near.and_then(|near| self.forward.singles.get(&near));
        let pair = far.zip(near).and_then(|(far, near)| self.forward.pairs.get(&[far, near]));
        for followers in [single, pair].into_iter().flatten() {
            let types = followers.words.len() as f64;
            probability = (followers.count(word) + types * probability) / (f64::from(followers.total()) + types);
        }
        probability
    }

    /// Draws any permitted word.
    fn draw_any(&self, budget: &mut u32, rng: &mut impl Rng) -> &str {
        self.draw_word(&self.forward, [None, None], budget, rng)
    }

    /// Draws a word before `around` and the words already put `before` it, the nearest first.
    fn draw_before(&self, around: &str, before: &[&str], budget: &mut u32, rng: &mut impl Rng) -> &str {
        self.draw_word(&self.backward, self.history(None, around, before), budget, rng)
    }

    /// Draws a word after `around` and the words already put `after` it, the nearest first; `left` is the word before `around`.
    fn draw_after(
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

    use undertone_worker::speech::transcribe::dummy::author::PhraseAuthor;
    use undertone_worker::speech::transcribe::dummy::corpus::{TextCorpus, WordFrequencies};
    use undertone_worker::speech::transcribe::vocabulary::language::StemmingLanguage;
    use undertone_worker::speech::transcribe::vocabulary::{WordList, public};

    use super::*;

    #[test]
    fn kneser_ney_predicts_text_better_than_the_trigram() {
        // Four of five sentences of the bundled text are learned, the fifth is predicted.
        let bundled = TextCorpus::bundled().unwrap();
        let part = |held: bool| {
            let numbered = bundled.sentences().iter().enumerate().filter(|(place, _)| (place % 5 == 0) == held);
            numbered.map(|(_, sentence)| sentence.clone()).collect::<Vec<_>>()
        };
        let (learned, held) = (part(false), part(true));
        let language = StemmingLanguage::new("en").unwrap();
        let vocabulary = public(language, &WordList::parse("haemorrhage").unwrap()).unwrap();
        let corpus = TextCorpus::from_sentences(learned.clone());
        let author = PhraseAuthor::new(&vocabulary, &corpus, &WordFrequencies::default()).unwrap();
        let fit = author.fit(&TextCorpus::from_sentences(held.clone())).unwrap();
        let stops = language.stop_words();
        let kind = |word: &str| if stops.contains(word) { WordKind::Stop } else { WordKind::Content };
        let trigram = TrigramModel::train(&learned, kind).unwrap().perplexity(&held);
        assert!(fit.perplexity < 0.9 * trigram, "{} against {trigram}", fit.perplexity);
    }
}
