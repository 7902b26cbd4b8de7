//! One sample of a log: each row is kept independently with probability β, and the choice is secret (`privacy.md`,
//! 6.6).
//!
//! The gate's guarantee requires exactly this: *rows* are sampled, never distinct texts; each copy has its own coin,
//! independent of other rows; and the coins are thrown once, with randomness of the operating system that the draw
//! consumes. Samples of a fixed size and samples without replacement do not exist here, because their privacy loss
//! differs from the charge.
//!
//! A [`Sample`] is as private as the log. It cannot be copied, printed, written or read outside the gate; the gate
//! counts it and consumes it.

pub mod coins;
mod spill;

use super::scratch::ScratchFolder;
use coins::RateCoins;
use spill::{SpillReader, SpillWriter};
use undertone_worker_training::randomness::Purpose;

/// Why a sample could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The randomness was made for another purpose, so that two draws could share a stream.
    #[error("rows are sampled with randomness of their own, not with that of {0:?}: ask for Purpose::Rows")]
    Purpose(Purpose),
    /// A row stands for too many copies.
    #[error("a row of the log counts more than {MOST_COPIES} occurrences: split it when the log is prepared")]
    Copies,
    /// The rows cannot be read.
    #[error("the rows of the log cannot be read")]
    Rows(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The disk cannot hold the sample.
    #[error("the sample cannot be kept in the work folder: make room on its disk")]
    Disk(#[from] std::io::Error),
}

/// Largest number of occurrences that one row may stand for, 2⁴⁰: each needs a coin, and this many take a few hundred
/// seconds.
pub const MOST_COPIES: u64 = 1 << 40;

/// Decides how many copies of a row are kept: at random, except in a test that enumerates every sample.
pub(super) trait CopySampler {
    /// Returns the number of kept copies.
    fn keep(&mut self, copies: u64) -> u64;
}

impl CopySampler for RateCoins {
    fn keep(&mut self, copies: u64) -> u64 {
        self.binomial(copies)
    }
}

/// The kept rows, on disk in a file without a name, with the number of kept copies of each.
///
/// It cannot be made public, and nothing that learns or ranks takes it:
///
/// ```compile_fail,E0277
/// use undertone_worker_queries::sample::Sample;
/// fn print(sample: &Sample) -> String {
///     format!("{sample:?}")
/// }
/// ```
///
/// One sample is for one release, which consumes it:
///
/// ```compile_fail,E0308
/// use undertone_worker_queries::sample::Sample;
/// fn twice(sample: &Sample) -> Sample {
///     sample.clone()
/// }
/// ```
pub struct Sample {
    rows: SpillReader,
}

/// Draws the one sample of a release. It calls `keep` once for each row, in order, for the number of kept copies, and
/// calls `seen` with each kept text and its number of copies.
///
/// # Errors
/// [`SampleError`] when the rows cannot be read or the sample cannot be kept.
pub(super) fn draw<E>(
    rows: impl Iterator<Item = Result<(String, u64), E>>,
    keep: &mut impl CopySampler,
    scratch: &ScratchFolder,
    mut seen: impl FnMut(&str, u64),
) -> Result<Sample, SampleError>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut file = SpillWriter::new(scratch.create_nameless()?);
    for row in rows {
        let (text, copies) = row.map_err(|error| SampleError::Rows(error.into()))?;
        if copies > MOST_COPIES {
            return Err(SampleError::Copies);
        }
        let kept_copies = keep.keep(copies);
        if kept_copies > 0 {
            file.push(&text, kept_copies)?;
            seen(&text, kept_copies);
        }
    }
    Ok(Sample { rows: file.finish()? })
}

impl Sample {
    /// Reads the kept rows, once; the file is deleted afterwards.
    pub(super) fn read<E: From<SampleError>>(self, mut each: impl FnMut(&str, u64) -> Result<(), E>) -> Result<(), E> {
        let mut rows = self.rows;
        while let Some((text, copies)) = rows.next().map_err(SampleError::Disk)? {
            each(text, copies)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
