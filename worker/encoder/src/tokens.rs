//! Texts as tokens: the tokenizer of BERT, WordPiece (Devlin et al., 2019), from a vocabulary of one token a line.
//!
//! A text loses its control characters, is lower-cased and loses its accents if declared, and is split at white space,
//! punctuation and Chinese characters. Each word becomes the longest pieces of the vocabulary from its left; the second
//! and later ones begin with `##`. A word without such pieces, or of more than 100 characters, is `[UNK]`. A text has
//! `[CLS]` before it and `[SEP]` after it. The names of special tokens inside a text are ordinary words.

use std::collections::HashMap;
use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory as _};

use crate::error::EncoderError;
use crate::graph::read_limited;

/// The largest vocabulary: 16 MiB.
pub const MOST_VOCABULARY_BYTES: u64 = 1 << 24;
/// The longest word that is split into pieces, characters.
const LONGEST_WORD: usize = 100;

/// A vocabulary of WordPiece.
#[derive(Debug, Clone)]
pub(crate) struct WordPieces {
    tokens: HashMap<String, i32>,
    lower_case: bool,
    unknown: i32,
    begin: i32,
    end: i32,
}

impl WordPieces {
    /// Reads a vocabulary, and returns it with the bytes of its file.
    pub(crate) fn read(path: &Path, lower_case: bool) -> Result<(Self, Vec<u8>), EncoderError> {
        let fault = |reason: String| EncoderError::Vocabulary(format!("{}: {reason}", path.display()));
        let bytes = read_limited(path, MOST_VOCABULARY_BYTES, "`vocabulary` in --encoding")?
            .map_err(|size| fault(format!("it has {size} bytes, and at most {MOST_VOCABULARY_BYTES} are read")))?;
        let text = std::str::from_utf8(&bytes).map_err(|_| fault("it is not UTF-8".to_owned()))?;
        // A token that occurs twice has the number of its last line, as in BERT.
        let tokens: HashMap<String, i32> = text.lines().map(|line| line.trim_end().to_owned()).zip(0..).collect();
        let find = |name: &str| {
            let missing =
                || fault(format!("it has no token `{name}`: give the vocabulary of WordPiece of the encoder"));
            tokens.get(name).copied().ok_or_else(missing)
        };
        let unknown = find("[UNK]")?;
        let begin = find("[CLS]")?;
        let end = find("[SEP]")?;
        Ok((Self { tokens, lower_case, unknown, begin, end }, bytes))
    }

    /// Returns the tokens of a text, at most `most` with its beginning and its end.
    pub(crate) fn encode(&self, text: &str, most: usize) -> Vec<i32> {
        let mut tokens = vec![self.begin];
        let end = most.saturating_sub(1);
        for word in split_words(text, self.lower_case) {
            if tokens.len() >= end {
                break;
            }
            self.push_pieces(&word, &mut tokens);
        }
        tokens.truncate(end);
        tokens.push(self.end);
        tokens
    }

    /// Appends the pieces of a word.
    fn push_pieces(&self, word: &str, tokens: &mut Vec<i32>) {
        let start = tokens.len();
        let mut rest = word;
        if word.chars().count() > LONGEST_WORD {
            rest = "";
            tokens.push(self.unknown);
        }
        while !rest.is_empty() {
            let prefix = if tokens.len() == start { "" } else { "##" };
            let ends = rest.char_indices().map(|(place, letter)| place + letter.len_utf8()).rev();
            let mut pieces = ends.filter_map(|end| rest.split_at_checked(end));
            let found = pieces.find_map(|(piece, after)| Some((*self.tokens.get(&format!("{prefix}{piece}"))?, after)));
            let Some((token, after)) = found else {
                tokens.truncate(start);
                tokens.push(self.unknown);
                return;
            };
            tokens.push(token);
            rest = after;
        }
    }
}

