//! Sounds as files.

use crate::speech::transcribe::wav;

/// How many samples a file has.
pub(super) fn samples(file: &[u8]) -> usize {
    (file.len() - wav::HEADER) / 2
}

/// Samples up to the last that is louder than the noise behind.
pub(super) fn loud(file: &[u8]) -> usize {
    let samples = file[wav::HEADER..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    let samples: Vec<i16> = samples.collect();
    samples.iter().rposition(|sample| sample.unsigned_abs() > 100).map_or(0, |last| last + 1)
}
