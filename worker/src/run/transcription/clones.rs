//! Voices to imitate, where the site's speech engine clones: each dummy is of one recording, and spoken in the voice of that.
//!
//! The recording is that of the true piece whose manner the dummy has, drawn once and kept with it: what is spoken again after a
//! crash is spoken in the same voice. References are files only while dummies are made.

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

/// A place for references below the work folder; `None` for an engine that does not clone.
///
/// # Errors
/// [`RunError`] when the disk refuses.
pub(super) fn begin(engine: &SpeechEngine, work: &Path) -> Result<Option<ReferenceFolder>, RunError> {
    let begin = || ReferenceFolder::begin(&work.join("voices")).map_err(RunError::from_failure);
    engine.clones().then(begin).transpose()
}

/// Keeps the references of the recordings that `spoken` dummies are of and that have none: where nothing is sent, the dummies still leave,
/// in a voice that is heard in the recording or, where no speech was found, after its beginning.
///
/// # Errors
/// [`RunError`] when a recording cannot be read or is silent, the disk refuses, or the exchange says stop.
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
        // What must never leave is not shown to a program either, if the voice is to be heard anywhere else.
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

/// Says a text as it is to sound, in the voice of its recording where there are references.
///
/// # Errors
/// What the engine says.
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
