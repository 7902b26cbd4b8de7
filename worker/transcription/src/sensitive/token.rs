//! Words as the search compares them.

use crate::piece::TimedWord;

/// Words in the form used for searching: in lower case, without punctuation, hyphenated words split into their parts.
#[derive(Default)]
pub(super) struct TokenTable {
    pub(super) texts: Vec<String>,
    /// The index of each token's word.
    pub(super) words: Vec<usize>,
    /// All tokens separated by spaces, and the start of each token in this text.
    pub(super) joined: String,
    pub(super) starts: Vec<usize>,
}

impl TokenTable {
    /// Splits the words of a recording, in order.
    pub(super) fn from_words(words: &[TimedWord]) -> Self {
        let mut tokens = Self::default();
        for (at, word) in words.iter().enumerate() {
            for text in split_word(&word.text) {
                if !tokens.joined.is_empty() {
                    tokens.joined.push(' ');
                }
                tokens.starts.push(tokens.joined.len());
                tokens.joined.push_str(&text);
                tokens.texts.push(text);
                tokens.words.push(at);
            }
        }
        tokens
    }
}

/// Returns the parts of a word or phrase, in lower case: letters, digits and inner apostrophes, without a possessive `'s`.
pub(super) fn split_word(text: &str) -> impl Iterator<Item = String> + use<> {
    let lower = text.to_lowercase().replace('’', "'");
    let split: Vec<String> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '*')
        .map(|part| {
            let part = part.trim_matches('\'');
            part.strip_suffix("'s").unwrap_or(part).to_owned()
        })
        .filter(|part| part.chars().any(char::is_alphanumeric))
        .collect();
    split.into_iter()
}
