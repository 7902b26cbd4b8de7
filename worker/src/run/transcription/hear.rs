//! The first transcript of every recording, by the site's own recognizer.
//!
//! Recordings are read as streams: in memory are the pieces that are heard at the moment, whatever the length of the recording, and
//! the words of all. A recording that was heard is not heard again.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::tools::Tools;
use super::{failed, go_on};
use crate::run::{Exchange, RunError};
use crate::speech::recordings::{Recording, Recordings};
use crate::speech::transcribe::piece::{Heard, Piece, Word};
use crate::speech::transcribe::plan::kept;
use crate::speech::transcribe::segment::{Limits, segment};

/// What was heard in one recording.
#[derive(Serialize, Deserialize)]
pub(super) struct First {
    /// Pieces by pauses, in order of time.
    pub(super) pieces: Vec<Piece>,
    /// Words, timed from the beginning of the recording, in order.
    pub(super) words: Vec<Word>,
}

/// All recordings, in the order of the dataset.
///
/// # Errors
/// [`RunError`] when one cannot be read or heard, or the exchange says stop.
pub(super) fn all(
    recordings: &Recordings,
    tools: &Tools,
    work: &Path,
    exchange: &dyn Exchange,
) -> Result<Vec<First>, RunError> {
    let all = recordings.meta().recordings.iter().enumerate();
    let one = |(number, recording)| {
        kept(&work.join(format!("heard-{number}.json")), || one(recordings, recording, tools, exchange))
    };
    all.map(one).collect()
}

fn one(
    recordings: &Recordings,
    recording: &Recording,
    tools: &Tools,
    exchange: &dyn Exchange,
) -> Result<First, RunError> {
    let stream = recordings.stream(recording).map_err(failed)?;
    let sounds = segment(stream, Limits::default()).map_err(failed)?.map(|sound| sound.map_err(failed));
    let heard: Vec<(Piece, Heard)> =
        tools.ears.hear(sounds, &|| go_on(exchange), &|sound, heard| (sound.piece, heard))?;
    let later = |(piece, heard): &(Piece, Heard)| {
        let start = piece.start();
        heard.words.iter().map(move |word| word.later(start)).collect::<Vec<Word>>()
    };
    let words = heard.iter().flat_map(later).collect();
    Ok(First { pieces: heard.into_iter().map(|(piece, _)| piece).collect(), words })
}
