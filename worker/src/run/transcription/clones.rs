//! Voices to imitate, if the site's speech engine clones: each dummy belongs to one recording, and is spoken in its
//! voice.
//!
//! The recording is that of the true piece with the dummy's manner, drawn once and stored with it. A dummy that is
//! spoken again after a crash has the same voice. References are files only while dummies are made.

use std::path::Path;

use super::TranscriptionError;
use super::dummies::DummyManner;
use super::pieces::PieceCatalog;
use crate::run::{RunContext, RunError, check_cancelled};
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
pub(super) fn create_folder(engine: &SpeechEngine, work: &Path) -> Result<Option<ReferenceFolder>, RunError> {
    let create = || ReferenceFolder::begin(&work.join("voices")).map_err(TranscriptionError::VoiceReference);
    Ok(engine.clones().then(create).transpose()?)
}

/// Stores missing references of the recordings that `spoken` dummies belong to. Dummies leave even if no piece of a
/// recording is sent: in a voice of its speech or, if no speech was found, of its beginning.
///
/// # Errors
/// [`RunError`] when a recording cannot be read or is silent, the disk refuses, or the exchange is stopped.
pub(super) fn complete<'a>(
    references: &ReferenceFolder,
    spoken: impl Iterator<Item = &'a DummyManner>,
    recordings: &Recordings,
    catalog: &PieceCatalog,
    exchange: &dyn RunContext,
) -> Result<(), RunError> {
    let mut numbers: Vec<u32> = spoken.map(|manner| manner.recording).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers.into_iter().filter(|number| !references.path(*number).exists()) {
        check_cancelled(exchange)?;
        let place = number as usize;
        let recording = recordings.meta().recordings.get(place);
        let (recording, pieces) =
            recording.zip(catalog.recordings.get(place)).ok_or(TranscriptionError::OtherDummies)?;
        // Sensitive pieces are withheld from the program too, if the voice is audible elsewhere.
        let usable = pieces.parts.iter().filter(|part| part.stays != Some(OfflineReason::Sensitive));
        let sound = collect_reference(recordings, recording, usable.map(|part| part.piece.clone()).collect())?;
        references.keep(number, &sound).map_err(TranscriptionError::VoiceReference)?;
    }
    Ok(())
}

/// Returns the reference of a recording: of these pieces, or of its beginning if they have no sound.
fn collect_reference(recordings: &Recordings, recording: &Recording, pieces: Vec<Piece>) -> Result<Vec<f32>, RunError> {
    let whole = Piece { id: 0, samples: 0..recording.samples.min(MOST as u64) };
    let mut reference = VoiceReference::default();
    for pieces in [pieces, vec![whole]] {
        for sound in extract_pieces(recordings.stream(recording)?, pieces) {
            reference.add(&sound?.audio);
        }
        let sound = reference.sound();
        if !sound.is_empty() {
            return Ok(sound);
        }
    }
    Err(TranscriptionError::SilentRecording.into())
}

/// Speaks a text in a manner, in the voice of its recording if there are references.
///
/// # Errors
/// Any error of the engine.
pub(super) fn speak(
    engine: &SpeechEngine,
    references: Option<&ReferenceFolder>,
    text: &str,
    manner: &DummyManner,
) -> Result<Vec<f32>, SpeakError> {
    match references {
        Some(references) => engine.imitating(&references.path(manner.recording)).speak(text, manner.manner.rate),
        None => engine.speak(text, manner.manner.rate),
    }
}
