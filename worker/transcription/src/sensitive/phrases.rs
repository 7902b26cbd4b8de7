//! Phrases, indexed by their first word.

use std::collections::HashMap;
use std::ops::Range;

use super::token::split_word;

/// A set of phrases of one or more words.
#[derive(Default)]
pub(super) struct PhraseSet {
    /// The following words, by first word.
    exact: HashMap<String, Vec<Vec<String>>>,
    /// Phrases whose first word may have any ending.
    open: Vec<Vec<String>>,
}

impl PhraseSet {
    /// Adds a phrase; returns false if it has no word.
    pub(super) fn add(&mut self, phrase: &str) -> bool {
        let words: Vec<String> = split_word(phrase).collect();
        match words.split_first() {
            None => return false,
            Some((first, _)) if first.ends_with('*') => self.open.push(words),
            Some((first, rest)) => self.exact.entry(first.clone()).or_default().push(rest.to_vec()),
        }
        true
    }

    /// Returns the ranges of phrases among `tokens`.
    pub(super) fn find(&self, tokens: &[String]) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for at in 0..tokens.len() {
            let following = &tokens[at + 1..];
            for rest in self.exact.get(&tokens[at]).into_iter().flatten().filter(|rest| begins(following, rest)) {
                ranges.push(at..at + 1 + rest.len());
            }
            for words in self.open.iter().filter(|words| begins(&tokens[at..], words)) {
                ranges.push(at..at + words.len());
            }
        }
        ranges
    }
}

/// Returns whether `tokens` begin with `words`.
fn begins(tokens: &[String], words: &[String]) -> bool {
    let same = |(token, word): (&String, &String)| match word.strip_suffix('*') {
        Some(stem) => token.starts_with(stem),
        None => token == word,
    };
    tokens.len() >= words.len() && tokens.iter().zip(words).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn whole_phrases_are_found_at_any_position() {
        let mut phrases = PhraseSet::default();
        assert!(phrases.add("New York") && phrases.add("new") && phrases.add("cardio*") && phrases.add("ward seven*"));
        assert!(!phrases.add(" - ") && !phrases.add("*"), "no word");
        let ranges = phrases.find(&tokens("a new york cardiologist of ward seventeen and new"));
        assert_eq!(ranges.len(), 5);
        for range in [1..3, 1..2, 3..4, 5..7, 8..9] {
            assert!(ranges.contains(&range), "{range:?} is not in {ranges:?}");
        }
        assert!(phrases.find(&tokens("york ward")).is_empty());
    }
}
