//! Selects the pieces that never leave the site: those with a number, a name, a place, or an entry of the user's list.
//!
//! The search uses the first transcript, which is the recognizer's guess in lower case without punctuation. So names are found
//! by lists and by the words around them, not by capitals. Doubtful pieces stay at the site: they keep the words of the first
//! transcript, which are less accurate, and no provider receives them.
//!
//! | kind | found | not found |
//! |---|---|---|
//! | number | digits, number words, ordinals and the words that join them | numbers that were recognized as other words (`for`, `to`) |
//! | name | frequent given names and surnames, words after a title or a given name | rare and foreign names: list them |
//! | place | states, their people, large cities, words before `street`, `hospital`, ... | small places: list them |
//! | listed | the user's words and phrases, `word*` for any ending | other spellings |
//! | pattern | by regular expression: dates, births, spelled letters, addresses, secrets, the user's own | |
//! | unsure | words with low confidence, if configured | |
//! | unheard | speech in which the recognizer found no word | |
//!
//! None of these finds a word that the recognizer takes for another one: its dictionary lacks most rare names. That is why a
//! piece that leaves is still protected by all other measures. To add a language: add a file beside `en.toml`, and its name in
//! [`language`]; a site may also provide its own file.

pub mod language;
mod phrases;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use self::language::SensitiveLexicon;
use self::phrases::PhraseSet;
use super::piece::{Piece, TimedWord};

/// Largest number of entries in a user's list.
pub const MOST_LISTED: usize = 10_000;
/// Largest number of a user's patterns.
pub const MOST_PATTERNS: usize = 100;
/// Size of a compiled pattern, bytes: 1 MiB.
pub const LARGEST_PATTERN: usize = 1 << 20;
/// Longest entry or pattern, in bytes.
pub const LONGEST: usize = 1_000;
/// Margin around a sensitive word within which pieces are kept, in seconds: the error of a recognizer's times.
const AROUND: f64 = 0.05;

/// Reasons that a piece stays at the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SensitiveKind {
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
    /// A word with low confidence.
    Unsure,
    /// Speech in which the recognizer found no word.
    Unheard,
}

/// Sensitive content beyond the lists of the language.
#[derive(Debug, Clone, PartialEq)]
pub struct SensitiveSettings {
    /// Words and phrases; a `*` at the end of a word stands for any ending. At most [`MOST_LISTED`].
    pub list: Vec<String>,
    /// Regular expressions over the words in lower case, separated by spaces. At most [`MOST_PATTERNS`].
    pub patterns: Vec<String>,
    /// Whether words that are names or numbers only sometimes (`mark`, `one`) count. The default is true.
    pub doubtful: bool,
    /// Words with less confidence count, 0 to 1; 0 disables this. Words without a confidence never count.
    pub least_confidence: f64,
}

impl Default for SensitiveSettings {
    fn default() -> Self {
        Self { list: Vec::new(), patterns: Vec::new(), doubtful: true, least_confidence: 0.0 }
    }
}

/// A setting out of range. It identifies entries by number, because the entries are secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct SensitiveError {
    /// The field.
    pub field: &'static str,
    /// The permitted values.
    pub reason: String,
}

/// A range of sensitive words with its kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SensitiveHit {
    /// Indices of the words.
    pub words: Range<usize>,
    /// The reason.
    pub kind: SensitiveKind,
}

/// Finds sensitive words.
pub struct SensitiveFinder {
    language: SensitiveLexicon,
    list: PhraseSet,
    patterns: Vec<Regex>,
    doubtful: bool,
    least_confidence: f64,
}

impl SensitiveFinder {
    /// Returns a finder for a language, with settings.
    ///
    /// # Errors
    /// [`SensitiveError`] with the field and its permitted values.
    pub fn new(language: SensitiveLexicon, settings: &SensitiveSettings) -> Result<Self, SensitiveError> {
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
        let mut list = PhraseSet::default();
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
        let SensitiveSettings { doubtful, least_confidence, .. } = *settings;
        Ok(Self { language, list, patterns, doubtful, least_confidence })
    }

    /// Returns the sensitive ranges among `words`, a recording's words in order. Ranges are sorted and overlap where several kinds apply.
    pub fn find(&self, words: &[TimedWord]) -> Vec<SensitiveHit> {
        let tokens = TokenTable::from_words(words);
        let mut hits = Vec::new();
        let mut hit = |range: Range<usize>, kind| {
            if let (Some(first), Some(last)) = (tokens.words.get(range.start), tokens.words.get(range.end - 1)) {
                hits.push(SensitiveHit { words: *first..*last + 1, kind });
            }
        };
        self.language.find(&tokens.texts, self.doubtful, &mut hit);
        for range in self.list.find(&tokens.texts) {
            hit(range, SensitiveKind::Listed);
        }
        for pattern in self.language.patterns().iter().chain(&self.patterns) {
            for found in pattern.find_iter(&tokens.joined).filter(|found| !found.is_empty()) {
                let first = tokens.starts.partition_point(|start| *start <= found.start()) - 1;
                let end = tokens.starts.partition_point(|start| *start < found.end());
                hit(first..end.max(first + 1), SensitiveKind::Pattern);
            }
        }
        let unsure = |word: &TimedWord| word.confidence.is_some_and(|sure| sure < self.least_confidence);
        let unsure = words.iter().enumerate().filter(|(_, word)| unsure(word));
        hits.extend(unsure.map(|(at, _)| SensitiveHit { words: at..at + 1, kind: SensitiveKind::Unsure }));
        hits.sort_by_key(|hit| (hit.words.start, hit.words.end, hit.kind));
        hits.dedup();
        hits
    }
}

/// Selects the pieces that never leave, by number, with the reasons: pieces that a sensitive word touches, and pieces without
/// a recognized word. `pieces` and `words` are those of one recording, in order of time, timed from its beginning.
pub fn select_local_pieces(
    pieces: &[Piece],
    words: &[TimedWord],
    hits: &[SensitiveHit],
) -> BTreeMap<u32, BTreeSet<SensitiveKind>> {
    let mut selected: BTreeMap<u32, BTreeSet<SensitiveKind>> = BTreeMap::new();
    for hit in hits {
        let words = words.get(hit.words.clone()).unwrap_or_default();
        let from = words.iter().map(|word| word.start).fold(f64::INFINITY, f64::min) - AROUND;
        let to = words.iter().map(|word| word.end).fold(f64::NEG_INFINITY, f64::max) + AROUND;
        let first = pieces.partition_point(|piece| piece.end() <= from);
        for piece in pieces[first..].iter().take_while(|piece| piece.start() < to) {
            selected.entry(piece.id).or_default().insert(hit.kind);
        }
    }
    for piece in pieces {
        if !words.iter().any(|word| word.start < piece.end() && word.end > piece.start()) {
            selected.entry(piece.id).or_default().insert(SensitiveKind::Unheard);
        }
    }
    selected
}

/// Compiles a regular expression, case-insensitive, with bounded memory and linear time.
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

/// Words in the form used for searching: in lower case, without punctuation, hyphenated words split into their parts.
#[derive(Default)]
struct TokenTable {
    texts: Vec<String>,
    /// The index of each token's word.
    words: Vec<usize>,
    /// All tokens separated by spaces, and the start of each token in this text.
    joined: String,
    starts: Vec<usize>,
}

impl TokenTable {
    fn from_words(words: &[TimedWord]) -> Self {
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

/// Returns the parts of a word or phrase, in lower case: letters, digits and inner apostrophes, without a possessive `'s`.
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
