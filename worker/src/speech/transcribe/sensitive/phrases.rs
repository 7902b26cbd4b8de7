//! Phrases, found by their first word.

use std::collections::HashMap;
use std::ops::Range;

use super::parts;

/// Phrases of one or more words.
#[derive(Default)]
pub(super) struct Phrases {
    /// By the first word: what has to follow.
    exact: HashMap<String, Vec<Vec<String>>>,
    /// Those whose first word may end in any way.
    open: Vec<Vec<String>>,
}

impl Phrases {
    /// Takes a phrase; false if it has no word.
    pub(super) fn add(&mut self, phrase: &str) -> bool {
        let words: Vec<String> = parts(phrase).collect();
        match words.split_first() {
            None => return false,
            Some((first, _)) if first.ends_with('*') => self.open.push(words),
            Some((first, rest)) => self.exact.entry(first.clone()).or_default().push(rest.to_vec()),
        }
        true
    }

    /// Where phrases are among `tokens`.
    pub(super) fn find(&self, tokens: &[String]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for at in 0..tokens.len() {
            let following = &tokens[at + 1..];
            for rest in self.exact.get(&tokens[at]).into_iter().flatten().filter(|rest| begins(following, rest)) {
                found.push(at..at + 1 + rest.len());
            }
            for words in self.open.iter().filter(|words| begins(&tokens[at..], words)) {
                found.push(at..at + words.len());
            }
        }
        found
    }
}

/// Whether `tokens` begin with `words`.
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
    fn phrases_are_found_whole_and_wherever_they_are() {
        let mut phrases = Phrases::default();
        assert!(phrases.add("New York") && phrases.add("new") && phrases.add("cardio*") && phrases.add("ward seven*"));
        assert!(!phrases.add(" - ") && !phrases.add("*"), "no word");
        let found = phrases.find(&tokens("a new york cardiologist of ward seventeen and new"));
        assert_eq!(found.len(), 5);
        for range in [1..3, 1..2, 3..4, 5..7, 8..9] {
            assert!(found.contains(&range), "{range:?} is not in {found:?}");
        }
        assert!(phrases.find(&tokens("york ward")).is_empty());
    }
}
