//! Normalization of every query, applied before any other processing: it defines which spellings are the same query.
//!
//! The rules are options fixed in advance and recorded in the dataset's description, and depend on one text alone. They
//! must never learn from the log (for example, correct a spelling towards a frequent neighbour): k-anonymity after
//! sampling is proved for a map of rows that does not depend on the data. The order is: Unicode normal form, lower
//! case, punctuation, digits, blanks, and the normal form again. The map is idempotent. To add a rule: an enum whose
//! default changes nothing, a step in [`TextNormalizer::apply`], an option in `cli/data`.

use std::fmt;

use serde::{Deserialize, Serialize};
use unicode_normalization::{UnicodeNormalization, is_nfc, is_nfkc};
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// The Unicode normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnicodeForm {
    /// Unchanged.
    Keep,
    /// NFC: a letter and its accent become one character.
    #[default]
    Nfc,
    /// NFKC: also replaces wide, circled and ligated characters by plain ones.
    Nfkc,
}

/// The treatment of capitals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseRule {
    /// Unchanged.
    Keep,
    /// Lower case, by Unicode's table, independent of the language.
    #[default]
    Lower,
}

/// The treatment of punctuation (Unicode's general category P).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PunctuationRule {
    /// Unchanged.
    #[default]
    Keep,
    /// Replaced by a blank, except for apostrophes and hyphens between letters or digits; a curly apostrophe becomes a
    /// straight one.
    Drop,
}

/// The treatment of digits (Unicode's decimal digits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DigitRule {
    /// Unchanged.
    #[default]
    Keep,
    /// Each becomes `0`, so that numbers with the same count of digits are equal.
    Zero,
}

/// The treatment of blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlankRule {
    /// Unchanged.
    Keep,
    /// Every run of white space and control characters becomes one space, with none at the ends. Formatting characters
    /// (a byte order mark, a change of direction) are removed, except for joiners.
    #[default]
    Single,
}

/// The rules of a normalization.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TextNormalization {
    /// The normal form.
    pub form: UnicodeForm,
    /// The treatment of capitals.
    pub case: CaseRule,
    /// The treatment of punctuation.
    pub punctuation: PunctuationRule,
    /// The treatment of digits.
    pub digits: DigitRule,
    /// The treatment of blanks.
    pub blanks: BlankRule,
}

impl TextNormalization {
    /// The identity.
    pub const NONE: Self = Self {
        form: UnicodeForm::Keep,
        case: CaseRule::Keep,
        punctuation: PunctuationRule::Keep,
        digits: DigitRule::Keep,
        blanks: BlankRule::Keep,
    };
}

impl fmt::Display for TextNormalization {
    /// Formats the rules as text, for reports.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let steps = [
            match self.form {
                UnicodeForm::Keep => "",
                UnicodeForm::Nfc => "NFC",
                UnicodeForm::Nfkc => "NFKC",
            },
            match self.case {
                CaseRule::Keep => "",
                CaseRule::Lower => "lower case",
            },
            match self.punctuation {
                PunctuationRule::Keep => "",
                PunctuationRule::Drop => "no punctuation",
            },
            match self.digits {
                DigitRule::Keep => "",
                DigitRule::Zero => "every digit 0",
            },
            match self.blanks {
                BlankRule::Keep => "",
                BlankRule::Single => "single blanks",
            },
        ];
        let steps: Vec<&str> = steps.into_iter().filter(|step| !step.is_empty()).collect();
        f.write_str(if steps.is_empty() { "as they came" } else { "" })?;
        f.write_str(&steps.join(", "))
    }
}

/// Returns the Unicode versions of the tables for normal forms, for case, and for punctuation and digits.
pub fn unicode() -> String {
    let forms = unicode_normalization::UNICODE_VERSION;
    let case = char::UNICODE_VERSION;
    let classes = unicode_properties::UNICODE_VERSION;
    format!(
        "{}.{}.{} (forms), {}.{}.{} (case), {}.{}.{} (classes)",
        forms.0, forms.1, forms.2, case.0, case.1, case.2, classes.0, classes.1, classes.2
    )
}

/// Applies a normalization, and reuses its buffers from text to text.
#[derive(Debug, Clone, Default)]
pub struct TextNormalizer {
    rules: TextNormalization,
    formed: String,
    mapped: String,
}

impl TextNormalizer {
    /// Makes a normalizer with these rules.
    pub fn new(rules: TextNormalization) -> Self {
        Self { rules, ..Self::default() }
    }

