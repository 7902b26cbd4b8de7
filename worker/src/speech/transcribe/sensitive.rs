//! Which pieces never leave the site: those with a number, a name, a place, or whatever a user lists.
//!
//! Looked for in the first transcript, which is the recognizer's guess in lower case without punctuation: so names are found
//! by lists and by the words around them, not by capitals. What is in doubt stays at home: it then has the first transcript's
//! words, which are worse, and nobody else has them at all.
//!
//! | kind | found | not found |
//! |---|---|---|
//! | number | digits, number words, ordinals and what joins them | numbers that were heard as other words (`for`, `to`) |
//! | name | frequent given names and surnames, what follows a title or a given name | rare and foreign names: list them |
//! | place | states, their people, large cities, what goes before `street`, `hospital`, ... | small places: list them |
//! | listed | the user's words and phrases, `word*` for all that begin so | other spellings |
//! | pattern | by regular expression: dates, births, spelled letters, addresses, secrets, the user's own | |
//! | unsure | words that the recognizer is not sure of, if asked for | |
//! | unheard | speech in which it heard nothing | |
//!
//! What the recognizer hears as another word is not found by any of these: its dictionary lacks most rare names. That is why
//! a piece that leaves is still protected by everything else. To add a language: a file beside `en.toml`, and its name in
//! [`language`]; a site may also give a file of its own.

pub mod language;
mod phrases;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use self::language::Language;
use self::phrases::Phrases;
use super::piece::{Piece, Word};

/// Entries of a user's list.
pub const MOST_LISTED: usize = 10_000;
/// Patterns of a user.
pub const MOST_PATTERNS: usize = 100;
/// Size of a compiled pattern, bytes: 1 MiB.
pub(crate) const LARGEST_PATTERN: usize = 1 << 20;
/// The longest entry or pattern, bytes.
pub(crate) const LONGEST: usize = 1_000;
/// How far around a sensitive word its pieces are kept, seconds: a recognizer's times are off by as much.
const AROUND: f64 = 0.05;

/// Why a piece stays at home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A number, an ordinal, an amount.
    Number,
    /// A person's name.
    Name,
    /// A place, a people, an institution.
    Place,
    /// On the user's list.
    Listed,
    /// Matched by a pattern of the language or the user.
    Pattern,
    /// A word that the recognizer is not sure of.
    Unsure,
    /// Speech in which no word was heard.
    Unheard,
}

/// What is sensitive besides what the language says.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Words and phrases; a `*` at the end of a word stands for any ending. At most [`MOST_LISTED`].
    pub list: Vec<String>,
    /// Regular expressions over the words in lower case, a space between each two. At most [`MOST_PATTERNS`].
    pub patterns: Vec<String>,
    /// Whether words that are names or numbers only at times (`mark`, `one`) count. They do unless told otherwise.
    pub doubtful: bool,
    /// Words with less confidence count, 0 to 1; 0 for none. Words without a confidence never do.
    pub least_confidence: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { list: Vec::new(), patterns: Vec::new(), doubtful: true, least_confidence: 0.0 }
    }
}

/// A setting that cannot be. It names entries by their number: they are secrets themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SensitiveError {
    /// The field.
    pub field: &'static str,
    /// What it should be.
    pub reason: String,
}

/// Sensitive words: which, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// Their places among the words.
    pub words: Range<usize>,
    /// Why.
    pub kind: Kind,
}

/// Finds sensitive words.
pub struct Finder {
    language: Language,
    list: Phrases,
    patterns: Vec<Regex>,
    doubtful: bool,
    least_confidence: f64,
}

impl Finder {
    /// For a language, with settings.
    ///
    /// # Errors
    /// [`SensitiveError`] with the field and what it should be.
    pub fn new(language: Language, settings: &Settings) -> Result<Self, SensitiveError> {
        let wrong = |field, reason| Err(SensitiveError { field, reason });
        if settings.list.len() > MOST_LISTED {
            return wrong("list", format!("{} entries: give at most {MOST_LISTED}", settings.list.len()));
        }
        if settings.patterns.len() > MOST_PATTERNS {
            return wrong("patterns", format!("{} patterns: give at most {MOST_PATTERNS}", settings.patterns.len()));
        }
        if !(0.0..=1.0).contains(&settings.least_confidence) {
            let reason = format!("{}: choose it between 0 and 1", settings.least_confidence);
            return wrong("least_confidence", reason);
        }
        let mut list = Phrases::default();
        for (entry, number) in settings.list.iter().zip(1..) {
            if entry.len() > LONGEST || !list.add(entry) {
                return wrong("list", format!("entry {number}: write one or more words, at most {LONGEST} bytes"));
            }
        }
        let mut patterns = Vec::new();
        for (text, number) in settings.patterns.iter().zip(1..) {
            patterns.push(pattern(text).map_err(|reason| SensitiveError {
                field: "patterns",
                reason: format!("pattern {number} {reason}"),
            })?);
        }
        let Settings { doubtful, least_confidence, .. } = *settings;
        Ok(Self { language, list, patterns, doubtful, least_confidence })
    }

