//! Voices for a cloning engine: some seconds of each recording's own speech, as files that a program of the site's own reads
//! while it speaks.
//!
//! A reference consists of pieces that are sent anyway, with the best signal-to-noise ratio: an engine that repeats part of it
//! reveals nothing beyond the sent pieces. It belongs to a recording, not to a person: for several speakers in one recording, it
//! is a mixture.
//!
//! The files lie in a folder that only their owner can open, named by numbers, and are deleted with [`ReferenceFolder`].

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::likeness::SpeechLevel;
use crate::wav;
use undertone_worker_speech::audio::RATE;

/// Least samples of a reference, 6 s: shorter ones are repeated.
pub const LEAST: usize = 6 * RATE as usize;
/// Most samples of a reference, 30 s.
pub const MOST: usize = 30 * RATE as usize;
/// Noise level assumed in every room, so that digital silence does not give an infinite ratio: 80 dB below full scale.
const ROOM: f64 = 1e-4;

/// Collects the cleanest pieces of one recording. Holds [`MOST`] samples and the current piece, whatever the recording's length.
#[derive(Debug, Clone, Default)]
pub struct VoiceReference {
    /// Signal-to-noise ratio and sound of each piece, in the order of addition.
    pieces: Vec<(f64, Vec<f32>)>,
}

impl VoiceReference {
    /// Considers a piece; silence is ignored.
    pub fn add(&mut self, samples: &[f32]) {
        let samples = &samples[..samples.len().min(MOST)];
        let Some(level) = SpeechLevel::measure(samples) else { return };
        self.pieces.push((level.loudness / (level.floor + ROOM), samples.to_vec()));
        while self.pieces.iter().map(|(_, piece)| piece.len()).sum::<usize>() > MOST {
            // Of equal pieces, the later one is removed.
            let places = (0..self.pieces.len()).rev();
            let Some(worst) = places.min_by(|a, b| self.pieces[*a].0.total_cmp(&self.pieces[*b].0)) else { return };
            self.pieces.remove(worst);
        }
    }

    /// Returns the reference: at most [`MOST`] samples; it is repeated to reach [`LEAST`]. Empty if no piece was added.
    pub fn sound(&self) -> Vec<f32> {
        let once: Vec<f32> = self.pieces.iter().flat_map(|(_, piece)| piece).copied().collect();
        let samples = once.len().max(LEAST);
        once.into_iter().cycle().take(samples).collect()
    }
}

/// The references of a job, as files that exist as long as this value.
#[derive(Debug)]
pub struct ReferenceFolder {
    folder: PathBuf,
}

impl ReferenceFolder {
    /// Creates an empty `folder`; files of an interrupted run are removed.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        // A program may have another working directory.
        let folder = std::path::absolute(folder)?;
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => DirBuilder::new().mode(0o700).create(&folder)?,
        }
        Ok(Self { folder })
    }

    /// Stores the reference of a recording.
    ///
    /// # Errors
    /// When the disk refuses, or the recording already has one.
    pub fn keep(&self, recording: u32, sound: &[f32]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path(recording))?;
        file.write_all(&wav::write(sound))
    }

    /// Returns the path of a recording's reference.
    pub fn path(&self, recording: u32) -> PathBuf {
        self.folder.join(format!("{recording}.wav"))
    }
}

impl Drop for ReferenceFolder {
    /// A failure is ignored: the job's folder is cleared at its end, and a failure of that is reported.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A tone of `seconds` over a quiet hum; its loudness identifies it.
    fn piece(seconds: usize, loudness: f32) -> Vec<f32> {
        let rate = RATE as usize;
        let tone = |n: usize| {
            let quiet = n % rate < rate / 5;
            let level = if quiet { 0.001 } else { loudness };
            level * (n as f32 * 0.3 + 1.0).sin()
        };
        (0..seconds * rate).map(tone).collect()
    }

    #[test]
    fn reference_is_cleanest_half_minute_in_recording_order() {
        let mut reference = VoiceReference::default();
        for loudness in [0.3, 0.02, 0.5, 0.4, 0.03, 0.2, 0.6] {
            reference.add(&piece(6, loudness));
        }
        reference.add(&vec![0.0; 16_000]);
        let expected: Vec<f32> =
            [0.3, 0.5, 0.4, 0.2, 0.6].into_iter().flat_map(|loudness| piece(6, loudness)).collect();
        assert_eq!((expected.len(), reference.sound() == expected), (MOST, true));
    }

    #[test]
    fn long_piece_is_truncated_and_short_one_repeated() {
        let mut long = VoiceReference::default();
        long.add(&piece(40, 0.2));
        assert_eq!(long.sound(), piece(40, 0.2)[..MOST]);
        let mut short = VoiceReference::default();
        short.add(&piece(2, 0.2));
        let sound = short.sound();
        assert_eq!(sound.len(), LEAST);
        assert!(sound.chunks(2 * RATE as usize).all(|part| part == piece(2, 0.2)));
        let mut silent = VoiceReference::default();
        silent.add(&[0.0; 4_000]);
        silent.add(&[]);
        assert_eq!(silent.sound(), Vec::<f32>::new());
    }

    #[test]
    fn reference_files_are_private_and_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("references");
        fs::create_dir(&at).unwrap();
        fs::write(at.join("7.wav"), "left behind").unwrap();
        let references = ReferenceFolder::begin(&at).unwrap();
        assert!(!references.path(7).exists() && references.path(7).is_absolute());
        references.keep(7, &[0.5; 100]).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&references.path(7)), mode(&at)), (0o600, 0o700));
        assert_eq!(fs::read(references.path(7)).unwrap(), wav::write(&[0.5; 100]));
        assert!(references.keep(7, &[0.1; 100]).is_err(), "a voice is not exchanged");
        drop(references);
        assert!(!at.exists());
    }
}
