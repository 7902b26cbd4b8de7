//! The words of a lexicon as a tree over their phones or characters, so that words with a common beginning share it.

use std::collections::HashMap;

use super::arpa::{LanguageWord, NgramModel};
use super::labels::{CharacterSet, ClassLabels, PhoneStates};
use super::lexicon::{Lexicon, Pronunciation};

/// Maximum number of nodes: about 1 GiB of memory.
const MOST_NODES: usize = 8_000_000;
/// The root, before each word.
pub(super) const ROOT: u32 = 0;

/// The reason why lexicon, language model and classes do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    /// The language model has words without a pronunciation.
    #[error(
        "the language model has {count} words that the lexicon lacks, such as `{word}`: add their pronunciations, or \
         skip them with --skip-missing-words"
    )]
    MissingWords {
        /// One of the words.
        word: String,
        /// Their number.
        count: usize,
    },
    /// No word is left.
    #[error("the language model has no word of the lexicon: give a model over the same words")]
    NoWords,
    /// A phone has no class.
    #[error(
        "lexicon, line {line}: no class of the model stands for the phone `{phone}` of `{word}`: remove the line, or give \
         the phone map of the model's labels"
    )]
    UnknownPhone {
        /// The word.
        word: String,
        /// The line of the lexicon.
        line: usize,
        /// The phone.
        phone: String,
    },
    /// A word has no pronunciation.
    #[error("lexicon, line {line}: `{word}` has no phones: a line is `WORD PHONE PHONE ...`")]
    NoPhones {
        /// The word.
        word: String,
        /// The line of the lexicon.
        line: usize,
    },
    /// A character has no class.
    #[error("lexicon, line {line}: the model has no character `{character}` of `{word}`: remove the line")]
    UnknownCharacter {
        /// The word.
        word: String,
        /// The line of the lexicon.
        line: usize,
        /// The character.
        character: char,
    },
    /// The lexicon is too large.
    #[error("the words have more than {MOST_NODES} different beginnings: keep fewer words in the lexicon")]
    TooLarge,
}

/// A phone or character after others.
#[derive(Debug, Clone, Default)]
pub(super) struct Node {
    /// The number of the phone or character.
    pub(super) unit: u32,
    pub(super) children: Vec<u32>,
    /// The words that end here.
    pub(super) words: Vec<u32>,
    /// The greatest ln p of a word at or below this node, without its history.
    pub(super) lookahead: f64,
}

/// A word of the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TreeWord {
    pub(super) text: String,
    pub(super) language: Option<LanguageWord>,
}

/// The tree.
#[derive(Debug, Clone)]
pub(super) struct WordTree {
    /// Node 0 is the root.
    pub(super) nodes: Vec<Node>,
    pub(super) words: Vec<TreeWord>,
}

impl WordTree {
    /// Builds the tree of the words that both lexicon and language model have.
    pub(super) fn build(
        lexicon: &Lexicon,
        labels: &ClassLabels,
        language: Option<&NgramModel>,
        skip_missing: bool,
    ) -> Result<Self, NetworkError> {
        if let Some(model) = language.filter(|_| !skip_missing) {
            find_missing(lexicon, model)?;
        }
        let mut tree = Self { nodes: vec![Node::default()], words: Vec::new() };
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let mut children: HashMap<(u32, u32), u32> = HashMap::new();
        for entry in lexicon.pronunciations() {
            let word = match language {
                Some(model) => match model.word(&entry.word) {
                    Some(word) => Some(word),
                    None => continue,
                },
                None => None,
            };
            let units = match labels {
                ClassLabels::Phones(map) => phones(entry, map)?,
                ClassLabels::Characters(set) => characters(entry, set)?,
            };
            let number = *numbers.entry(&entry.word).or_insert_with(|| {
                tree.words.push(TreeWord { text: entry.word.clone(), language: word });
                tree.words.len() as u32 - 1
            });
            let mut node = ROOT;
            for unit in units {
                node = *children.entry((node, unit)).or_insert_with(|| {
                    let new = tree.nodes.len() as u32;
                    tree.nodes[node as usize].children.push(new);
                    tree.nodes.push(Node { unit, ..Node::default() });
                    new
                });
            }
            let ends = &mut tree.nodes[node as usize].words;
            if !ends.contains(&number) {
                ends.push(number);
            }
            if tree.nodes.len() > MOST_NODES {
                return Err(NetworkError::TooLarge);
            }
        }
        if tree.words.is_empty() {
            return Err(NetworkError::NoWords);
        }
        tree.look_ahead(language);
        Ok(tree)
    }

    /// Returns ln p of each word if all are equally likely.
    pub(super) fn uniform(&self) -> f64 {
        -(self.words.len() as f64).ln()
    }

    fn look_ahead(&mut self, language: Option<&NgramModel>) {
        let uniform = self.uniform();
        let of_word = |word: &TreeWord| match (language, word.language) {
            (Some(model), Some(word)) => model.unigram(word),
            _ => uniform,
        };
        let scores: Vec<f64> = self.words.iter().map(of_word).collect();
        // A child has a greater number than its parent.
        for node in (0..self.nodes.len()).rev() {
            let own = self.nodes[node].words.iter().map(|word| scores[*word as usize]);
            let below = self.nodes[node].children.iter().map(|child| self.nodes[*child as usize].lookahead);
            self.nodes[node].lookahead = own.chain(below).fold(f64::NEG_INFINITY, f64::max);
        }
    }
}

fn find_missing(lexicon: &Lexicon, model: &NgramModel) -> Result<(), NetworkError> {
    let known: std::collections::HashSet<LanguageWord> =
        lexicon.pronunciations().iter().filter_map(|entry| model.word(&entry.word)).collect();
    let mut missing: Vec<&str> =
        model.vocabulary().filter(|text| model.word(text).is_some_and(|word| !known.contains(&word))).collect();
    missing.sort_unstable();
    match missing.first() {
        Some(word) => Err(NetworkError::MissingWords { word: (*word).to_owned(), count: missing.len() }),
        None => Ok(()),
    }
}

fn phones(entry: &Pronunciation, map: &PhoneStates) -> Result<Vec<u32>, NetworkError> {
    let word = || entry.word.clone();
    if entry.phones.is_empty() {
        return Err(NetworkError::NoPhones { word: word(), line: entry.line });
    }
    let number = |phone: &String| match map.phone(phone) {
        Some(number) => Ok(number as u32),
        None => Err(NetworkError::UnknownPhone { word: word(), line: entry.line, phone: phone.clone() }),
    };
    entry.phones.iter().map(number).collect()
}

fn characters(entry: &Pronunciation, set: &CharacterSet) -> Result<Vec<u32>, NetworkError> {
    let class = |character: char| match set.class(character) {
        Some(class) => Ok(class as u32),
        None => Err(NetworkError::UnknownCharacter { word: entry.word.clone(), line: entry.line, character }),
    };
    entry.word.chars().map(class).collect()
}
