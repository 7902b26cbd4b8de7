//! Word error rate of a transcript against a reference.
//!
//! Words are compared as is usual for recognizers: in NFKC and lower case, without punctuation except apostrophes inside a word.
//! Numbers are not spelled out: "20" and "twenty" are two words.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use unicode_normalization::UnicodeNormalization as _;

/// Word errors, in the alignment with the fewest errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WordErrors {
    /// Words of the reference.
    pub words: u64,
    /// Substituted words.
    pub substitutions: u64,
    /// Inserted words.
    pub insertions: u64,
    /// Deleted words.
    pub deletions: u64,
}

impl WordErrors {
    /// Compares a transcript with its reference. Takes time in proportion to the product of their lengths, and memory in proportion
    /// to the length of the transcript.
    pub fn count(reference: &str, transcript: &str) -> Self {
        let reference = normalized(reference);
        let transcript = normalized(transcript);
        // The best alignments of the processed part of the reference with each prefix of the transcript.
        let insertions = |count: usize| Self { insertions: count as u64, ..Self::default() };
        let mut row: Vec<Self> = (0..=transcript.len()).map(insertions).collect();
        for word in &reference {
            let mut diagonal = row[0];
            row[0].deletions += 1;
            for (place, transcribed) in transcript.iter().enumerate() {
                let above = row[place + 1];
                let with = |errors: Self, substitutions, insertions, deletions| Self {
                    words: 0,
                    substitutions: errors.substitutions + substitutions,
                    insertions: errors.insertions + insertions,
                    deletions: errors.deletions + deletions,
                };
                let candidates = [
                    with(diagonal, u64::from(word != transcribed), 0, 0),
                    with(above, 0, 0, 1),
                    with(row[place], 0, 1, 0),
                ];
                // Of equal alignments the first: a substitution before a deletion before an insertion.
                let [first, second, third] = candidates;
                let best = if second.errors() < first.errors() { second } else { first };
                row[place + 1] = if third.errors() < best.errors() { third } else { best };
                diagonal = above;
            }
        }
        let best = row.last().copied().unwrap_or_default();
        Self { words: reference.len() as u64, ..best }
    }

    /// Returns the sum of all errors.
    pub const fn errors(&self) -> u64 {
        self.substitutions + self.insertions + self.deletions
    }

    /// Returns the errors per word of the reference; may exceed 1. `None` without a reference.
    pub fn rate(&self) -> Option<f64> {
        (self.words > 0).then(|| self.errors() as f64 / self.words as f64)
    }
}

/// Adds the errors of another document.
impl AddAssign for WordErrors {
    fn add_assign(&mut self, other: Self) {
        self.words += other.words;
        self.substitutions += other.substitutions;
        self.insertions += other.insertions;
        self.deletions += other.deletions;
    }
}

/// Returns the normalized words of a text.
pub fn normalized(text: &str) -> Vec<String> {
    let plain: String = text
        .nfkc()
        .flat_map(char::to_lowercase)
        .map(|c| if matches!(c, '\u{2019}' | '\u{2bc}' | '`') { '\'' } else { c })
        .map(|c| if c.is_alphanumeric() || c == '\'' { c } else { ' ' })
        .collect();
    let words = plain.split_whitespace().map(|word| word.trim_matches('\''));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{WordErrors, normalized};

    fn errors(reference: &str, transcript: &str) -> (u64, u64, u64, u64) {
        let errors = WordErrors::count(reference, transcript);
        (errors.words, errors.substitutions, errors.insertions, errors.deletions)
    }

    #[test]
    fn error_kinds_are_counted() {
        assert_eq!(errors("go forward ten meters", "go forward ten meters"), (4, 0, 0, 0));
        assert_eq!(errors("go forward ten meters", "go for ward ten meters"), (4, 1, 1, 0));
        assert_eq!(errors("go forward ten meters", "go ten meters"), (4, 0, 0, 1));
        assert_eq!(errors("go forward ten meters", ""), (4, 0, 0, 4));
        assert_eq!(errors("", "go"), (0, 0, 1, 0));
        assert_eq!(errors("a b c d", "b c d e"), (4, 0, 1, 1));
        assert_eq!(WordErrors::count("", "go").rate(), None);
        assert_eq!(WordErrors::count("a b", "c d e f").rate(), Some(2.0));
    }

    #[test]
    fn error_count_equals_edit_distance() {
        // Against the plain recursion, on all pairs of texts of up to four words out of two.
        fn distance(one: &[u8], other: &[u8]) -> u64 {
            match (one, other) {
                ([], rest) | (rest, []) => rest.len() as u64,
                ([a, one_rest @ ..], [b, other_rest @ ..]) => {
                    let substituted = distance(one_rest, other_rest) + u64::from(a != b);
                    substituted.min(distance(one_rest, other) + 1).min(distance(one, other_rest) + 1)
                }
            }
        }
        let texts: Vec<Vec<u8>> = (0..=4_u32)
            .flat_map(|length| {
                (0..1_u32 << length).map(move |bits| (0..length).map(|n| b'a' + (bits >> n & 1) as u8).collect())
            })
            .collect();
        let words =
            |text: &[u8]| text.iter().map(|letter| char::from(*letter).to_string()).collect::<Vec<_>>().join(" ");
        for one in &texts {
            for other in &texts {
                let errors = WordErrors::count(&words(one), &words(other));
                assert_eq!(errors.errors(), distance(one, other), "{one:?} {other:?}");
                assert_eq!(errors.words + errors.insertions, other.len() as u64 + errors.deletions);
            }
        }
    }

    #[test]
    fn case_and_punctuation_are_ignored() {
        assert_eq!(errors("It's Mr. O\u{2019}Neil\u{2014}again!", "it's mr o'neil again"), (4, 0, 0, 0));
        assert_eq!(normalized("\u{201c}Tea,\u{201d} \u{fb01}ve 'quoted' \u{2014}"), ["tea", "five", "quoted"]);
        assert_eq!(errors("its", "it's"), (1, 1, 0, 0));
    }

    #[test]
    fn errors_of_documents_add_up() {
        let mut all = WordErrors::count("a b", "a");
        all += WordErrors::count("c", "c d");
        assert_eq!((all.words, all.errors(), all.rate()), (3, 2, Some(2.0 / 3.0)));
    }
}