    /// Returns the normalized text; empty if nothing remains.
    pub fn apply(&mut self, text: &str) -> &str {
        self.mapped.clear();
        if text.is_ascii() {
            self.ascii(text.as_bytes());
            return &self.mapped;
        }
        self.formed.clear();
        form(self.rules.form, text, &mut self.formed);
        if self.rules.case == CaseRule::Lower {
            self.formed = self.formed.to_lowercase();
        }
        self.characters();
        // A removed character may have separated characters that compose when adjacent.
        if !is_formed(self.rules.form, &self.mapped) {
            self.formed.clear();
            form(self.rules.form, &self.mapped, &mut self.formed);
            std::mem::swap(&mut self.formed, &mut self.mapped);
        }
        &self.mapped
    }

    /// Does the same as [`TextNormalizer::characters`] for ASCII, the most common case; every normal form leaves it
    /// unchanged.
    fn ascii(&mut self, text: &[u8]) {
        let TextNormalization { case, punctuation, digits, blanks, .. } = self.rules;
        let (mut gap, mut before) = (false, b' ');
        for (at, byte) in text.iter().copied().enumerate() {
            let mut byte = byte;
            if case == CaseRule::Lower {
                byte.make_ascii_lowercase();
            }
            if punctuation == PunctuationRule::Drop && is_ascii_punctuation(byte) {
                let after = text.get(at + 1).copied().unwrap_or(b' ');
                let within = before.is_ascii_alphanumeric() && after.is_ascii_alphanumeric();
                before = byte;
                if !(matches!(byte, b'\'' | b'-') && within) {
                    byte = b' ';
                }
            } else {
                before = byte;
            }
            if digits == DigitRule::Zero && byte.is_ascii_digit() {
                byte = b'0';
            }
            if blanks == BlankRule::Single {
                if byte == b' ' || byte.is_ascii_control() {
                    gap = true;
                    continue;
                }
                if gap && !self.mapped.is_empty() {
                    self.mapped.push(' ');
                }
                gap = false;
            }
            self.mapped.push(char::from(byte));
        }
    }

    /// Applies the rules for punctuation, digits and blanks, from `formed` to `mapped`.
    fn characters(&mut self) {
        let TextNormalization { punctuation, digits, blanks, .. } = self.rules;
        let (mut gap, mut before) = (false, ' ');
        let mut rest = self.formed.chars();
        while let Some(original) = rest.next() {
            let mut character = original;
            if punctuation == PunctuationRule::Drop
                && original.general_category_group() == GeneralCategoryGroup::Punctuation
            {
                let within = in_word(before) && rest.clone().next().is_some_and(in_word);
                character = match original {
                    '\'' | '\u{2019}' if within => '\'',
                    '-' | '\u{2010}' | '\u{2011}' if within => '-',
                    _ => ' ',
                };
            }
            before = original;
            if digits == DigitRule::Zero && character.general_category() == GeneralCategory::DecimalNumber {
                character = '0';
            }
            if blanks == BlankRule::Single {
                if character.is_whitespace() || character.is_control() {
                    gap = true;
                    continue;
                }
                let joiner = matches!(character, '\u{200c}' | '\u{200d}');
                if character.general_category() == GeneralCategory::Format && !joiner {
                    continue;
                }
                if gap && !self.mapped.is_empty() {
                    self.mapped.push(' ');
                }
                gap = false;
            }
            self.mapped.push(character);
        }
    }
}

fn form(form: UnicodeForm, text: &str, into: &mut String) {
    match form {
        UnicodeForm::Keep => into.push_str(text),
        UnicodeForm::Nfc if is_nfc(text) => into.push_str(text),
        UnicodeForm::Nfc => into.extend(text.nfc()),
        UnicodeForm::Nfkc if is_nfkc(text) => into.push_str(text),
        UnicodeForm::Nfkc => into.extend(text.nfkc()),
    }
}

fn is_formed(form: UnicodeForm, text: &str) -> bool {
    match form {
        UnicodeForm::Keep => true,
        UnicodeForm::Nfc => is_nfc(text),
        UnicodeForm::Nfkc => is_nfkc(text),
    }
}

/// Returns whether a byte below 128 is in category P: `is_ascii_punctuation` without the symbols.
fn is_ascii_punctuation(byte: u8) -> bool {
    byte.is_ascii_punctuation() && !matches!(byte, b'$' | b'+' | b'<' | b'=' | b'>' | b'^' | b'`' | b'|' | b'~')
}

/// Returns whether a character is a letter, a digit, or a mark on one.
fn in_word(character: char) -> bool {
    character.is_alphanumeric() || character.general_category_group() == GeneralCategoryGroup::Mark
}

#[cfg(test)]
mod tests;
