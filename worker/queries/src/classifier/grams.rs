//! Texts as hashed n-grams (Weinberger et al. 2009; Joulin et al. 2017).
//!
//! A text is lower-cased and split at white space. Each word gives these grams: the word itself, and the runs of 3, 4
//! and 5 characters of the word in angle brackets. Each pair of neighbouring words gives one more gram. Each gram maps
//! to one of the table's rows by a hash that is the same on every machine and in every version, because a saved
//! classifier must give the same results everywhere. The hash need not be secret: this module hashes only visible
//! texts, and a collision costs a little accuracy.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Lengths of the character runs.
const RUNS: Range<usize> = 3..6;
/// Longest prefix of a word that is used, in characters. Longer strings are not words.
const LONGEST: usize = 40;
/// Largest number of words of a text that are used.
const WORDS: usize = 400;

/// The kind of a gram. Grams of different kinds have different hashes.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum GramKind {
    Word = 1,
    Pair = 2,
    Run = 3,
}

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
        let mut add = |kind: GramKind, gram: &str| {
            let hash = xxh3_64_with_seed(gram.as_bytes(), kind as u64);
            // The high bits of a product: uniform for any number of rows.
            self.rows.push(((u128::from(hash) * buckets as u128) >> 64) as u32);
        };
        let framed: String =
            std::iter::once('<').chain(word.chars().take(LONGEST)).chain(std::iter::once('>')).collect();
        add(GramKind::Word, &framed);
        if let Some(before) = before {
            add(GramKind::Pair, &format!("{before} {word}"));
        }
        let starts: Vec<usize> = framed.char_indices().map(|(at, _)| at).chain([framed.len()]).collect();
        for run in RUNS {
            for window in starts.windows(run + 1) {
                add(GramKind::Run, &framed[window[0]..window[run]]);
            }
        }
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
