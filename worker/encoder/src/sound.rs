//! Sounds: a WAV or FLAC file becomes mono samples at the declared rate, cut at the declared length.

use std::path::Path;

use undertone_worker_speech::audio::Stream;

use crate::error::RowError;

/// Reads the first `most` samples of a file at `rate` Hz. The rest of a longer file is not read.
///
/// # Errors
/// [`RowError::File`] if the file is damaged or has no samples.
pub(crate) fn read_sound(path: &Path, rate: u32, most: usize) -> Result<Vec<f32>, RowError> {
    let mut samples = Vec::new();
    let mut stream = Stream::open_at_rate(path, f64::INFINITY, rate).map_err(|_| RowError::File)?;
    for block in &mut stream {
        samples.extend(block.map_err(|_| RowError::File)?);
        if samples.len() >= most {
            samples.truncate(most);
            break;
        }
    }
    if samples.is_empty() { Err(RowError::File) } else { Ok(samples) }
}
