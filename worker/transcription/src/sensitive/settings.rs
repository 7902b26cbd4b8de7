//! Sensitive content that the user configures, with its limits.

use regex::{Regex, RegexBuilder};

/// Largest number of entries in a user's list.
pub const MOST_LISTED: usize = 10_000;
/// Largest number of a user's patterns.
pub const MOST_PATTERNS: usize = 100;
/// Size of a compiled pattern, bytes: 1 MiB.
pub const LARGEST_PATTERN: usize = 1 << 20;
/// Longest entry or pattern, in bytes.
pub const LONGEST: usize = 1_000;

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

/// Compiles a regular expression, case-insensitive, with bounded memory and linear time.
pub(super) fn compile_pattern(text: &str) -> Result<Regex, String> {
    if text.is_empty() || text.len() > LONGEST {
        return Err(format!("has {} bytes: write 1 to {LONGEST}", text.len()));
    }
    let built = RegexBuilder::new(text).case_insensitive(true).size_limit(LARGEST_PATTERN).build();
    built.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => format!("is too large: more than {LARGEST_PATTERN} bytes when compiled"),
        _ => "is no regular expression as the crate `regex` writes them".to_owned(),
    })
}
