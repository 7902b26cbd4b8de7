//! Aligns the chosen recordings: one aligner per core, a journal from which an interrupted run continues, and a reason
//! for every recording without labels.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use sha2::{Digest, Sha256};

use super::scan::ScannedRecording;
use super::transcripts::TranscriptTable;
use super::{PrepareError, PrepareOptions, RecordingProblem, ScanError};
use crate::align::aligner::{AlignFailure, Aligner, AlignerError, AlignerIdentity, AlignerProgram};
use crate::align::alignment::{Alignment, AlignmentSet};
use crate::align::journal::LabelJournal;
use crate::audio;
use crate::mfcc::WINDOW;
use undertone_worker_site::progress::ProgressReporter;

/// The result of forced alignment.
pub(super) struct ForcedLabels {
    /// The labels of the chosen recordings only.
    pub(super) alignments: AlignmentSet,
    /// The problems of recordings without labels.
    pub(super) problems: Vec<RecordingProblem>,
    /// The identity of the aligner.
    pub(super) by: AlignerIdentity,
    /// Number of recordings that an earlier run aligned.
    pub(super) resumed: usize,
}

/// The result for one recording.
type Outcome = Result<(String, Alignment), RecordingProblem>;

/// Aligns the `chosen` recordings with `program`, storing labels in the journal at `options.alignments`.
///
/// # Errors
/// [`PrepareError`] if no aligner runs, or journal or transcripts cannot be used. The labels up to then are kept.
pub(super) fn align(
    program: &dyn AlignerProgram,
    options: &PrepareOptions,
    chosen: &[ScannedRecording],
    progress: &dyn ProgressReporter,
) -> Result<ForcedLabels, PrepareError> {
    let transcripts =
        TranscriptTable::read(&options.input, chosen).map_err(|(path, source)| ScanError::Io { path, source })?;
    // The first process defines the identity that the others must have, before any label is written.
    let first = program.start().map_err(PrepareError::Aligner)?;
    let by = first.identity().clone();
    let mut journal = LabelJournal::open(&options.alignments)?;
    let (mut problems, mut todo) = (Vec::new(), Vec::new());
    for recording in chosen {
        let Some(text) = transcripts.find(recording) else {
            problems.push(RecordingProblem::Untranscribed { id: recording.id.clone() });
            continue;
        };
        // The file is read only if earlier labels exist, to check that they belong to it.
        let is_labelled = journal.knows(&recording.id)
            && label_digest(&by, text, &recording.path).is_ok_and(|of| journal.find(&recording.id, &of).is_some());
        if !is_labelled {
            todo.push((recording, text));
        }
    }
    let resumed = chosen.len() - problems.len() - todo.len();
    progress.start("Aligning", todo.len() as u64);
    let work = AlignmentQueue {
        program,
        options,
        by: &by,
        todo: &todo,
        next: AtomicUsize::new(0),
        gone: Mutex::new(None),
        progress,
    };
    let threads = options.threads.clamp(1, todo.len().max(1));
    let outcome = thread::scope(|scope| {
        let (done, outcomes) = channel();
        let mut first = Some(first);
        for _ in 0..threads {
            let (work, done, first) = (&work, done.clone(), first.take());
            scope.spawn(move || work.run(first, &done));
        }
        drop(done);
        // Stores labels as they arrive. If that fails, the channel closes and the workers stop.
        for (recording, outcome) in outcomes {
            match outcome {
                Ok((of, alignment)) => journal.add(&recording.id, of, alignment)?,
                Err(problem) => problems.push(problem),
            }
        }
        journal.finish()
    });
    progress.finish();
    outcome?;
    if let Some(error) = work.gone.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(PrepareError::Aligner(error));
    }
    let left: BTreeSet<&str> = problems.iter().filter_map(RecordingProblem::id).collect();
    let mut alignments = AlignmentSet { bad_lines: transcripts.bad_lines, ..AlignmentSet::default() };
    for recording in chosen.iter().filter(|recording| !left.contains(recording.id.as_str())) {
        if let Some(alignment) = journal.any(&recording.id) {
            alignments.by_id.insert(recording.id.clone(), alignment.clone());
        }
    }
    // Threads end in any order; the report is sorted.
    problems.sort_by(|a, b| a.id().cmp(&b.id()));
    Ok(ForcedLabels { alignments, problems, by, resumed })
}

struct AlignmentQueue<'a> {
    program: &'a dyn AlignerProgram,
    options: &'a PrepareOptions,
    by: &'a AlignerIdentity,
    todo: &'a [(&'a ScannedRecording, &'a str)],
    next: AtomicUsize,
    /// The error after which no aligner runs and all threads stop.
    gone: Mutex<Option<AlignerError>>,
    progress: &'a dyn ProgressReporter,
}

impl<'a> AlignmentQueue<'a> {
    /// Processes the next unclaimed recording until there is none.
    fn run(&self, mut aligner: Option<Box<dyn Aligner>>, done: &Sender<(&'a ScannedRecording, Outcome)>) {
        while let Some((recording, text)) = self.todo.get(self.next.fetch_add(1, Ordering::Relaxed)).copied() {
            let outcome = match self.one(&mut aligner, recording, text) {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.next.store(self.todo.len(), Ordering::Relaxed);
                    // A poisoned lock means that another thread panicked; its content is still valid.
                    *self.gone.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(error);
                    return;
                }
            };
            self.progress.advance(1);
            if done.send((recording, outcome)).is_err() {
                return;
            }
        }
    }

    fn one(
        &self,
        aligner: &mut Option<Box<dyn Aligner>>,
        recording: &ScannedRecording,
        text: &str,
    ) -> Result<Outcome, AlignerError> {
        let id = || recording.id.clone();
        let audio = match audio::read(&recording.path, self.options.longest) {
            Ok(audio) => audio,
            Err(error) => return Ok(Err(RecordingProblem::audio(self.options, &error))),
        };
        if audio.samples.len() < WINDOW {
            return Ok(Err(RecordingProblem::Short { id: id(), seconds: audio.seconds() }));
        }
        let of = match label_digest(self.by, text, &recording.path) {
            Ok(of) => of,
            Err(error) => return Ok(Err(RecordingProblem::Unaligned { id: id(), reason: error.to_string() })),
        };
        let aligner = match aligner {
            Some(aligner) => aligner,
            None => aligner.insert(self.program.start()?),
        };
        if aligner.identity() != self.by {
            return Err(AlignerError::Changed(aligner.identity().program.clone()));
        }
        match aligner.align(&audio.samples, text) {
            Ok(alignment) => Ok(Ok((of, alignment))),
            Err(AlignFailure::Words(words)) => Ok(Err(RecordingProblem::Words { id: id(), words })),
            Err(AlignFailure::Failed(reason)) => Ok(Err(RecordingProblem::Unaligned { id: id(), reason })),
            Err(AlignFailure::Gone(error)) => Err(error),
        }
    }
}

/// Returns the digest of the inputs of labels: the aligner, the transcript and the recording's bytes.
fn label_digest(by: &AlignerIdentity, text: &str, path: &Path) -> std::io::Result<String> {
    let recording = Sha256::digest(std::fs::read(path)?);
    let parts = [by.identity.as_bytes(), text.as_bytes(), recording.as_slice()];
    let digest = parts.into_iter().map(Sha256::digest).fold(Sha256::new(), Sha256::chain_update).finalize();
    Ok(hex::encode(&digest[..16]))
}
