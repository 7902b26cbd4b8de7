//! The first transcript of every recording, by the site's own recognizer.
//!
//! Recordings are read as streams. Memory holds only the pieces in recognition, for any length of the recording, and
//! all words. A recognized recording is not recognized again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::tools::JobTools;
use crate::run::{RunContext, RunError, check_cancelled};
use crate::speech::recordings::{Recording, Recordings};
use crate::speech::transcribe::piece::{Piece, Recognition};
use crate::speech::transcribe::plan::load_or_create;
use crate::speech::transcribe::segment::{SegmentLimits, SpokenPiece, segment};

/// The recognition of one recording.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstTranscript {
    /// The pieces in order of time, each with the words that were recognized in it alone, timed from the beginning of
    /// the recording.
    pub(super) pieces: Vec<(Piece, Recognition)>,
}

impl FirstTranscript {
    /// Returns all words, in order of time.
    pub(super) fn all_words(&self) -> Recognition {
        Recognition {
            words: self.pieces.iter().flat_map(|(_, recognition)| recognition.words.iter().cloned()).collect(),
        }
    }
}

/// Recognizes all recordings, in the order of the dataset.
///
/// # Errors
/// [`RunError`] when one cannot be read or recognized, or the exchange is stopped.
pub(super) fn transcribe_all(
    recordings: &Recordings,
    tools: &JobTools,
    work: &Path,
    exchange: &dyn RunContext,
) -> Result<Vec<FirstTranscript>, RunError> {
    let transcribe = |(number, recording)| {
        load_or_create(&work.join(format!("heard-{number}.json")), || {
            transcribe_recording(recordings, recording, tools, exchange)
        })
    };
    recordings.meta().recordings.iter().enumerate().map(transcribe).collect()
}

fn transcribe_recording(
    recordings: &Recordings,
    recording: &Recording,
    tools: &JobTools,
    exchange: &dyn RunContext,
) -> Result<FirstTranscript, RunError> {
    let stream = recordings.stream(recording)?;
    let sounds = segment(stream, SegmentLimits::default())?.map(|sound| sound.map_err(RunError::from));
    let timed = |sound: SpokenPiece, recognition: Recognition| {
        let start = sound.piece.start();
        (sound.piece, Recognition { words: recognition.words.iter().map(|word| word.later(start)).collect() })
    };
    Ok(FirstTranscript { pieces: tools.recognizer.transcribe(sounds, &|| check_cancelled(exchange), &timed)? })
}
