//! Codes of short keys whose values nobody declares, such as codes of diagnoses, drugs or postal areas.
//!
//! A key has letters of A to Z, digits, and `.`, `-`, `_`, `/`, `+`, `:`, `#` and the space between them. Small letters
//! become capital ones, and blanks at the ends are removed. Its code has the symbols as digits to the base 45, the first
//! symbol in the highest place; 0 stands for no symbol, after the last one. So the codes of the keys of a column have the
//! order of their texts, and the greatest is below 45⁹ < 2⁵².

/// The longest key of a column, in symbols.
pub const LONGEST_KEY: u32 = 9;
/// The symbols, in the order of their digits from 1.
const SYMBOLS: &[u8; 44] = b" #+-./0123456789:ABCDEFGHIJKLMNOPQRSTUVWXYZ_";
/// The base of the digits.
const BASE: i64 = SYMBOLS.len() as i64 + 1;
/// The digit of the space.
const BLANK: i64 = 1;

/// Returns the number of codes of keys with at most `longest` symbols: 45 to that power.
pub(super) const fn count_codes(longest: u32) -> i64 {
    BASE.saturating_pow(longest)
}

/// Returns the code of a key; `None` for a text with another symbol, with none, or with more than `longest`.
pub(super) fn encode_key(text: &str, longest: u32) -> Option<i64> {
    let text = text.trim();
    if text.is_empty() || text.len() > longest.min(LONGEST_KEY) as usize {
        return None;
    }
    let mut code = 0;
    for byte in text.bytes() {
        let symbol = byte.to_ascii_uppercase();
        let digit = SYMBOLS.iter().position(|own| *own == symbol)? as i64 + 1;
        code = code * BASE + digit;
    }
    (text.len()..longest as usize).try_fold(code, |code, _| Some(code * BASE))
}

/// Returns whether [`encode_key`] returns a code for some text. The digits are read from the last symbol to the first.
#[inline]
pub(super) fn is_key(code: i64, longest: u32) -> bool {
    let mut rest = code;
    let mut symbols = 0;
    let mut first = BLANK;
    for _ in 0..longest {
        let digit = rest % BASE;
        rest /= BASE;
        match (digit, symbols) {
            // No symbol is before another one, and no blank is the last one.
            (0, 0) => {}
            (..=0, _) | (BLANK, 0) => return false,
            _ => {
                symbols += 1;
                first = digit;
            }
        }
    }
    rest == 0 && first != BLANK && symbols <= LONGEST_KEY
}

/// Returns the key of a code; `None` for a code that [`encode_key`] does not return.
pub(super) fn decode_key(code: i64, longest: u32) -> Option<String> {
    if !is_key(code, longest) {
        return None;
    }
    let mut rest = code;
    let mut symbols = Vec::new();
    while rest > 0 {
        if let Some(place) = usize::try_from(rest % BASE).ok().and_then(|digit| digit.checked_sub(1)) {
            symbols.push(*SYMBOLS.get(place)?);
        }
        rest /= BASE;
    }
    symbols.reverse();
    String::from_utf8(symbols).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{LONGEST_KEY, SYMBOLS, count_codes, decode_key, encode_key, is_key};
    use crate::table::MOST_CODE;

    #[test]
    fn keys_round_trip_in_the_order_of_their_texts() {
        let mut keys = ["I21.4", "E11", "12345-6", "J45.909", "A", "I21", "C09AA05", "0"];
        keys.sort_unstable();
        let codes: Vec<i64> = keys.iter().filter_map(|key| encode_key(key, 7)).collect();
        assert_eq!(codes.len(), keys.len());
        assert!(codes.is_sorted(), "{codes:?}");
        let back: Vec<_> = codes.iter().map(|code| decode_key(*code, 7)).collect();
        assert_eq!(back, keys.map(|key| Some(key.to_owned())));
    }

    #[test]
    fn cases_and_blanks_at_the_ends_do_not_make_another_key() {
        assert_eq!(encode_key(" i21.4 ", 7), encode_key("I21.4", 7));
        assert_ne!(encode_key("I21 4", 7), encode_key("I214", 7));
    }

    #[test]
    fn texts_that_are_no_key_have_no_code() {
        for text in ["", "  ", "12345678", "É11", "I21;4", "a\tb"] {
            assert_eq!(encode_key(text, 7), None, "{text:?}");
        }
        assert!(encode_key("12345678", 8).is_some());
    }

    #[test]
    fn codes_of_no_key_have_no_text() {
        // A symbol after the end of the key, a blank at its end, no symbol, and beyond the range.
        for code in [1, encode_key("A", 2).unwrap_or_default() + 1, 0, -1, count_codes(2)] {
            assert_eq!(decode_key(code, 2), None, "{code}");
        }
    }

    #[test]
    fn codes_are_of_keys_if_a_text_has_them() {
        let symbols = || SYMBOLS.iter().map(|symbol| char::from(*symbol).to_string());
        let pairs = symbols().flat_map(|first| symbols().map(move |second| format!("{first}{second}")));
        let codes: BTreeSet<i64> = symbols().chain(pairs).filter_map(|text| encode_key(&text, 2)).collect();
        for code in -50..count_codes(2) + 50 {
            assert_eq!(is_key(code, 2), codes.contains(&code), "{code}");
        }
        assert!(!is_key(i64::MIN, LONGEST_KEY) && !is_key(i64::MAX, LONGEST_KEY));
    }

    #[test]
    fn longest_keys_have_codes_below_the_greatest() {
        assert!(count_codes(LONGEST_KEY) <= MOST_CODE);
        assert!(count_codes(LONGEST_KEY + 1) > MOST_CODE);
        assert!(SYMBOLS.is_sorted(), "codes have the order of texts");
        let greatest = "_".repeat(LONGEST_KEY as usize);
        assert_eq!(encode_key(&greatest, LONGEST_KEY), Some(count_codes(LONGEST_KEY) - 1));
        assert_eq!(decode_key(count_codes(LONGEST_KEY) - 1, LONGEST_KEY), Some(greatest));
    }
}
