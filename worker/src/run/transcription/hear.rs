//! The first transcript of every recording, by the site's own recognizer.
//!
//! Recordings are read as streams. Memory holds only the pieces in recognition, for any length of the recording, and
//! all words. A recognized recording is not recognized again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::tools::Tools;
use super::{failed, go_on};
use crate::run::{Exchange, RunError};
use crate::speech::recordings::{Recording, Recordings};
use crate::speech::transcribe::piece::{Piece, Recognition};
use crate::speech::transcribe::plan::load_or_create;
use crate::speech::transcribe::segment::{SegmentLimits, SpokenPiece, segment};

/// The recognition of one recording.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct First {
    /// The pieces in order of time, each with the words that were recognized in it alone, timed from the beginning of
    /// the recording.
    pub(super) pieces: Vec<(Piece, Recognition)>,
}

impl First {
    /// Returns all words, in order of time.
    pub(super) fn all_words(&self) -> Recognition {
        Recognition { words: self.pieces.iter().flat_map(|(_, heard)| heard.words.iter().cloned()).collect() }
    }
}

/// Recognizes all recordings, in the order of the dataset.
///
/// # Errors
/// [`RunError`] when one cannot be read or recognized, or the exchange is stopped.
pub(super) fn all(
    recordings: &Recordings,
    tools: &Tools,
    work: &Path,
    exchange: &dyn Exchange,
) -> Result<Vec<First>, RunError> {
    let all = recordings.meta().recordings.iter().enumerate();
    let one = |(number, recording)| {
        load_or_create(&work.join(format!("heard-{number}.json")), || one(recordings, recording, tools, exchange))
    };
    all.map(one).collect()
}

fn one(
    recordings: &Recordings,
    recording: &Recording,
    tools: &Tools,
    exchange: &dyn Exchange,
) -> Result<First, RunError> {
    let stream = recordings.stream(recording).map_err(RunError::from_failure)?;
    let sounds = segment(stream, SegmentLimits::default()).map_err(failed)?.map(|sound| sound.map_err(failed));
    let timed = |sound: SpokenPiece, heard: Recognition| {
        let start = sound.piece.start();
        (sound.piece, Recognition { words: heard.words.iter().map(|word| word.later(start)).collect() })
    };
    Ok(First { pieces: tools.ears.transcribe(sounds, &|| go_on(exchange), &timed)? })
}
