//! Pictures: a PNG or JPEG file becomes three channels of the declared size.
//!
//! The files are untrusted: their bytes, their pixels and the memory of the decoder have limits, and the number of
//! pixels is known before they are decoded.

use std::fs::File;
use std::io::{BufReader, Cursor, Read as _};
use std::path::Path;

use image::imageops::FilterType;
use image::{ImageFormat, ImageReader, Limits};
use undertone_worker_site::panics::catch_panic;

use crate::error::RowError;

/// The largest file of a picture: 64 MiB.
pub const MOST_PICTURE_BYTES: u64 = 1 << 26;
/// The most pixels of a picture before it is resized: 64 Mi.
pub const MOST_PIXELS: u64 = 1 << 26;
/// The most memory of a decoder: 512 MiB.
const MOST_MEMORY: u64 = 1 << 29;

/// The size and the scale of the channels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PictureScale {
    /// Pixels.
    pub(crate) width: u32,
    /// Pixels.
    pub(crate) height: u32,
    /// The mean of each channel.
    pub(crate) mean: [f32; 3],
    /// The deviation of each channel.
    pub(crate) deviation: [f32; 3],
}

/// Returns `[3, height, width]` numbers of a file: red, green and blue of 0 to 1, less the mean, over the deviation. The
/// whole picture is resized, without regard to its proportions.
///
/// # Errors
/// [`RowError::File`] if the file is damaged, beyond a limit, or of another format.
pub(crate) fn read_picture(path: &Path, scale: &PictureScale) -> Result<Vec<f32>, RowError> {
    let file = File::open(path).map_err(|_| RowError::File)?;
    let mut bytes = Vec::new();
    file.take(MOST_PICTURE_BYTES + 1).read_to_end(&mut bytes).map_err(|_| RowError::File)?;
    if bytes.len() as u64 > MOST_PICTURE_BYTES {
        return Err(RowError::File);
    }
    catch_panic(|| decode(&bytes, scale)).flatten().ok_or(RowError::File)
}

fn decode(bytes: &[u8], scale: &PictureScale) -> Option<Vec<f32>> {
    let format =
        image::guess_format(bytes).ok().filter(|format| matches!(format, ImageFormat::Png | ImageFormat::Jpeg))?;
    let open = || ImageReader::with_format(BufReader::new(Cursor::new(bytes)), format);
    let (width, height) = open().into_dimensions().ok()?;
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return None;
    }
    let mut reader = open();
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_MEMORY);
    reader.limits(limits);
    let picture = reader.decode().ok()?;
    let pixels = picture.resize_exact(scale.width, scale.height, FilterType::Triangle).into_rgb8().into_raw();
    let channels = scale.mean.iter().zip(&scale.deviation).enumerate();
    let values = channels.flat_map(|(channel, (mean, deviation))| {
        pixels.iter().skip(channel).step_by(3).map(move |value| (f32::from(*value) / 255.0 - mean) / deviation)
    });
    Some(values.collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::path::{Path, PathBuf};

    use image::{ImageFormat, Rgb, RgbImage};

    use super::{MOST_PICTURE_BYTES, MOST_PIXELS, PictureScale, read_picture};
    use crate::error::RowError;

    const PLAIN: PictureScale = PictureScale { width: 2, height: 2, mean: [0.0; 3], deviation: [1.0; 3] };

    fn save(folder: &Path, name: &str, format: ImageFormat) -> PathBuf {
        let path = folder.join(name);
        // The left half is red, the right half blue.
        let picture = RgbImage::from_fn(8, 4, |x, _| if x < 4 { Rgb([255, 0, 0]) } else { Rgb([0, 0, 255]) });
        picture.save_with_format(&path, format).unwrap();
        path
    }

    #[test]
    fn picture_becomes_scaled_channels() {
        let dir = tempfile::tempdir().unwrap();
        let path = save(dir.path(), "a.png", ImageFormat::Png);
        let values = read_picture(&path, &PLAIN).unwrap();
        let expected = [[1.0, 0.0, 1.0, 0.0], [0.0; 4], [0.0, 1.0, 0.0, 1.0]].concat();
        assert!(values.iter().zip(&expected).all(|(value, expected)| (value - expected).abs() < 0.2), "{values:?}");
        assert_eq!(values.len(), 12);
        let scaled = PictureScale { mean: [0.5, 0.0, 0.0], deviation: [0.25, 1.0, 1.0], ..PLAIN };
        let again = read_picture(&path, &scaled).unwrap();
        assert_eq!(again[..4].to_vec(), values[..4].iter().map(|value| (value - 0.5) / 0.25).collect::<Vec<_>>());
        assert_eq!(again[4..], values[4..]);
        let jpeg = save(dir.path(), "a.jpg", ImageFormat::Jpeg);
        let near = read_picture(&jpeg, &PLAIN).unwrap();
        assert!(near.iter().zip(&values).all(|(one, other)| (one - other).abs() < 0.2), "{near:?}");
    }

    #[test]
    fn damaged_or_huge_picture_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = save(dir.path(), "a.png", ImageFormat::Png);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        assert_eq!(read_picture(&path, &PLAIN), Err(RowError::File));
        std::fs::write(&path, "GIF89a").unwrap();
        assert_eq!(read_picture(&path, &PLAIN), Err(RowError::File));
        // A header that declares more pixels than are decoded. Its checksum is right, so the number is the reason.
        let (width, height) = (1_u32 << 14, (MOST_PIXELS >> 14) as u32 + 1);
        let mut header = whole.clone();
        header[16..20].copy_from_slice(&width.to_be_bytes());
        header[20..24].copy_from_slice(&height.to_be_bytes());
        let sum = checksum(&header[12..29]);
        header[29..33].copy_from_slice(&sum.to_be_bytes());
        std::fs::write(&path, header).unwrap();
        assert_eq!(read_picture(&path, &PLAIN), Err(RowError::File));
        // A file beyond the limit, whose content is never looked at.
        std::fs::File::create(&path).unwrap().set_len(MOST_PICTURE_BYTES + 1).unwrap();
        assert_eq!(read_picture(&path, &PLAIN), Err(RowError::File));
    }

    /// Returns the checksum of a chunk of PNG (CRC-32).
    fn checksum(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0_u32, |sum, byte| {
            (0..8).fold(sum ^ u32::from(*byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 })
        })
    }
}
