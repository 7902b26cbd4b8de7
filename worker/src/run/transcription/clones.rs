//! Voices to imitate, if the site's speech engine clones: each dummy belongs to one recording, and is spoken in its
//! voice.
//!
//! The recording is that of the true piece with the dummy's manner, drawn once and stored with it. A dummy that is
//! spoken again after a crash has the same voice. References are files only while dummies are made.

use std::path::Path;

use super::dummies::Sounding;
use super::pieces::Ground;
use super::{failed, go_on};
use crate::run::{Exchange, RunError};
use crate::speech::recordings::{Recording, Recordings};
use crate::speech::transcribe::piece::Piece;
use crate::speech::transcribe::segment::cut::extract_pieces;
use crate::speech::transcribe::speak::reference::{MOST, ReferenceFolder, VoiceReference};
use crate::speech::transcribe::speak::{SpeakError, SpeechEngine, SpeechSynthesizer as _};
use crate::speech::transcribe::transcript::OfflineReason;

/// Makes a folder for references below the work folder; returns `None` for an engine that does not clone.
///
/// # Errors
/// [`RunError`] when the disk refuses.
pub(super) fn begin(engine: &SpeechEngine, work: &Path) -> Result<Option<ReferenceFolder>, RunError> {
    let begin = || ReferenceFolder::begin(&work.join("voices")).map_err(RunError::from_failure);
    engine.clones().then(begin).transpose()
}

/// Stores missing references of the recordings that `spoken` dummies belong to. Dummies leave even if no piece of a
/// recording is sent: in a voice of its speech or, if no speech was found, of its beginning.
///
/// # Errors
/// [`RunError`] when a recording cannot be read or is silent, the disk refuses, or the exchange is stopped.
pub(super) fn complete<'a>(
    references: &ReferenceFolder,
    spoken: impl Iterator<Item = &'a Sounding>,
    recordings: &Recordings,
    ground: &Ground,
    exchange: &dyn Exchange,
) -> Result<(), RunError> {
    let mut wanted: Vec<u32> = spoken.map(|one| one.recording).collect();
    wanted.sort_unstable();
    wanted.dedup();
    for number in wanted.into_iter().filter(|number| !references.path(*number).exists()) {
        go_on(exchange)?;
        let place = number as usize;
        let (recording, of) = recordings
            .meta()
            .recordings
            .get(place)
            .zip(ground.cuts.get(place))
            .ok_or_else(|| failed("what is kept of the dummies is of other recordings"))?;
        // Sensitive pieces are withheld from the program too, if the voice is audible elsewhere.
        let kept = of.parts.iter().filter(|part| part.stays != Some(OfflineReason::Sensitive));
        let sound = heard(recordings, recording, kept.map(|part| part.piece.clone()).collect())?;
        references.keep(number, &sound).map_err(RunError::from_failure)?;
    }
    Ok(())
}

fn heard(recordings: &Recordings, recording: &Recording, pieces: Vec<Piece>) -> Result<Vec<f32>, RunError> {
    let mut reference = VoiceReference::default();
    for sound in extract_pieces(recordings.stream(recording).map_err(RunError::from_failure)?, pieces) {
        reference.add(&sound.map_err(failed)?.audio);
    }
    let sound = reference.sound();
    if !sound.is_empty() {
        return Ok(sound);
    }
    let whole = Piece { id: 0, samples: 0..recording.samples.min(MOST as u64) };
    for sound in extract_pieces(recordings.stream(recording).map_err(RunError::from_failure)?, [whole]) {
        reference.add(&sound.map_err(failed)?.audio);
    }
    let sound = reference.sound();
    if sound.is_empty() { Err(failed("a recording is silent: there is no voice in it to imitate")) } else { Ok(sound) }
}

/// Speaks a text in a manner, in the voice of its recording if there are references.
///
/// # Errors
/// Any error of the engine.
pub(super) fn say(
    engine: &SpeechEngine,
    references: Option<&ReferenceFolder>,
    text: &str,
    sounding: &Sounding,
) -> Result<Vec<f32>, SpeakError> {
    match references {
        Some(references) => engine.imitating(&references.path(sounding.recording)).speak(text, sounding.manner.rate),
        None => engine.speak(text, sounding.manner.rate),
    }
}
