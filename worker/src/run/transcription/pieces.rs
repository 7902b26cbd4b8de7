//! The step from first transcripts to sendable pieces: the vocabulary, and the pieces that stay.

use std::path::Path;

use undertone_api::job::transcription::{Spec, Vocabulary as Asked};

use super::hear::First;
use super::tools::Tools;
use super::{failed, go_on};
use crate::run::{Exchange, RunError};
use crate::speech::transcribe::parts::parts;
use crate::speech::transcribe::piece::Recognition;
use crate::speech::transcribe::plan::{Candidate, load_or_create};
use crate::speech::transcribe::transcript::TranscriptPart;
use crate::speech::transcribe::vocabulary::{self, Vocabulary, WordChoice, WordList};

/// One recording in its pieces.
pub(super) struct Cut {
    /// The number of its first piece among those of all recordings.
    pub(super) first: u32,
    /// Its pieces, by their numbers in the recording. The pieces that stay because of the plan are not known yet.
    pub(super) parts: Vec<TranscriptPart>,
}

/// All state before the random choices.
pub(super) struct Ground {
    pub(super) vocabulary: Vocabulary,
    pub(super) cuts: Vec<Cut>,
}

impl Ground {
    /// Returns the pieces that may be sent, by their numbers among those of all recordings.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let all = self.cuts.iter().flat_map(|cut| cut.parts.iter().map(|part| (cut.first, part)));
        let may = all.filter(|(_, part)| part.stays.is_none());
        may.map(|(first, part)| (first + part.piece.id, self.vocabulary.classify(&part.offline.words))).collect()
    }

    /// Returns the recording of a piece, and the piece.
    pub(super) fn part(&self, number: u32) -> Option<(usize, &TranscriptPart)> {
        let recording = self.cuts.partition_point(|cut| cut.first <= number).checked_sub(1)?;
        let cut = &self.cuts[recording];
        cut.parts.get((number - cut.first) as usize).map(|part| (recording, part))
    }

    /// Returns the number of pieces of all recordings.
    pub(super) fn pieces(&self) -> u64 {
        self.cuts.iter().map(|cut| cut.parts.len() as u64).sum()
    }
}

/// Computes the state, or reads an earlier process's.
///
/// # Errors
/// [`RunError`] when the vocabulary is invalid, or the exchange is stopped.
pub(super) fn ground(
    spec: &Spec,
    heard: &[First],
    tools: &Tools,
    work: &Path,
    exchange: &dyn Exchange,
) -> Result<Ground, RunError> {
    let vocabulary = load_or_create(&work.join("vocabulary.json"), || words(spec, heard, tools))?;
    let (mut cuts, mut first) = (Vec::with_capacity(heard.len()), 0_u32);
    for heard in heard {
        go_on(exchange)?;
        let parts = parts(heard.pieces.clone(), &tools.finder);
        let next = u32::try_from(parts.len()).ok().and_then(|count| first.checked_add(count));
        let next =
            next.ok_or_else(|| failed("the recordings have more than 4294967295 pieces: make several datasets"))?;
        cuts.push(Cut { first, parts });
        first = next;
    }
    Ok(Ground { vocabulary, cuts })
}

fn words(spec: &Spec, heard: &[First], tools: &Tools) -> Result<Vocabulary, RunError> {
    let list = |words: &[String]| WordList::from_words(words).map_err(failed);
    match &spec.vocabulary {
        Asked::Public { words } => vocabulary::public(tools.language, &list(words)?).map_err(failed),
        Asked::Data { top_percent, above, most, words } => {
            let transcripts: Vec<Recognition> = heard.iter().map(First::all_words).collect();
            let transcripts: Vec<&Recognition> = transcripts.iter().collect();
            let choice = WordChoice { top_percent: *top_percent, above: *above, most: *most };
            let list = if words.is_empty() { None } else { Some(list(words)?) };
            vocabulary::from_transcripts(tools.language, &transcripts, &choice, &tools.baseline, list.as_ref())
                .map_err(failed)
        }
    }
}