    /// What is sensitive among `words`, which are a recording's in order: by place, overlapping where several reasons hold.
    pub fn find(&self, words: &[Word]) -> Vec<Hit> {
        let tokens = Tokens::of(words);
        let mut hits = Vec::new();
        let mut hit = |range: Range<usize>, kind| {
            if let (Some(first), Some(last)) = (tokens.words.get(range.start), tokens.words.get(range.end - 1)) {
                hits.push(Hit { words: *first..*last + 1, kind });
            }
        };
        self.language.find(&tokens.texts, self.doubtful, &mut hit);
        for range in self.list.find(&tokens.texts) {
            hit(range, Kind::Listed);
        }
        for pattern in self.language.patterns().iter().chain(&self.patterns) {
            for found in pattern.find_iter(&tokens.joined).filter(|found| !found.is_empty()) {
                let first = tokens.starts.partition_point(|start| *start <= found.start()) - 1;
                let end = tokens.starts.partition_point(|start| *start < found.end());
                hit(first..end.max(first + 1), Kind::Pattern);
            }
        }
        let unsure = |word: &Word| word.confidence.is_some_and(|sure| sure < self.least_confidence);
        let unsure = words.iter().enumerate().filter(|(_, word)| unsure(word));
        hits.extend(unsure.map(|(at, _)| Hit { words: at..at + 1, kind: Kind::Unsure }));
        hits.sort_by_key(|hit| (hit.words.start, hit.words.end, hit.kind));
        hits.dedup();
        hits
    }
}

/// The pieces that never leave, by number, and why: those that a sensitive word touches, and those in which no word was heard.
/// `pieces` and `words` are one recording's, in order of time, timed from its beginning.
pub fn kept(pieces: &[Piece], words: &[Word], hits: &[Hit]) -> BTreeMap<u32, BTreeSet<Kind>> {
    let mut kept: BTreeMap<u32, BTreeSet<Kind>> = BTreeMap::new();
    for hit in hits {
        let words = words.get(hit.words.clone()).unwrap_or_default();
        let from = words.iter().map(|word| word.start).fold(f64::INFINITY, f64::min) - AROUND;
        let to = words.iter().map(|word| word.end).fold(f64::NEG_INFINITY, f64::max) + AROUND;
        let first = pieces.partition_point(|piece| piece.end() <= from);
        for piece in pieces[first..].iter().take_while(|piece| piece.start() < to) {
            kept.entry(piece.id).or_default().insert(hit.kind);
        }
    }
    for piece in pieces {
        if !words.iter().any(|word| word.start < piece.end() && word.end > piece.start()) {
            kept.entry(piece.id).or_default().insert(Kind::Unheard);
        }
    }
    kept
}

/// A regular expression, without regard to case, that needs bounded memory and linear time.
fn pattern(text: &str) -> Result<Regex, String> {
    if text.is_empty() || text.len() > LONGEST {
        return Err(format!("has {} bytes: write 1 to {LONGEST}", text.len()));
    }
    let built = RegexBuilder::new(text).case_insensitive(true).size_limit(LARGEST_PATTERN).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!("is too large: more than {LARGEST_PATTERN} bytes when compiled"),
        _ => "is no regular expression as the crate `regex` writes them".to_owned(),
    })
}

/// Words as they are looked for: in lower case, without punctuation, those with a hyphen in their parts.
#[derive(Default)]
struct Tokens {
    texts: Vec<String>,
    /// The word that each is of.
    words: Vec<usize>,
    /// All with a space between each two, and where each begins in that.
    joined: String,
    starts: Vec<usize>,
}

impl Tokens {
    fn of(words: &[Word]) -> Self {
        let mut tokens = Self::default();
        for (at, word) in words.iter().enumerate() {
            for text in parts(&word.text) {
                if !tokens.joined.is_empty() {
                    tokens.joined.push(' ');
                }
                tokens.starts.push(tokens.joined.len());
                tokens.joined.push_str(&text);
                tokens.texts.push(text);
                tokens.words.push(at);
            }
        }
        tokens
    }
}

/// The parts of a word or phrase, in lower case: letters, digits and apostrophes within, without a possessive `'s`.
fn parts(text: &str) -> impl Iterator<Item = String> + use<> {
    let lower = text.to_lowercase().replace('’', "'");
    let split: Vec<String> = lower
        .split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '*')
        .map(|part| {
            let part = part.trim_matches('\'');
            part.strip_suffix("'s").unwrap_or(part).to_owned()
        })
        .filter(|part| part.chars().any(char::is_alphanumeric))
        .collect();
    split.into_iter()
}

#[cfg(test)]
mod tests;
