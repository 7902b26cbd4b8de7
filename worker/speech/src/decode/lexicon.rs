//! Pronouncing dictionaries in the format of the CMU Pronouncing Dictionary: a line `WORD PHONE PHONE ...` for each
//! pronunciation, `WORD(2)` for the second one of a word, and comments after `#` or `;;;`.
//!
//! Stress digits and word positions are removed from phones, as in [phone maps](crate::align::PhoneMap). A line may be a
//! word alone: recognizers of characters need no pronunciation.

use std::io::BufRead;
use std::path::Path;

use super::input::{FileKind, InputError, NumberedLines};
use crate::align::phones::plain_phone;

const KIND: FileKind = FileKind {
    name: "lexicon",
    most_bytes: 256 << 20,
    remedy: "keep only the words that occur in the language model or the recordings",
};
/// Maximum number of pronunciations.
const MOST_PRONUNCIATIONS: usize = 2_000_000;
/// Maximum number of phones of a pronunciation.
const MOST_PHONES: usize = 100;

/// One pronunciation of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pronunciation {
    /// The word as written, without the number of the pronunciation.
    pub word: String,
    /// Its phones, without stress; empty if the line is the word alone.
    pub phones: Vec<String>,
    /// The line of the file, from 1.
    pub line: usize,
}

/// The words of a recognizer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Lexicon {
    entries: Vec<Pronunciation>,
}

impl Lexicon {
    /// Reads a dictionary.
    ///
    /// # Errors
    /// [`InputError`] with the line, or if the file has no word or is above a limit.
    pub fn read(path: &Path) -> Result<Self, InputError> {
        Self::parse_lines(NumberedLines::open(path, KIND)?)
    }

    /// Reads a dictionary from text; `path` names it in errors.
    ///
    /// # Errors
    /// [`InputError`] as [`Lexicon::read`].
    pub fn parse(reader: impl BufRead, path: &Path) -> Result<Self, InputError> {
        Self::parse_lines(NumberedLines::new(reader, path, KIND))
    }

    fn parse_lines(mut lines: NumberedLines<impl BufRead>) -> Result<Self, InputError> {
        let mut entries = Vec::new();
        while let Some(line) = lines.next_line()? {
            if line.starts_with(";;;") {
                continue;
            }
            let mut fields = line.split_whitespace().take_while(|field| !field.starts_with('#'));
            let Some(written) = fields.next() else { continue };
            let word = without_number(written).to_owned();
            let phones: Vec<String> = fields.map(plain_phone).collect();
            if phones.len() > MOST_PHONES {
                return Err(lines.error(format!("`{word}` has more than {MOST_PHONES} phones: remove the line")));
            }
            entries.push(Pronunciation { word, phones, line: lines.number() });
            if entries.len() > MOST_PRONUNCIATIONS {
                let reason = format!("more than {MOST_PRONUNCIATIONS} pronunciations: {}", KIND.remedy);
                return Err(lines.error(reason));
            }
        }
        if entries.is_empty() {
            return Err(lines.content_error("it has no word; a line is `WORD PHONE PHONE ...`"));
        }
        Ok(Self { entries })
    }

    /// Returns all pronunciations, in the order of the file.
    pub fn pronunciations(&self) -> &[Pronunciation] {
        &self.entries
    }
}

/// Returns `WORD` of `WORD(2)`.
fn without_number(written: &str) -> &str {
    let number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match written.strip_suffix(')').and_then(|open| open.rsplit_once('(')) {
        Some((word, rest)) if !word.is_empty() && number(rest) => word,
        _ => written,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::Path;

    use super::{Lexicon, MOST_PHONES};

    fn parse(text: &[u8]) -> Result<Lexicon, String> {
        Lexicon::parse(text, Path::new("words.dict")).map_err(|error| error.to_string())
    }

    #[test]
    fn cmu_dictionary_lines_are_read() {
        let text =
            b";;; comment\n\na AH0\na(2) EY1\naalborg AO1 L B AO0 R G # place, danish\n'bout B AW1 T\nalone\n(x) K\n";
        let lexicon = parse(text).unwrap();
        let entries: Vec<_> =
            lexicon.pronunciations().iter().map(|one| (one.word.as_str(), one.phones.join(" "), one.line)).collect();
        let expected =
            [("a", "AH", 3), ("a", "EY", 4), ("aalborg", "AO L B AO R G", 5), ("'bout", "B AW T", 6), ("alone", "", 7)];
        assert_eq!(entries[..5], expected.map(|(word, phones, line)| (word, phones.to_owned(), line)));
        assert_eq!(entries[5].0, "(x)");
    }

    #[test]
    fn invalid_dictionary_names_its_line() {
        assert!(parse(b"# nothing\n").unwrap_err().contains("words.dict is no lexicon"));
        assert!(parse(b"a AH0\n\xff\xfe B\n").unwrap_err().contains("words.dict, line 2: not UTF-8"));
        let long = format!("a AH0\nlong {}\n", "B ".repeat(MOST_PHONES + 1));
        assert!(parse(long.as_bytes()).unwrap_err().contains("line 2: `long` has more than 100 phones"));
        assert!(parse(long.replacen("B ", "", 1).as_bytes()).is_ok());
        assert!(Lexicon::read(Path::new("/absent.dict")).unwrap_err().to_string().contains("/absent.dict"));
    }
}
