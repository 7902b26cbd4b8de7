//! From first transcripts to what may be sent: the vocabulary, pieces with at most one word of it, and those that stay.

use std::path::Path;

use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::{Spec, Vocabulary as Asked};

use super::hear::First;
use super::tools::Tools;
use super::{failed, go_on};
use crate::run::{Exchange, RunError};
use crate::speech::recordings::{Recording, Recordings};
use crate::speech::transcribe::parts::parts;
use crate::speech::transcribe::piece::{Heard, Piece, Word};
use crate::speech::transcribe::plan::{Candidate, kept};
use crate::speech::transcribe::segment::Limits;
use crate::speech::transcribe::segment::cut::cut;
use crate::speech::transcribe::segment::split::Splitter;
use crate::speech::transcribe::transcript::Part;
use crate::speech::transcribe::vocabulary::{self, Choice, List, Vocabulary};

/// One recording in its pieces.
pub(super) struct Cut {
    /// The number of its first piece among those of all recordings.
    pub(super) first: u32,
    /// Its pieces, by their numbers in the recording. Which stay because of the plan is not known yet.
    pub(super) parts: Vec<Part>,
}

/// Everything that is known before chance comes in.
pub(super) struct Ground {
    pub(super) vocabulary: Vocabulary,
    pub(super) cuts: Vec<Cut>,
}

impl Ground {
    /// The pieces that may be sent, by their numbers among those of all recordings.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let all = self.cuts.iter().flat_map(|cut| cut.parts.iter().map(|part| (cut.first, part)));
        let may = all.filter(|(_, part)| part.stays.is_none());
        may.map(|(first, part)| (first + part.piece.id, self.vocabulary.held(&part.offline.words))).collect()
    }

    /// The recording of a piece, and the piece.
    pub(super) fn part(&self, number: u32) -> Option<(usize, &Part)> {
        let recording = self.cuts.partition_point(|cut| cut.first <= number).checked_sub(1)?;
        let cut = &self.cuts[recording];
        cut.parts.get((number - cut.first) as usize).map(|part| (recording, part))
    }

    /// Pieces of all recordings.
    pub(super) fn pieces(&self) -> u64 {
        self.cuts.iter().map(|cut| cut.parts.len() as u64).sum()
    }
}

/// Works it out, or reads what an earlier life did.
///
/// # Errors
/// [`RunError`] when the vocabulary cannot be, a recording cannot be read, or the exchange says stop.
pub(super) fn ground(
    spec: &Spec,
    recordings: &Recordings,
    heard: &[First],
    tools: &Tools,
    work: &Path,
    exchange: &dyn Exchange,
) -> Result<Ground, RunError> {
    let vocabulary = kept(&work.join("vocabulary.json"), || words(spec, heard, tools))?;
    let (mut cuts, mut first) = (Vec::with_capacity(heard.len()), 0_u32);
    for (number, (recording, heard)) in recordings.meta().recordings.iter().zip(heard).enumerate() {
        go_on(exchange)?;
        let path = work.join(format!("pieces-{number}.json"));
        let Pieces(pieces) = kept(&path, || split(recordings, recording, heard, &vocabulary, exchange))?;
        let parts = parts(pieces, &heard.words, &tools.finder);
        let next = u32::try_from(parts.len()).ok().and_then(|count| first.checked_add(count));
        let next =
            next.ok_or_else(|| failed("the recordings have more than 4294967295 pieces: make several datasets"))?;
        cuts.push(Cut { first, parts });
        first = next;
    }
    Ok(Ground { vocabulary, cuts })
}

#[derive(Serialize, Deserialize)]
struct Pieces(Vec<Piece>);

fn words(spec: &Spec, heard: &[First], tools: &Tools) -> Result<Vocabulary, RunError> {
    let list = |words: &[String]| List::of(words).map_err(failed);
    match &spec.vocabulary {
        Asked::Public { words } => vocabulary::public(tools.language, &list(words)?).map_err(failed),
        Asked::Data { top_percent, above, most, words } => {
            let transcripts: Vec<Heard> = heard.iter().map(|first| Heard { words: first.words.clone() }).collect();
            let transcripts: Vec<&Heard> = transcripts.iter().collect();
            let choice = Choice { top_percent: *top_percent, above: *above, most: *most };
            let list = if words.is_empty() { None } else { Some(list(words)?) };
            vocabulary::from_transcripts(tools.language, &transcripts, &choice, &tools.baseline, list.as_ref())
                .map_err(failed)
        }
    }
}

/// Cuts a recording again, by word.
fn split(
    recordings: &Recordings,
    recording: &Recording,
    heard: &First,
    vocabulary: &Vocabulary,
    exchange: &dyn Exchange,
) -> Result<Pieces, RunError> {
    let stream = recordings.stream(recording).map_err(failed)?;
    let mut splitter = Splitter::new(&Limits::default()).map_err(failed)?;
    let mut pieces = Vec::new();
    let mut rest = heard.words.as_slice();
    for spoken in cut(stream, heard.pieces.iter().cloned()) {
        go_on(exchange)?;
        let spoken = spoken.map_err(failed)?;
        // Words are in order, as pieces are: what lies before this one is done with.
        let before = rest.iter().take_while(|word| word.middle() < spoken.piece.start()).count();
        rest = &rest[before..];
        let inside = rest.iter().take_while(|word| word.middle() < spoken.piece.end()).count();
        let parts = splitter.split(spoken, &rest[..inside], |word| held(vocabulary, word));
        pieces.extend(parts.into_iter().map(|part| part.piece));
    }
    Ok(Pieces(pieces))
}

fn held(vocabulary: &Vocabulary, word: &Word) -> bool {
    word.text.split_whitespace().any(|text| vocabulary.number(text).is_some())
}
