//! Classifiers of texts: logistic regression on the words of a piece, and on what is known of the text that dummies are made of.

use std::collections::{BTreeSet, HashMap, HashSet};

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use undertone_worker::dp::noise::below;

use super::super::SEED;

/// Folds of consecutive pieces: the adversary learns from the others.
pub(super) const FOLDS: usize = 5;
/// Passes over the examples.
const PASSES: usize = 15;
/// Rate and decay of weights (AdaGrad; Duchi, Hazan and Singer 2011).
const RATE: f64 = 0.1;
const DECAY: f64 = 0.02;
const FACT_DECAY: f64 = 0.001;
/// Longest n-gram that is looked up in the text of the dummies.
const LONGEST: usize = 5;

/// What the adversary has besides labelled pieces of the same recordings.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKnowledge {
    /// Nothing: words, pairs of neighbours, and pairs with a word between.
    Labels,
    /// The text that dummies are made of: also triples, and the share of n-grams that are in this text.
    LabelsAndText,
}

impl TextKnowledge {
    pub(super) const ALL: [Self; 2] = [Self::Labels, Self::LabelsAndText];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Labels => "words",
            Self::LabelsAndText => "words, and the text of the dummies",
        }
    }
}

/// The n-grams of a text, by length.
pub(super) struct KnownText(Vec<HashSet<Vec<String>>>);

impl KnownText {
    pub(super) fn new(sentences: &[Vec<String>]) -> Self {
        let text: Vec<String> = sentences.iter().flatten().cloned().collect();
        Self((1..=LONGEST).map(|length| text.windows(length).map(<[String]>::to_vec).collect()).collect())
    }

    /// Returns facts of a piece: for each length the share of n-grams that the text has, and the number of the others.
    fn facts(&self, piece: &[String]) -> Vec<f64> {
        let mut facts = vec![piece.len() as f64 / 12.0];
        for (length, known) in (1..).zip(&self.0) {
            let all = piece.windows(length).count() as f64;
            let found = piece.windows(length).filter(|gram| known.contains(*gram)).count() as f64;
            facts.extend([if all > 0.0 { found / all } else { 0.0 }, (all - found) / 4.0]);
        }
        facts
    }
}

/// A piece with the fold to which it belongs.
pub(super) struct LabelledPiece {
    pub(super) words: Vec<String>,
    pub(super) fold: usize,
    pub(super) is_dummy: bool,
}

struct TextExample {
    features: Vec<usize>,
    facts: Vec<f64>,
    fold: usize,
    is_dummy: bool,
}

/// Returns the number of pieces of which the adversary says rightly whether they are dummies.
pub(super) fn classify(pieces: &[LabelledPiece], knowledge: TextKnowledge, text: &KnownText) -> u64 {
    let mut numbers = HashMap::new();
    let example = |piece: &LabelledPiece| TextExample {
        features: features(&piece.words, knowledge, &mut numbers),
        facts: if knowledge == TextKnowledge::Labels { Vec::new() } else { text.facts(&piece.words) },
        fold: piece.fold,
        is_dummy: piece.is_dummy,
    };
    let examples: Vec<TextExample> = pieces.iter().map(example).collect();
    let right = |fold: usize| {
        let known: Vec<&TextExample> = examples.iter().filter(|example| example.fold != fold).collect();
        let model = TextClassifier::train(&known, numbers.len());
        let tested = examples.iter().filter(|example| example.fold == fold);
        tested.filter(|example| (model.score(example) >= 0.0) == example.is_dummy).count() as u64
    };
    (0..FOLDS).map(right).sum()
}

/// Numbers the words, pairs and triples of a piece.
fn features(piece: &[String], knowledge: TextKnowledge, numbers: &mut HashMap<String, usize>) -> Vec<usize> {
    let words: Vec<&str> = std::iter::once("<").chain(piece.iter().map(String::as_str)).chain([">"]).collect();
    let longest = if knowledge == TextKnowledge::Labels { 2 } else { 3 };
    let mut texts: Vec<String> = piece.to_vec();
    for length in 2..=longest {
        texts.extend(words.windows(length).map(|gram| gram.join(" ")));
    }
    texts.extend(words.windows(3).map(|gram| format!("{} * {}", gram[0], gram[2])));
    let mut number = |text: String| {
        let next = numbers.len();
        *numbers.entry(text).or_insert(next)
    };
    texts.into_iter().map(&mut number).collect::<BTreeSet<_>>().into_iter().collect()
}

