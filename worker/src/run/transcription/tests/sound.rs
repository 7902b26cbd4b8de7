//! Sounds as files.

use crate::speech::transcribe::wav;

/// Returns the number of samples of a file.
pub(super) fn samples(file: &[u8]) -> usize {
    (file.len() - wav::HEADER) / 2
}

/// Returns the number of samples up to the last one that is louder than the noise behind.
pub(super) fn loud_samples(file: &[u8]) -> usize {
    let samples = file[wav::HEADER..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    let samples: Vec<i16> = samples.collect();
    samples.iter().rposition(|sample| sample.unsigned_abs() > 100).map_or(0, |last| last + 1)
}
