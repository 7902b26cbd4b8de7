//! Texts as hashed n-grams: each gram of a word ([`visit_word_grams`]) is a row of the classifier's table. This module
//! hashes only visible texts, and a collision costs a little accuracy.

use undertone_api::table::grams::{select_bucket, visit_word_grams};

/// Largest number of words of a text that are used.
const WORDS: usize = 400;

/// The rows of a text, word by word.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HashedGrams {
    /// Rows of the table.
    rows: Vec<u32>,
    /// The end of each word's rows; at least one word.
    ends: Vec<u32>,
}

impl HashedGrams {
    /// Hashes a text for a table of `buckets` rows.
    pub(super) fn new(text: &str, buckets: usize) -> Self {
        let mut grams = Self::default();
        let text = text.to_lowercase();
        let mut before: Option<&str> = None;
        for word in text.split_whitespace().take(WORDS) {
            grams.word(word, before, buckets);
            before = Some(word);
        }
        if grams.ends.is_empty() {
            grams.word("", None, buckets);
        }
        grams
    }

    fn word(&mut self, word: &str, before: Option<&str>, buckets: usize) {
        visit_word_grams(word, before, true, &mut |hash| self.rows.push(select_bucket(hash, buckets)));
        self.ends.push(self.rows.len() as u32);
    }

    /// Returns all rows.
    pub(super) fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the number of words.
    pub(super) fn words(&self) -> usize {
        self.ends.len()
    }

    /// Iterates over the rows of each word.
    pub(super) fn of_words(&self) -> impl Iterator<Item = &[u32]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.rows[start as usize..*end as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::HashedGrams;

    #[test]
    fn gram_hashes_match_the_reference() {
        // From the reference implementation of xxh3: the word with seed 1, runs of 3, 4 and 5 characters with seed 3,
        // the pair with seed 2; each hash times 1,024, over 2⁶⁴.
        let grams = HashedGrams::new("Yes", 1024);
        assert_eq!((grams.words(), grams.rows()), (1, [261, 294, 677, 905, 33, 77, 745].as_slice()));
        assert!(HashedGrams::new("oh yes", 1024).rows().contains(&101));
        assert_eq!(grams, HashedGrams::new("  yes ", 1024), "case and blanks say nothing");
        assert_ne!(grams, HashedGrams::new("yes!", 1024));
    }

    #[test]
    fn every_text_has_a_word_with_a_row() {
        for text in ["", " ", "\u{3000}", "a"] {
            let grams = HashedGrams::new(text, 64);
            assert_eq!(grams.words(), 1);
            assert!(grams.of_words().all(|rows| !rows.is_empty()));
        }
    }

    #[test]
    fn pair_grams_belong_to_the_second_word() {
        let grams = HashedGrams::new("my order", 1 << 20);
        let [first, second]: [&[u32]; 2] = grams.of_words().collect::<Vec<_>>().try_into().expect("two words");
        assert_eq!(first, HashedGrams::new("my", 1 << 20).rows());
        let alone = HashedGrams::new("order", 1 << 20);
        assert_eq!(second.len(), alone.rows().len() + 1);
        assert!(alone.rows().iter().all(|row| second.contains(row)));
    }

    #[test]
    fn gram_rows_cover_the_table() {
        let texts: Vec<String> = (0..400).map(|n| format!("{n} word{n}")).collect();
        let rows: Vec<u32> = texts.iter().flat_map(|text| HashedGrams::new(text, 37).rows().to_vec()).collect();
        assert!(rows.iter().all(|row| *row < 37));
        let mut frequencies = [0_u32; 37];
        for row in rows {
            frequencies[row as usize] += 1;
        }
        assert!(frequencies.iter().all(|count| *count > 0), "{frequencies:?}");
    }
}
