//! The file of the second pass: the kept rows of nominated texts, for the counting engine.
//!
//! A small table adds up rows of the same text, because a few texts make up most rows of a log.

use std::collections::HashMap;
use std::path::Path;

use super::GateError;
use crate::count::{CandidateFile, CountError};
use crate::sample::Sample;
use crate::sketch::Nominator;

/// Texts, and bytes of them, after which the table is flushed.
const MOST_TEXTS: usize = 1 << 16;
const MOST_BYTES: usize = 8 << 20;

/// Writes the file, and consumes the sample.
pub(super) fn write(sample: Sample, nominator: &Nominator, path: &Path) -> Result<(), GateError> {
    let mut file = CandidateFile::create(path)?;
    let (mut sums, mut bytes) = (HashMap::<String, u64>::new(), 0);
    sample.read(|text, copies| -> Result<(), GateError> {
        if !nominator.names(text) {
            return Ok(());
        }
        if let Some(sum) = sums.get_mut(text) {
            *sum = sum.checked_add(copies).ok_or(CountError::Overflow)?;
            return Ok(());
        }
        bytes += text.len();
        sums.insert(text.to_owned(), copies);
        if sums.len() < MOST_TEXTS && bytes < MOST_BYTES {
            return Ok(());
        }
        bytes = 0;
        push(&mut file, &mut sums)
    })?;
    push(&mut file, &mut sums)?;
    file.finish()?;
    Ok(())
}

fn push(file: &mut CandidateFile, sums: &mut HashMap<String, u64>) -> Result<(), GateError> {
    for (text, sum) in sums.drain() {
        file.push(&text, sum)?;
    }
    Ok(())
}
