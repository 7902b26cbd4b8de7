//! WAV files for other programs, which contain only the samples.
//!
//! Every file of the same length has the same header of 44 bytes: PCM, mono, 16 kHz, 16 bits, no other chunk. A
//! recognizer receives only header and samples; a tag, a date or a name would reveal which sounds are real.

use std::io::Cursor;

use crate::audio::error::Problem;
use crate::audio::resample::{RATE, resample};

/// Length of the header in bytes.
pub const HEADER: usize = 44;
/// The integer value of 1.0.
const FULL_SCALE: f32 = 32_768.0;

/// Reasons why a file from another program cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WavError {
    /// The file is not a WAV file, or it is damaged.
    #[error("not a WAV file of plain samples")]
    Format(#[source] hound::Error),
    /// The file cannot be resampled to 16 kHz.
    #[error("cannot be brought to 16 kHz: send 16 kHz mono")]
    Rate(#[source] Problem),
    /// A sample is infinite or NaN.
    #[error("a sample is not a number")]
    NotANumber,
}

/// Encodes samples as a WAV file: mono at 16 kHz, 16 bits. Samples beyond full scale are clipped.
///
/// # Panics
/// Never: memory accepts every byte.
pub fn write(samples: &[f32]) -> Vec<u8> {
    encode(samples).expect("memory accepts every byte")
}

fn encode(samples: &[f32]) -> Result<Vec<u8>, hound::Error> {
    let spec =
        hound::WavSpec { channels: 1, sample_rate: RATE, bits_per_sample: 16, sample_format: hound::SampleFormat::Int };
    let mut file = Vec::with_capacity(HEADER + 2 * samples.len());
    let mut writer = hound::WavWriter::new(Cursor::new(&mut file), spec)?;
    for sample in samples {
        writer.write_sample((sample * FULL_SCALE).round() as i16)?;
    }
    writer.finalize()?;
    Ok(file)
}

/// Returns the length of a file from [`write()`] in seconds, computed from the file size alone.
pub fn seconds(file: &[u8]) -> f64 {
    (file.len().saturating_sub(HEADER) / 2) as f64 / f64::from(RATE)
}

/// Decodes a WAV file of any rate, number of channels and sample size to mono samples at 16 kHz, full scale = 1.
///
/// # Errors
/// [`WavError`] if the file is invalid or contains a sample that is not finite.
pub fn read(file: &[u8]) -> Result<Vec<f32>, WavError> {
    let mut reader = hound::WavReader::new(Cursor::new(file)).map_err(WavError::Format)?;
    let spec = reader.spec();
    let interleaved: Result<Vec<f32>, hound::Error> = match spec.sample_format {
        hound::SampleFormat::Float => reader.samples::<f32>().collect(),
        hound::SampleFormat::Int => {
            let scale = 2.0_f32.powi(i32::from(spec.bits_per_sample) - 1);
            reader.samples::<i32>().map(|sample| sample.map(|sample| sample as f32 / scale)).collect()
        }
    };
    let interleaved = interleaved.map_err(WavError::Format)?;
    if !interleaved.iter().all(|sample| sample.is_finite()) {
        return Err(WavError::NotANumber);
    }
    let channels = usize::from(spec.channels.max(1));
    let mono = interleaved.chunks_exact(channels).map(|frame| frame.iter().sum::<f32>() / channels as f32).collect();
    resample(mono, spec.sample_rate).map_err(WavError::Rate)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::io::Cursor;

    use super::{HEADER, WavError, read, seconds, write};

    #[test]
    fn file_contains_header_and_samples_only() {
        let file = write(&[0.0, 0.5, -0.5, 1.0, -1.0, 2.0]);
        let header = b"RIFF\x30\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x80\x3e\0\0\0\x7d\0\0\x02\0\x10\0data\x0c\0\0\0";
        assert_eq!(file[..HEADER], header[..]);
        let samples = file[HEADER..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
        assert_eq!(samples.collect::<Vec<_>>(), [0, 16_384, -16_384, 32_767, -32_768, 32_767]);
        assert_eq!(write(&[]).len(), HEADER);
    }

    #[test]
    fn two_sounds_of_one_length_have_the_same_header() {
        assert_eq!(write(&[0.1; 800])[..HEADER], write(&[-0.9; 800])[..HEADER]);
        assert!((seconds(&write(&vec![0.0; 8_000])) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn wav_round_trip_is_within_half_a_step() {
        let samples: Vec<f32> = (0..1_000).map(|n| (n as f32 * 0.05).sin() * 0.9).collect();
        let back = read(&write(&samples)).unwrap();
        assert_eq!(back.len(), samples.len());
        assert!(samples.iter().zip(&back).all(|(one, other)| (one - other).abs() <= 0.5 / 32_768.0 + 1e-7));
    }

    #[test]
    fn another_rate_and_two_channels_become_mono_at_16_khz() {
        let mut file = Vec::new();
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: 8_000,
            bits_per_sample: 32,
            sample_format: hound::SampleFormat::Float,
        };
        let mut writer = hound::WavWriter::new(Cursor::new(&mut file), spec).unwrap();
        for n in 0..4_000 {
            let value = (n as f32 * 0.1).sin() * 0.5;
            writer.write_sample(value).unwrap();
            writer.write_sample(0.0_f32).unwrap();
        }
        writer.finalize().unwrap();
        let mono = read(&file).unwrap();
        assert_eq!(mono.len(), 8_000);
        let loudest = mono.iter().fold(0.0_f32, |most, sample| most.max(sample.abs()));
        assert!((loudest - 0.25).abs() < 0.02, "{loudest}");
    }

    #[test]
    fn invalid_wav_is_refused() {
        assert!(matches!(read(b"{\"error\":\"busy\"}"), Err(WavError::Format(_))));
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: 16_000,
            bits_per_sample: 32,
            sample_format: hound::SampleFormat::Float,
        };
        let mut file = Vec::new();
        let mut writer = hound::WavWriter::new(Cursor::new(&mut file), spec).unwrap();
        writer.write_sample(f32::NAN).unwrap();
        writer.finalize().unwrap();
        assert!(matches!(read(&file), Err(WavError::NotANumber)));
    }
}
