//! The public texts from which dummies are generated.

use super::DummyError;
use crate::vocabulary::language::{StemmingLanguage, normal};

/// Longest corpus, in bytes: 64 MiB.
pub const MOST_BYTES: usize = 64 << 20;

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

    /// Returns the bundled English text: four meetings of the AMI corpus, and short passages in the public domain.
    ///
    /// # Errors
    /// Never in practice; the same as [`TextCorpus::parse`].
    pub fn bundled() -> Result<Self, DummyError> {
        Self::parse(concat!(include_str!("english.txt"), "\n\n", include_str!("meetings.txt")))
    }

    /// Builds a corpus of sentences of [`normal`] words, for measurements.
    pub fn from_sentences(sentences: Vec<Vec<String>>) -> Self {
        Self { sentences }
    }

    /// Returns the sentences, each with its words in order.
    pub fn sentences(&self) -> &[Vec<String>] {
        &self.sentences
    }
}

/// Words of a language with their frequencies: the words that a text of the language may have and the corpus has not.
#[derive(Clone, Default)]
pub struct WordFrequencies(Vec<(String, u32)>);

impl WordFrequencies {
    /// Returns the bundled list of a language, the 10,000 most frequent words of read books for English, or an empty list.
    pub fn bundled(language: StemmingLanguage) -> Self {
        if language.code() != "en" {
            return Self::default();
        }
        let lines = include_str!("english_words.tsv").lines().filter(|line| !line.starts_with('#'));
        let row = |line: &str| {
            let (word, count) = line.split_once('\t')?;
            Some((word.to_owned(), count.parse().ok()?))
        };
        Self(lines.filter_map(row).collect())
    }

    /// Returns the words with their counts, the most frequent first.
    pub fn rows(&self) -> &[(String, u32)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn corpus_is_split_into_sentences_of_plain_words() {
        let corpus = TextCorpus::parse("# about\nIt was 5 o'clock. Then\nshe left!\n\n--\n").unwrap();
        assert_eq!(corpus.sentences, [vec!["it", "was", "o'clock"], vec!["then", "she", "left"]]);
        // One ignored line, so that nothing is built from it.
        assert!(TextCorpus::parse(&"#".repeat(MOST_BYTES)).is_ok());
        let long = "#".repeat(MOST_BYTES + 1);
        assert!(TextCorpus::parse(&long).is_err_and(|error| error.to_string().contains("at most")));
    }

    #[test]
    fn bundled_texts_are_complete() {
        let words: usize = TextCorpus::bundled().unwrap().sentences.iter().map(Vec::len).sum();
        assert!((11_000..14_000).contains(&words), "{words}");
        let list = WordFrequencies::bundled(StemmingLanguage::new("en").unwrap());
        assert_eq!((list.0.len(), list.0[0].0.as_str()), (10_000, "the"));
        assert!(list.0.iter().all(|(word, count)| normal(word).as_ref() == Some(word) && *count > 0));
        assert!(WordFrequencies::bundled(StemmingLanguage::new("de").unwrap()).0.is_empty());
    }
}
