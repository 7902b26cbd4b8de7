//! Texts as hashed n-grams (Weinberger et al. 2009; Joulin et al. 2017).
//!
//! A text is lower-cased and split at white space. A word gives these grams: the word itself, its pair with the word
//! before it, and on request the runs of 3, 4 and 5 characters of the word in angle brackets. The hash of a gram is
//! xxh3 with 64 bits, seeded by the kind of the gram. It has no key and is the same on every machine and in every
//! version, because sites train one model together and a saved model must give the same results everywhere. Hashes of
//! words can be reversed with a dictionary, so they are as private as the text.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Lengths of the character runs.
const RUNS: Range<usize> = 3..6;
/// Longest prefix of a word that is hashed, in characters. Longer strings are not words.
const LONGEST_WORD: usize = 40;
/// The bits of a gram's code: exact in 64-bit floating point, as all codes.
const CODE_BITS: u32 = 52;

/// The kind of a gram. Grams of different kinds have different hashes.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
enum GramKind {
    Word = 1,
    Pair = 2,
    Run = 3,
}

/// Calls `visit` with the hash of each gram of a word: the word, its pair with the word `before` it, then with
/// `characters` its runs of characters.
pub fn visit_word_grams(word: &str, before: Option<&str>, characters: bool, visit: &mut dyn FnMut(u64)) {
    let mut hash = |kind: GramKind, gram: &str| visit(xxh3_64_with_seed(gram.as_bytes(), kind as u64));
    let framed: String =
        std::iter::once('<').chain(word.chars().take(LONGEST_WORD)).chain(std::iter::once('>')).collect();
    hash(GramKind::Word, &framed);
    if let Some(before) = before {
        hash(GramKind::Pair, &format!("{before} {word}"));
    }
    if !characters {
        return;
    }
    let starts: Vec<usize> = framed.char_indices().map(|(at, _)| at).chain([framed.len()]).collect();
    for run in RUNS {
        for window in starts.windows(run + 1) {
            hash(GramKind::Run, &framed[window[0]..window[run]]);
        }
    }
}

/// Returns the row of a hash in a table of `buckets` rows: the high bits of a product, uniform for any number of rows.
pub fn select_bucket(hash: u64, buckets: usize) -> u32 {
    ((u128::from(hash) * buckets as u128) >> 64) as u32
}

/// Returns the codes of the first `most` grams of a text, in the order of its words: the first 52 bits of each hash.
pub(super) fn encode_grams(text: &str, most: usize, characters: bool) -> Vec<i64> {
    let mut codes = Vec::new();
    let text = text.to_lowercase();
    let mut before = None;
    for word in text.split_whitespace() {
        if codes.len() >= most {
            break;
        }
        visit_word_grams(word, before, characters, &mut |hash| codes.push((hash >> (u64::BITS - CODE_BITS)) as i64));
        before = Some(word);
    }
    codes.truncate(most);
    codes
}

/// Returns the row of a gram's code in a table of `buckets` rows. A code outside the range counts as the nearest end.
pub fn select_code_bucket(code: i64, buckets: u32) -> u32 {
    let code = code.clamp(0, (1 << CODE_BITS) - 1).unsigned_abs();
    select_bucket(code << (u64::BITS - CODE_BITS), buckets as usize)
}

#[cfg(test)]
mod tests {
    use super::{encode_grams, select_bucket, select_code_bucket, visit_word_grams};

    #[test]
    fn codes_of_a_text_are_the_first_grams_of_its_words() {
        let words = encode_grams("  My ORDER my ", 100, false);
        assert_eq!(words.len(), 5, "three words and two pairs");
        assert_eq!(words, encode_grams("my order my", 100, false), "case and blanks have no effect");
        assert!(words[0] == words[3] && words[1] != words[3] && words[2] != words[4]);
        let characters = encode_grams("my order", 100, true);
        assert_eq!(characters.len(), 2 + 1 + (2 + 1) + (5 + 4 + 3), "runs of <my> and of <order>");
        for most in 0..7 {
            assert_eq!(encode_grams("my order", most, true), characters[..most]);
        }
        assert!(encode_grams(" \u{3000}", 9, true).is_empty());
        assert!(characters.iter().all(|code| (0..1 << 52).contains(code)));
    }

    #[test]
    fn bucket_of_a_code_is_that_of_its_hash() {
        let mut hashes = Vec::new();
        visit_word_grams("yes", None, true, &mut |hash| hashes.push(hash));
        let codes = encode_grams("yes", 100, true);
        for buckets in [1, 37, 1024] {
            let expected: Vec<u32> = hashes.iter().map(|hash| select_bucket(*hash, buckets as usize)).collect();
            let own: Vec<u32> = codes.iter().map(|code| select_code_bucket(*code, buckets)).collect();
            assert_eq!(own, expected);
        }
        // From the reference implementation of xxh3, see the classifier of queries.
        assert_eq!(codes.iter().map(|code| select_code_bucket(*code, 1024)).next(), Some(261));
        assert_eq!([-1, i64::MAX].map(|code| select_code_bucket(code, 8)), [0, 7]);
    }
}
