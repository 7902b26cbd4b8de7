//! A small model of a language: words after two words, and words before two words, with Witten and Bell's back-off.
//!
//! P(x | h) = (c(h x) + T(h) P(x | h′)) / (c(h) + T(h)), with T(h) the different words seen after h and h′ the history without
//! its farthest word (Witten and Bell 1991). A draw goes down that sum: with probability c(h) / (c(h) + T(h)) it is one of
//! those that were seen after h, else one of a shorter history. What must not be said is drawn again, which leaves the
//! distribution of the rest as it is. The same model of the reversed text goes the other way.

use std::collections::HashMap;
use std::hash::Hash;

use rand_chacha::rand_core::Rng;

use super::DummyError;
use crate::dp::noise::below;
use crate::speech::transcribe::vocabulary::language::normal;

/// Longest corpus, bytes: 64 MiB.
pub const MOST_BYTES: usize = 64 << 20;
/// How often a word is drawn again before only those are looked at that may be said.
const TRIES: usize = 64;

/// A text that anybody may have.
#[derive(Clone, PartialEq, Eq)]
pub struct Corpus {
    sentences: Vec<Vec<String>>,
}

impl Corpus {
    /// Reads a text: sentences end with a full stop, a question mark, an exclamation mark or an empty line. Lines that begin
    /// with `#` are left out, and so is every word with a digit: nobody reads those twice alike.
    ///
    /// # Errors
    /// [`DummyError::CorpusSize`] for more than 64 MiB.
    pub fn parse(text: &str) -> Result<Self, DummyError> {
        if text.len() > MOST_BYTES {
            return Err(DummyError::CorpusSize(text.len()));
        }
        let (mut sentences, mut open) = (Vec::new(), Vec::new());
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

    /// A little English, in the public domain.
    ///
    /// # Errors
    /// Never; as [`Corpus::parse`].
    pub fn bundled() -> Result<Self, DummyError> {
        Self::parse(include_str!("english.txt"))
    }
}

/// When a word of the corpus may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whenever there is room.
    Stop,
    /// While words of content are allowed.
    Content,
    /// Never: it is of the vocabulary.
    Never,
}

/// Words by number, with how often they were seen, added up.
#[derive(Default)]
struct Followers {
    words: Vec<u32>,
    upto: Vec<u32>,
}

impl Followers {
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

    /// One of them, as often as it was seen; there is one.
    fn draw(&self, rng: &mut impl Rng) -> u32 {
        let at = below(self.total(), rng);
        self.words[self.upto.partition_point(|upto| *upto <= at)]
    }
}

/// One direction.
struct Chain {
    pairs: HashMap<[u32; 2], Followers>,
    singles: HashMap<u32, Followers>,
}

/// The model.
pub struct Model {
    words: Vec<String>,
    kinds: Vec<Kind>,
    numbers: HashMap<String, u32>,
    forward: Chain,
    backward: Chain,
    all: Followers,
    stops: Followers,
}

impl Model {
    /// Learns a corpus; `None` where it has no stop word, or nothing that may be said beside them.
    pub fn train(corpus: &Corpus, kind: impl Fn(&str) -> Kind) -> Option<Self> {
        let mut words: Vec<String> = corpus.sentences.iter().flatten().cloned().collect();
        words.sort_unstable();
        words.dedup();
        let numbers: HashMap<String, u32> = words.iter().cloned().zip(0..).collect();
        let kinds: Vec<Kind> = words.iter().map(|word| kind(word)).collect();
        let sentences: Vec<Vec<u32>> =
            corpus.sentences.iter().map(|sentence| sentence.iter().map(|word| numbers[word]).collect()).collect();
        let mut counts = vec![0_u32; words.len()];
        for word in sentences.iter().flatten() {
            counts[*word as usize] += 1;
        }
        let of = |fits: &dyn Fn(Kind) -> bool| {
            let fitting = (0_u32..).zip(&counts).filter(|(word, _)| fits(kinds[*word as usize]));
            Followers::new(fitting.map(|(word, count)| (word, *count)))
        };
        let (all, stops) = (of(&|kind| kind != Kind::Never), of(&|kind| kind == Kind::Stop));
        if stops.total() == 0 || all.total() == stops.total() {
            return None;
        }
        let forward = Chain::new(&sentences);
        let reversed: Vec<Vec<u32>> =
            sentences.iter().map(|sentence| sentence.iter().rev().copied().collect()).collect();
        let backward = Chain::new(&reversed);
        Some(Self { words, kinds, numbers, forward, backward, all, stops })
    }

    /// Any word that may be said.
    pub fn any(&self, budget: &mut u32, rng: &mut impl Rng) -> &str {
        self.say(&self.forward, [None, None], budget, rng)
    }

    /// A word before `around` and those that were put `before` it, the nearest first.
    pub fn before(&self, around: &str, before: &[&str], budget: &mut u32, rng: &mut impl Rng) -> &str {
        self.say(&self.backward, self.history(None, around, before), budget, rng)
    }

