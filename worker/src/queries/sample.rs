//! One sample of a log: each row for itself, with probability β, secretly (`privacy.md`, 6.6).
//!
//! The promise of the gate is made of exactly this: *rows* are sampled, never distinct texts; each copy has a coin of its own,
//! whatever other rows say; and the coins are thrown once, with randomness of the operating system that is used up by it. There is
//! no sample of a fixed size and none without replacement here, because neither would be what is charged.
//!
//! A [`Sample`] is as private as the log. It cannot be copied, printed, written or read outside the gate; what becomes of it is
//! counted, and given up.

pub mod coins;
mod spill;

use super::scratch::Scratch;
use crate::dp::randomness::Purpose;
use coins::Coins;
use spill::{Reader, Writer};

/// Why there is no sample.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The randomness was made for something else, so that two draws could share a stream.
    #[error("rows are sampled with randomness of their own, not with that of {0:?}: ask for Purpose::Rows")]
    Purpose(Purpose),
    /// A row stands for more copies than coins can be thrown for.
    #[error("a row of the log counts more than {MOST_COPIES} occurrences: split it when the log is prepared")]
    Copies,
    /// The rows cannot be read.
    #[error("the rows of the log cannot be read")]
    Rows(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The disk cannot keep what was drawn.
    #[error("the sample cannot be kept in the work folder: make room on its disk")]
    Disk(#[from] std::io::Error),
}

/// Most occurrences that one row may stand for, 2⁴⁰: a coin is thrown for each, a few hundred seconds for as many as these.
pub const MOST_COPIES: u64 = 1 << 40;

/// How copies are kept. Chance decides, except where a test goes through every sample there is.
pub(super) trait Keep {
    /// How many of so many copies are kept.
    fn keep(&mut self, copies: u64) -> u64;
}

impl Keep for Coins {
    fn keep(&mut self, copies: u64) -> u64 {
        self.binomial(copies)
    }
}

/// The rows that were kept, on disk in a file without a name, with how many of each row's copies.
///
/// It cannot be made public, and nothing that learns or ranks takes it:
///
/// ```compile_fail,E0277
/// use undertone_worker::queries::sample::Sample;
/// fn shown(sample: &Sample) -> String {
///     format!("{sample:?}")
/// }
/// ```
///
/// One sample is for one release: whoever has given it up has none.
///
/// ```compile_fail,E0308
/// use undertone_worker::queries::sample::Sample;
/// fn twice(sample: &Sample) -> Sample {
///     sample.clone()
/// }
/// ```
pub struct Sample {
    kept: Reader,
}

/// Draws the one sample of a release: of every row so many copies as `keep` says, which is told of each row once. `seen` is told
/// of each text that was kept, and how often.
///
/// # Errors
/// [`SampleError`] when the rows cannot be read or the sample cannot be kept.
pub(super) fn draw<E>(
    rows: impl Iterator<Item = Result<(String, u64), E>>,
    keep: &mut impl Keep,
    scratch: &Scratch,
    mut seen: impl FnMut(&str, u64),
) -> Result<Sample, SampleError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut file = Writer::new(scratch.nameless()?);
    for row in rows {
        let (text, copies) = row.map_err(|error| SampleError::Rows(error.into()))?;
        if copies > MOST_COPIES {
            return Err(SampleError::Copies);
        }
        let kept = keep.keep(copies);
        if kept > 0 {
            file.push(&text, kept)?;
            seen(&text, kept);
        }
    }
    Ok(Sample { kept: file.finish()? })
}

impl Sample {
    /// Goes through what was kept, once; the file is gone afterwards.
    pub(super) fn read<E: From<SampleError>>(self, mut each: impl FnMut(&str, u64) -> Result<(), E>) -> Result<(), E> {
        let mut kept = self.kept;
        while let Some((text, copies)) = kept.next().map_err(SampleError::Disk)? {
            each(text, copies)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
