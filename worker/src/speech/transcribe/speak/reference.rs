//! The voices that a cloning engine imitates: some seconds of each recording's own speech, as files for a program of the site's
//! own while it speaks.
//!
//! A reference is made of pieces that are sent anyway, the loudest above their noise: what an engine repeats of it tells nothing
//! that is not sent. It is of a recording, not of a person: of several speakers in one recording an engine hears a mixture.
//!
//! Files of voices lie in a folder that only their owner opens, under numbers, and are gone when [`References`] is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::likeness::Level;
use crate::speech::audio::RATE;
use crate::speech::transcribe::wav;

/// Fewest samples of a reference, 6 s: less is repeated.
pub const LEAST: usize = 6 * RATE as usize;
/// Most samples of a reference, 30 s.
pub const MOST: usize = 30 * RATE as usize;
/// Noise that every room has at least, so that digital silence is not endlessly better: 80 dB below full scale.
const ROOM: f64 = 1e-4;

/// The best pieces of one recording. Holds [`MOST`] samples and the piece that is heard, whatever the recording's length.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    /// How clean each is, and its sound, in the order in which they were heard.
    pieces: Vec<(f64, Vec<f32>)>,
}

impl Reference {
    /// Takes a piece into account; silence is none.
    pub fn hear(&mut self, samples: &[f32]) {
        let samples = &samples[..samples.len().min(MOST)];
        let Some(level) = Level::measure(samples) else { return };
        self.pieces.push((level.loudness / (level.floor + ROOM), samples.to_vec()));
        while self.pieces.iter().map(|(_, piece)| piece.len()).sum::<usize>() > MOST {
            // Of equals the later one goes.
            let places = (0..self.pieces.len()).rev();
            let Some(worst) = places.min_by(|a, b| self.pieces[*a].0.total_cmp(&self.pieces[*b].0)) else { return };
            self.pieces.remove(worst);
        }
    }

    /// The reference: at most [`MOST`] samples, and at least [`LEAST`], for which it is repeated. Empty where nothing was heard.
    pub fn sound(&self) -> Vec<f32> {
        let once: Vec<f32> = self.pieces.iter().flat_map(|(_, piece)| piece).copied().collect();
        let samples = once.len().max(LEAST);
        once.into_iter().cycle().take(samples).collect()
    }
}

/// The references of a job, as files for as long as this lives.
#[derive(Debug)]
pub struct References {
    folder: PathBuf,
}

impl References {
    /// With an empty `folder`: what a life that was cut short left there is removed.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        // A program may be somewhere else.
        let folder = std::path::absolute(folder)?;
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => DirBuilder::new().mode(0o700).create(&folder)?,
        }
        Ok(Self { folder })
    }

    /// Keeps the reference of a recording.
    ///
    /// # Errors
    /// When the disk refuses, or there is one.
    pub fn keep(&self, recording: u32, sound: &[f32]) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(self.path(recording))?;
        file.write_all(&wav::write(sound))
    }

    /// Where the reference of a recording is.
    pub fn path(&self, recording: u32) -> PathBuf {
        self.folder.join(format!("{recording}.wav"))
    }
}

impl Drop for References {
    /// Where that fails, the job's folder is cleared at its end, and says so where that fails too.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// A tone of so many seconds over a quiet hum; its first sample tells which it is.
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
    fn a_reference_is_the_cleanest_half_minute_in_the_order_of_the_recording() {
        let mut reference = Reference::default();
        for loudness in [0.3, 0.02, 0.5, 0.4, 0.03, 0.2, 0.6] {
            reference.hear(&piece(6, loudness));
        }
        reference.hear(&vec![0.0; 16_000]);
        let expected: Vec<f32> =
            [0.3, 0.5, 0.4, 0.2, 0.6].into_iter().flat_map(|loudness| piece(6, loudness)).collect();
        assert_eq!((expected.len(), reference.sound() == expected), (MOST, true));
    }

    #[test]
    fn a_long_piece_is_cut_a_short_one_repeated_and_silence_is_nothing() {
        let mut long = Reference::default();
        long.hear(&piece(40, 0.2));
        assert_eq!(long.sound(), piece(40, 0.2)[..MOST]);
        let mut short = Reference::default();
        short.hear(&piece(2, 0.2));
        let sound = short.sound();
        assert_eq!(sound.len(), LEAST);
        assert!(sound.chunks(2 * RATE as usize).all(|part| part == piece(2, 0.2)));
        let mut silent = Reference::default();
        silent.hear(&[0.0; 4_000]);
        silent.hear(&[]);
        assert_eq!(silent.sound(), Vec::<f32>::new());
    }

    #[test]
    fn files_are_for_their_owner_alone_and_gone_afterwards_whatever_an_earlier_life_left() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("references");
        fs::create_dir(&at).unwrap();
        fs::write(at.join("7.wav"), "left behind").unwrap();
        let references = References::begin(&at).unwrap();
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