/// Splits a text into words, and punctuation and Chinese characters into words of their own.
fn split_words(text: &str, lower_case: bool) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut push = |letter: char| {
        if letter.is_whitespace() || is_alone(letter) {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            if !letter.is_whitespace() {
                words.push(letter.to_string());
            }
        } else {
            word.push(letter);
        }
    };
    let letters = text.chars().filter(|letter| !is_control(*letter));
    if lower_case {
        let is_accent = |letter: &char| letter.general_category() == GeneralCategory::NonspacingMark;
        letters.nfd().filter(|letter| !is_accent(letter)).flat_map(char::to_lowercase).for_each(&mut push);
    } else {
        letters.for_each(&mut push);
    }
    push(' ');
    words
}

fn is_control(letter: char) -> bool {
    letter == '\u{fffd}'
        || (!matches!(letter, '\t' | '\n' | '\r') && letter.general_category_group() == GeneralCategoryGroup::Other)
}

/// Returns whether a character is a word of its own: ASCII that is neither a letter nor a digit, other punctuation, and
/// CJK ideographs.
fn is_alone(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || letter.general_category_group() == GeneralCategoryGroup::Punctuation
        || matches!(u32::from(letter), 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF
            | 0x20000..=0x2A6DF | 0x2A700..=0x2CEAF | 0x2F800..=0x2FA1F)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::{MOST_VOCABULARY_BYTES, WordPieces, split_words};
    use crate::error::EncoderError;

    /// The tokens of the vocabulary, by their numbers from 0.
    const VOCABULARY: &str = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nwant\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\nlow\n##est";

    fn encode(text: &str, most: usize) -> Vec<i32> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), VOCABULARY).unwrap();
        WordPieces::read(file.path(), true).unwrap().0.encode(text, most)
    }

    #[test]
    fn longest_pieces_of_a_word_come_first() {
        // The example of BERT's own test: "unwanted" and "running", and a word with an unknown piece.
        assert_eq!(encode("unwanted running", 20), [2, 8, 5, 6, 9, 10, 3]);
        assert_eq!(encode("UNwant\u{e9}d,running", 20), [2, 8, 5, 6, 11, 9, 10, 3]);
        assert_eq!(encode("unwantedX running", 20), [2, 1, 9, 10, 3]);
        assert_eq!(encode("", 20), [2, 3]);
        assert_eq!(encode(&"low".repeat(40), 20), [2, 1, 3]);
        assert_eq!(encode("[SEP] low", 20), [2, 1, 1, 1, 12, 3], "special tokens come from the tokenizer alone");
    }

    #[test]
    fn longer_text_is_cut_before_its_end() {
        assert_eq!(encode("unwanted running low", 5), [2, 8, 5, 6, 3]);
        assert_eq!(encode("low low low", 3), [2, 12, 3]);
    }

    #[test]
    fn words_split_as_in_bert() {
        let lower = |text: &str| split_words(text, true).join("|");
        assert_eq!(lower(" \tHeLLo!how  \n Are yoU?  "), "hello|!|how|are|you|?");
        assert_eq!(lower("H\u{e9}llo ah\u{535a}\u{63a8}zz"), "hello|ah|\u{535a}|\u{63a8}|zz");
        assert_eq!(lower("a\u{200b}b\0c\u{fffd}d $5"), "abcd|$|5");
        assert_eq!(split_words("H\u{e9}LLo", false), ["H\u{e9}LLo"]);
    }

    #[test]
    fn vocabulary_without_its_tokens_or_too_large_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = || WordPieces::read(file.path(), true).unwrap_err().to_string();
        std::fs::write(file.path(), "[UNK]\n[CLS]\n").unwrap();
        assert!(refused().contains("`[SEP]`"));
        std::fs::write(file.path(), b"\xff\n").unwrap();
        assert!(refused().contains("UTF-8"));
        file.as_file().set_len(MOST_VOCABULARY_BYTES + 1).unwrap();
        assert!(refused().contains("16777216"));
        let none = file.path().with_extension("none");
        assert!(matches!(WordPieces::read(&none, true), Err(EncoderError::File { .. })));
    }
}
