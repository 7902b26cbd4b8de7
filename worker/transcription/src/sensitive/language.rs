//! The sensitive lists of a language: its file, and the search for names, places and numbers.

use std::collections::HashSet;
use std::ops::Range;

use regex::Regex;
use serde::Deserialize;

use super::hit::SensitiveKind;
use super::phrases::PhraseSet;
use super::settings::{SensitiveError, compile_pattern};

/// The bundled files, by language code.
const FILES: [(&str, &str); 2] = [("de", include_str!("de.toml")), ("en", include_str!("en.toml"))];
/// Largest accepted file, in bytes: 4 MiB.
pub const LARGEST: usize = 4 << 20;

/// The parsed lists of a language.
pub struct SensitiveLexicon {
    code: String,
    function: HashSet<String>,
    numbers: HashSet<String>,
    doubtful_numbers: HashSet<String>,
    joiners: HashSet<String>,
    given: HashSet<String>,
    doubtful_given: HashSet<String>,
    surnames: HashSet<String>,
    places: PhraseSet,
    titles: HashSet<String>,
    kinds: HashSet<String>,
    patterns: Vec<Regex>,
}

/// The file format. Words are separated by white space, the words of one name by `_`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LexiconFile {
    language: String,
    function: String,
    numbers: String,
    doubtful_numbers: String,
    joiners: String,
    given: String,
    doubtful_given: String,
    surnames: String,
    places: String,
    titles: String,
    kinds: String,
    patterns: Vec<NamedPattern>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedPattern {
    name: String,
    regex: String,
}

impl SensitiveLexicon {
    /// Returns a bundled lexicon: `de` or `en`.
    ///
    /// # Errors
    /// [`SensitiveError`] that lists the bundled languages.
    pub fn bundled(code: &str) -> Result<Self, SensitiveError> {
        let file = FILES.iter().find(|(known, _)| *known == code).map(|(_, file)| *file);
        let codes: Vec<&str> = FILES.iter().map(|(known, _)| *known).collect();
        let reason =
            || format!("{code:?} has no list of sensitive words: choose {}, or give a file", codes.join(" or "));
        Self::parse(file.ok_or_else(|| SensitiveError { field: "language", reason: reason() })?)
    }

    /// Parses a file in the format of `en.toml`.
    ///
    /// # Errors
    /// [`SensitiveError`] with the mistake.
    pub fn parse(text: &str) -> Result<Self, SensitiveError> {
        let wrong = |reason: String| SensitiveError { field: "language", reason };
        if text.len() > LARGEST {
            return Err(wrong(format!("the file has {} bytes: at most {LARGEST}", text.len())));
        }
        let file: LexiconFile = toml::from_str(text).map_err(|error| wrong(error.message().to_owned()))?;
        let mut places = PhraseSet::default();
        for place in file.places.split_whitespace() {
            places.add(&place.replace('_', " "));
        }
        let compiled = |NamedPattern { name, regex }: NamedPattern| {
            compile_pattern(&regex).map_err(|reason| wrong(format!("pattern {name} {reason}")))
        };
        Ok(Self {
            code: file.language,
            function: set(&file.function),
            numbers: set(&file.numbers),
            doubtful_numbers: set(&file.doubtful_numbers),
            joiners: set(&file.joiners),
            given: set(&file.given),
            doubtful_given: set(&file.doubtful_given),
            surnames: set(&file.surnames),
            places,
            titles: set(&file.titles),
            kinds: set(&file.kinds),
            patterns: file.patterns.into_iter().map(compiled).collect::<Result<_, _>>()?,
        })
    }

    /// Returns the language code, such as `en`.
    pub fn code(&self) -> &str {
        &self.code
    }

    pub(super) fn patterns(&self) -> &[Regex] {
        &self.patterns
    }

    /// Calls `hit` with every number, name and place among `tokens`; with doubtful ones only if `doubtful` is set.
    pub(super) fn find(&self, tokens: &[String], doubtful: bool, hit: &mut impl FnMut(Range<usize>, SensitiveKind)) {
        let number = |at: usize| tokens.get(at).is_some_and(|token| self.is_number(token, doubtful));
        for (at, token) in tokens.iter().enumerate() {
            // The word after a name or a title counts as a name too, unless it is a function word.
            let goes_on = |at: usize| tokens.get(at).is_some_and(|token| !self.function.contains(token));
            let joins = self.joiners.contains(token) && (number(at + 1) || at.checked_sub(1).is_some_and(number));
            if number(at) || joins {
                hit(at..at + 1, SensitiveKind::Number);
            }
            if self.is_given(token, doubtful) {
                hit(at..at + 1 + usize::from(goes_on(at + 1)), SensitiveKind::Name);
            } else if contains(&self.surnames, token) {
                hit(at..at + 1, SensitiveKind::Name);
            }
            if self.titles.contains(token) && goes_on(at + 1) {
                hit(at..at + 2 + usize::from(goes_on(at + 2)), SensitiveKind::Name);
            }
            if self.kinds.contains(token) {
                let name_words = (1..=2).take_while(|back| at.checked_sub(*back).is_some_and(goes_on)).count();
                if name_words > 0 {
                    hit(at - name_words..at + 1, SensitiveKind::Place);
                }
            }
        }
        for range in self.places.find(tokens) {
            hit(range, SensitiveKind::Place);
        }
    }

    fn is_number(&self, token: &str, doubtful: bool) -> bool {
        token.chars().any(char::is_numeric)
            || self.numbers.contains(token)
            || (doubtful && self.doubtful_numbers.contains(token))
    }

    fn is_given(&self, token: &str, doubtful: bool) -> bool {
        contains(&self.given, token) || (doubtful && contains(&self.doubtful_given, token))
    }
}

/// Returns whether `token` is a name, or the plural of a name: `the smiths`.
fn contains(names: &HashSet<String>, token: &str) -> bool {
    let one = token.strip_suffix('s').filter(|one| one.chars().count() > 3);
    names.contains(token) || one.is_some_and(|one| names.contains(one))
}

fn set(words: &str) -> HashSet<String> {
    words.split_whitespace().map(str::to_owned).collect()
}