    /// A word after `around` and those that were put `after` it, the nearest first; `left` is the word before `around`.
    pub fn after(
        &self,
        left: Option<&str>,
        around: &str,
        after: &[&str],
        budget: &mut u32,
        rng: &mut impl Rng,
    ) -> &str {
        self.say(&self.forward, self.history(left, around, after), budget, rng)
    }

    /// The last two words, the farther first, by number where the corpus has them.
    fn history(&self, farther: Option<&str>, around: &str, since: &[&str]) -> [Option<u32>; 2] {
        let (far, near) = match since {
            [] => (farther, around),
            [one] => (Some(around), *one),
            [.., far, near] => (Some(*far), *near),
        };
        [far, Some(near)].map(|word| word.and_then(|word| self.numbers.get(word).copied()))
    }

    /// A word after a history that may be said with so many words of content left.
    fn say(&self, chain: &Chain, history: [Option<u32>; 2], budget: &mut u32, rng: &mut impl Rng) -> &str {
        let fits = |word: u32| match self.kinds[word as usize] {
            Kind::Stop => true,
            Kind::Content => *budget > 0,
            Kind::Never => false,
        };
        let drawn = (0..TRIES).map(|_| chain.draw(history, &self.all, rng)).find(|word| fits(*word));
        let word = drawn.unwrap_or_else(|| self.stops.draw(rng));
        if self.kinds[word as usize] == Kind::Content {
            *budget -= 1;
        }
        &self.words[word as usize]
    }
}

impl Chain {
    fn new(sentences: &[Vec<u32>]) -> Self {
        let triples = sentences.iter().flat_map(|sentence| sentence.array_windows().map(|[a, b, c]| ([*a, *b], *c)));
        let doubles = sentences.iter().flat_map(|sentence| sentence.array_windows().map(|[a, b]| (*a, *b)));
        Self { pairs: table(triples.collect()), singles: table(doubles.collect()) }
    }

    /// A word after a history, by Witten and Bell's mixture.
    fn draw(&self, [far, near]: [Option<u32>; 2], all: &Followers, rng: &mut impl Rng) -> u32 {
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

/// What follows what. Sorted inside, so that the same corpus gives the same model.
fn table<H: Ord + Hash + Copy>(mut seen: Vec<(H, u32)>) -> HashMap<H, Followers> {
    seen.sort_unstable();
    let of = |run: &[(H, u32)]| {
        let words = run.chunk_by(|a, b| a.1 == b.1).map(|same| (same[0].1, same.len() as u32));
        (run[0].0, Followers::new(words))
    };
    seen.chunk_by(|a, b| a.0 == b.0).map(of).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;

    fn model(text: &str) -> Model {
        let kind = |word: &str| match word {
            "the" | "a" => Kind::Stop,
            "fever" => Kind::Never,
            _ => Kind::Content,
        };
        Model::train(&Corpus::parse(text).unwrap(), kind).unwrap()
    }

    #[test]
    fn words_follow_as_witten_and_bell_have_it() {
        // After "the": cat twice, dog once; so with 3/5 one of these, else any: the 3, cat 2, dog 1, a 1 of 7.
        let model = model("The cat. The cat. The dog. A.");
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let draws = 70_000;
        let cats = (0..draws).filter(|_| model.after(None, "the", &[], &mut 9, &mut rng) == "cat").count();
        let expected = 0.6 * 2.0 / 3.0 + 0.4 * 2.0 / 7.0;
        let error = (expected * (1.0 - expected) / f64::from(draws)).sqrt();
        assert!((cats as f64 / f64::from(draws) - expected).abs() < 5.0 * error, "{cats}");
    }

    #[test]
    fn what_comes_before_is_learnt_from_what_came_before() {
        let model = model("A cat sleeps. The dog barks. The dog barks. The dog barks.");
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let dogs = (0..2_000).filter(|_| model.before("barks", &[], &mut 9, &mut rng) == "dog").count();
        assert!(dogs > 1_400, "{dogs}");
    }

    #[test]
    fn without_words_of_content_left_only_stop_words_are_said() {
        let model = model("The cat sees a fever and the dog sees a fever.");
        let mut rng = ChaCha20Rng::seed_from_u64(3);
        for _ in 0..500 {
            let mut budget = 0;
            assert!(["the", "a"].contains(&model.after(Some("the"), "cat", &[], &mut budget, &mut rng)));
            assert_eq!(budget, 0);
            assert_ne!(model.any(&mut 5, &mut rng), "fever");
        }
    }

    #[test]
    fn a_corpus_is_sentences_of_plain_words() {
        let corpus = Corpus::parse("# about\nIt was 5 o'clock. Then\nshe left!\n\n--\n").unwrap();
        assert_eq!(corpus.sentences, [vec!["it", "was", "o'clock"], vec!["then", "she", "left"]]);
        assert!(Corpus::bundled().unwrap().sentences.len() > 60);
        assert!(Model::train(&Corpus::parse("cat dog").unwrap(), |_| Kind::Content).is_none());
        // Of one line that is left out, so that nothing is made of it.
        assert!(Corpus::parse(&"#".repeat(MOST_BYTES)).is_ok());
        let long = "#".repeat(MOST_BYTES + 1);
        assert!(Corpus::parse(&long).is_err_and(|error| error.to_string().contains("at most")));
    }
}