/// A weight with the sum of its squared gradients.
#[derive(Clone, Copy, Default)]
struct AdaptiveWeight {
    value: f64,
    squares: f64,
}

impl AdaptiveWeight {
    fn step(&mut self, gradient: f64, decay: f64) {
        let gradient = gradient + decay * self.value;
        self.squares += gradient * gradient;
        self.value -= RATE * gradient / (self.squares + 1.0).sqrt();
    }
}

/// Logistic regression.
struct TextClassifier {
    features: Vec<AdaptiveWeight>,
    facts: Vec<AdaptiveWeight>,
    bias: f64,
}

impl TextClassifier {
    fn train(examples: &[&TextExample], features: usize) -> Self {
        let facts = examples.first().map_or(0, |example| example.facts.len());
        let weights = |count| vec![AdaptiveWeight::default(); count];
        let mut model = Self { features: weights(features), facts: weights(facts), bias: 0.0 };
        let mut order: Vec<usize> = (0..examples.len()).collect();
        let mut rng = ChaCha20Rng::seed_from_u64(SEED);
        for _ in 0..PASSES {
            for last in (1..order.len()).rev() {
                order.swap(last, below(last as u32 + 1, &mut rng) as usize);
            }
            for example in order.iter().map(|place| examples[*place]) {
                let probability = 1.0 / (1.0 + (-model.score(example)).exp());
                let gradient = probability - f64::from(u8::from(example.is_dummy));
                model.bias -= RATE * gradient / 10.0;
                example.features.iter().for_each(|number| model.features[*number].step(gradient, DECAY));
                let facts = model.facts.iter_mut().zip(&example.facts);
                facts.for_each(|(weight, fact)| weight.step(gradient * fact, FACT_DECAY));
            }
        }
        model
    }

    /// Returns the log odds of a dummy.
    fn score(&self, example: &TextExample) -> f64 {
        let features: f64 = example.features.iter().map(|number| self.features[*number].value).sum();
        let facts: f64 = example.facts.iter().zip(&self.facts).map(|(fact, weight)| fact * weight.value).sum();
        self.bias + features + facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(dummy: impl Fn(usize) -> String) -> Vec<LabelledPiece> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        let place = |place: usize| format!("we met person{} today", place % 9);
        let piece = |number: usize, text: String, is_dummy: bool| LabelledPiece {
            words: words(&text),
            fold: number % FOLDS,
            is_dummy,
        };
        (0..100).flat_map(|number| [piece(number, place(number), false), piece(number, dummy(number), true)]).collect()
    }

    #[test]
    fn classifier_tells_other_words_and_not_the_same() {
        let text = KnownText::new(&[]);
        let other = pieces(|number| format!("we met person{} yesterday", number % 9));
        let same = pieces(|number| format!("we met person{} today", (number * 4) % 9));
        assert_eq!(classify(&other, TextKnowledge::Labels, &text), 200);
        assert!((60..140).contains(&classify(&same, TextKnowledge::Labels, &text)));
    }

    #[test]
    fn known_text_tells_pieces_that_are_copies() {
        // No word is in two pieces, so only the text helps.
        let copied: Vec<String> = (0..100).map(|number| format!("one{number} two{number} three{number}")).collect();
        let sentences: Vec<Vec<String>> =
            copied.iter().map(|text| text.split(' ').map(str::to_owned).collect()).collect();
        let mut pieces = pieces(|number| copied[number].clone());
        for (number, piece) in pieces.iter_mut().filter(|piece| !piece.is_dummy).enumerate() {
            piece.words = (0..3).map(|place| format!("other{number}x{place}")).collect();
        }
        assert_eq!(classify(&pieces, TextKnowledge::LabelsAndText, &KnownText::new(&sentences)), 200);
        assert!(classify(&pieces, TextKnowledge::Labels, &KnownText::new(&sentences)) < 150);
    }
}
