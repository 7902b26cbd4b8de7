//! The step from first transcripts to sendable pieces: the vocabulary, and the pieces that stay.

use std::path::Path;

use undertone_api::job::transcription::{Spec, Vocabulary as VocabularySpec, WordWeight};

use super::TranscriptionError;
use super::first_transcript::FirstTranscript;
use super::tools::JobTools;
use crate::dp::randomness::Purpose;
use crate::run::{RunContext, RunError, check_cancelled};
use crate::speech::transcribe::parts::parts;
use crate::speech::transcribe::piece::Recognition;
use crate::speech::transcribe::plan::{Candidate, load_or_create};
use crate::speech::transcribe::transcript::TranscriptPart;
use crate::speech::transcribe::vocabulary::{self, Vocabulary, WordChoice, WordList, WordSelection};

/// One recording in its pieces.
pub(super) struct RecordingPieces {
    /// The number of its first piece among those of all recordings.
    pub(super) first: u32,
    /// Its pieces, by their numbers in the recording. The pieces that stay because of the plan are not known yet.
    pub(super) parts: Vec<TranscriptPart>,
}

/// All state before the random choices: the vocabulary, and the pieces of all recordings.
pub(super) struct PieceCatalog {
    pub(super) vocabulary: Vocabulary,
    pub(super) recordings: Vec<RecordingPieces>,
}

impl PieceCatalog {
    /// Returns the pieces that may be sent, by their numbers among those of all recordings.
    pub(super) fn candidates(&self) -> Vec<Candidate> {
        let parts = self.recordings.iter().flat_map(|pieces| pieces.parts.iter().map(|part| (pieces.first, part)));
        let sendable = parts.filter(|(_, part)| part.stays.is_none());
        let candidate = |(first, part): (u32, &TranscriptPart)| {
            (first + part.piece.id, self.vocabulary.classify(&part.offline.words))
        };
        sendable.map(candidate).collect()
    }

    /// Returns the recording of a piece, and the piece.
    pub(super) fn part(&self, number: u32) -> Option<(usize, &TranscriptPart)> {
        let recording = self.recordings.partition_point(|pieces| pieces.first <= number).checked_sub(1)?;
        let pieces = &self.recordings[recording];
        pieces.parts.get((number - pieces.first) as usize).map(|part| (recording, part))
    }

    /// Returns the number of pieces of all recordings.
    pub(super) fn piece_count(&self) -> u64 {
        self.recordings.iter().map(|pieces| pieces.parts.len() as u64).sum()
    }
}

/// Computes the catalog, with the vocabulary of an earlier process if there is one.
///
/// A choice of words with noise is drawn once, and stored before anything depends on it. It leaves with the dummies, in
/// the release that is charged for both.
///
/// # Errors
/// [`RunError`] when the vocabulary is invalid, or the exchange is stopped.
pub(super) fn load_catalog(
    spec: &Spec,
    transcripts: &[FirstTranscript],
    tools: &JobTools,
    work: &Path,
    exchange: &mut dyn RunContext,
) -> Result<PieceCatalog, RunError> {
    let mut recordings = Vec::with_capacity(transcripts.len());
    let mut first = 0_u32;
    for transcript in transcripts {
        check_cancelled(exchange)?;
        let parts = parts(transcript.pieces.clone(), &tools.finder);
        let next = u32::try_from(parts.len()).ok().and_then(|count| first.checked_add(count));
        recordings.push(RecordingPieces { first, parts });
        first = next.ok_or(TranscriptionError::TooManyPieces)?;
    }
    let vocabulary = load_or_create(&work.join("vocabulary.json"), || {
        make_vocabulary(spec, transcripts, &recordings, tools, exchange)
    })?;
    Ok(PieceCatalog { vocabulary, recordings })
}

fn make_vocabulary(
    spec: &Spec,
    transcripts: &[FirstTranscript],
    recordings: &[RecordingPieces],
    tools: &JobTools,
    exchange: &mut dyn RunContext,
) -> Result<Vocabulary, RunError> {
    let list = |words: &[String]| if words.is_empty() { Ok(None) } else { WordList::from_words(words).map(Some) };
    Ok(match &spec.vocabulary {
        VocabularySpec::Public { words } => vocabulary::public(tools.language, &WordList::from_words(words)?)?,
        VocabularySpec::Data { top_percent, above, most, words } => {
            let transcripts: Vec<Recognition> = transcripts.iter().map(FirstTranscript::all_words).collect();
            let transcripts: Vec<&Recognition> = transcripts.iter().collect();
            let choice = WordChoice { top_percent: *top_percent, above: *above, most: *most };
            let list = list(words)?;
            vocabulary::from_transcripts(tools.language, &transcripts, &choice, &tools.baseline, list.as_ref())?
        }
        VocabularySpec::Selected { choose, epsilon, weight, candidates, words } => {
            let candidates = WordList::from_words(candidates)?;
            let list = list(words)?;
            let selection = WordSelection {
                choose: *choose,
                epsilon: *epsilon,
                distance: spec.participant.distance,
                candidates: &candidates,
                corpus: (*weight == WordWeight::TfIdf).then_some(&tools.baseline),
                list: list.as_ref(),
            };
            let parts = recordings.iter().flat_map(|recording| &recording.parts);
            let leaving = parts.filter(|part| part.stays.is_none()).map(|part| &part.offline);
            let randomness = exchange.draw_randomness(Purpose::Vocabulary);
            vocabulary::select_words(tools.language, leaving, &selection, &randomness)?
        }
    })
}
