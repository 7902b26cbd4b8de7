//! Reasons why a recording is rejected.

use std::path::PathBuf;

/// A rejected recording.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct AudioError {
    /// The file. For the site's own report, never for a log that leaves the site.
    pub path: PathBuf,
    /// The problem.
    #[source]
    pub problem: Problem,
}

/// The problem of a recording.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file cannot be opened.
    #[error("cannot be opened")]
    Open(#[source] std::io::Error),
    /// The format is not supported.
    #[error("not a FLAC or WAV file of plain samples ({0}): convert it first")]
    Format(String),
    /// The file is damaged or truncated.
    #[error("broken: {0}")]
    Broken(String),
    /// The file contains no samples.
    #[error("empty: it holds no sample")]
    Empty,
    /// The rate is not one of speech recordings.
    #[error("sampling rate {0} Hz: between 4000 and 384000 Hz is read")]
    Rate(u32),
    /// The recording is longer than allowed.
    #[error("too long: {seconds:.1} s, the limit is {limit} s (cut it, or raise --longest)")]
    TooLong {
        /// Its length as far as known, seconds.
        seconds: f64,
        /// The limit, seconds.
        limit: f64,
    },
}
