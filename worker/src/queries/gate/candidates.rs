//! The file of the second pass: the kept rows of nominated texts, for the counting engine.
//!
//! Rows of the same text are added up as they come, as far as a small table holds them: most of a log is the same few texts again.

use std::collections::HashMap;
use std::path::Path;

use super::GateError;
use crate::queries::count::{Candidates, CountError};
use crate::queries::sample::Sample;
use crate::queries::sketch::Nominator;

/// Texts, and bytes of them, after which the table is written down.
const MOST_TEXTS: usize = 1 << 16;
const MOST_BYTES: usize = 8 << 20;

/// Writes the file; the sample is used up.
pub(super) fn write(sample: Sample, nominator: &Nominator, path: &Path) -> Result<(), GateError> {
    let mut file = Candidates::create(path)?;
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

fn push(file: &mut Candidates, sums: &mut HashMap<String, u64>) -> Result<(), GateError> {
    for (text, sum) in sums.drain() {
        file.push(&text, sum)?;
    }
    Ok(())
}
