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

pub(crate) mod hit;
pub mod language;
mod phrases;
pub(crate) mod settings;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use regex::Regex;

use self::language::SensitiveLexicon;
use self::phrases::PhraseSet;
use self::settings::compile_pattern;
use self::token::TokenTable;
use super::piece::{Piece, TimedWord};

pub use self::hit::{SensitiveHit, SensitiveKind};
pub use self::settings::{LARGEST_PATTERN, LONGEST, MOST_LISTED, MOST_PATTERNS, SensitiveError, SensitiveSettings};

/// Margin around a sensitive word within which pieces are kept, in seconds: the error of a recognizer's times.
const AROUND: f64 = 0.05;

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
            patterns.push(compile_pattern(text).map_err(|reason| SensitiveError {
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

#[cfg(test)]
mod tests;
