//! Has the chosen recordings aligned: one aligner a core, a journal that an interrupted run goes on from, and a reason for
//! every recording that is left without labels.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use sha2::{Digest, Sha256};

use super::scan::Recording;
use super::transcripts::Transcripts;
use super::{Options, PrepareError, Problem, ScanError};
use crate::speech::align::aligner::{Aligner, AlignerError, Identity, Program, Unaligned};
use crate::speech::align::journal::Journal;
use crate::speech::align::{Alignment, Alignments};
use crate::speech::audio;
use crate::speech::mfcc::WINDOW;
use crate::speech::progress::Progress;

/// What became of the recordings.
pub(super) struct Forced {
    /// The labels, of the chosen recordings alone.
    pub(super) alignments: Alignments,
    /// Those that have none, and why.
    pub(super) problems: Vec<Problem>,
    /// What aligned them.
    pub(super) by: Identity,
    /// How many had been aligned before.
    pub(super) resumed: usize,
}

/// What happened to one recording.
type Outcome = Result<(String, Alignment), Problem>;

/// Aligns the `chosen` recordings with `program`, keeping labels in the journal at `options.alignments`.
///
/// # Errors
/// [`PrepareError`] when no aligner runs, or journal or transcripts cannot be used. What was aligned until then is kept.
pub(super) fn align(
    program: &dyn Program,
    options: &Options,
    chosen: &[Recording],
    progress: &dyn Progress,
) -> Result<Forced, PrepareError> {
    let transcripts =
        Transcripts::read(&options.input, chosen).map_err(|(path, source)| ScanError::Io { path, source })?;
    // The first one says what the others will be, before anything is written.
    let first = program.start().map_err(PrepareError::Aligner)?;
    let by = first.identity().clone();
    let mut journal = Journal::open(&options.alignments)?;
    let (mut problems, mut todo) = (Vec::new(), Vec::new());
    for recording in chosen {
        let Some(text) = transcripts.find(recording) else {
            problems.push(Problem::Untranscribed { id: recording.id.clone() });
            continue;
        };
        // Only where there are earlier labels must the file be read to know whether they are of it.
        let known = journal.knows(&recording.id)
            && of(&by, text, &recording.path).is_ok_and(|of| journal.find(&recording.id, &of).is_some());
        if !known {
            todo.push((recording, text));
        }
    }
    let resumed = chosen.len() - problems.len() - todo.len();
    progress.start("Aligning", todo.len() as u64);
    let work =
        Work { program, options, by: &by, todo: &todo, next: AtomicUsize::new(0), gone: Mutex::new(None), progress };
    let threads = options.threads.clamp(1, todo.len().max(1));
    let kept = thread::scope(|scope| {
        let (done, outcomes) = channel();
        let mut first = Some(first);
        for _ in 0..threads {
            let (work, done, first) = (&work, done.clone(), first.take());
            scope.spawn(move || work.run(first, &done));
        }
        drop(done);
        // Keeps as it comes; should that fail, the workers find nobody to tell and stop.
        for (recording, outcome) in outcomes {
            match outcome {
                Ok((of, alignment)) => journal.add(&recording.id, of, alignment)?,
                Err(problem) => problems.push(problem),
            }
        }
        journal.finish()
    });
    progress.finish();
    kept?;
    if let Some(error) = work.gone.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
        return Err(PrepareError::Aligner(error));
    }
    let left: BTreeSet<&str> = problems.iter().filter_map(Problem::id).collect();
    let mut alignments = Alignments { bad_lines: transcripts.bad_lines, ..Alignments::default() };
    for recording in chosen.iter().filter(|recording| !left.contains(recording.id.as_str())) {
        if let Some(alignment) = journal.any(&recording.id) {
            alignments.by_id.insert(recording.id.clone(), alignment.clone());
        }
    }
    // Threads end in any order; the report does not.
    problems.sort_by(|a, b| a.id().cmp(&b.id()));
    Ok(Forced { alignments, problems, by, resumed })
}

struct Work<'a> {
    program: &'a dyn Program,
    options: &'a Options,
    by: &'a Identity,
    todo: &'a [(&'a Recording, &'a str)],
    next: AtomicUsize,
    /// Why no aligner runs any more: all stop.
    gone: Mutex<Option<AlignerError>>,
    progress: &'a dyn Progress,
}

impl<'a> Work<'a> {
    /// One thread's share: the next recording that nobody has, until there is none.
    fn run(&self, mut aligner: Option<Box<dyn Aligner>>, done: &Sender<(&'a Recording, Outcome)>) {
        while let Some((recording, text)) = self.todo.get(self.next.fetch_add(1, Ordering::Relaxed)).copied() {
            let outcome = match self.one(&mut aligner, recording, text) {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.next.store(self.todo.len(), Ordering::Relaxed);
                    // A poisoned lock means that another thread panicked; what it holds is as good.
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
        recording: &Recording,
        text: &str,
    ) -> Result<Outcome, AlignerError> {
        let id = || recording.id.clone();
        let audio = match audio::read(&recording.path, self.options.longest) {
            Ok(audio) => audio,
            Err(error) => return Ok(Err(Problem::audio(self.options, &error))),
        };
        if audio.samples.len() < WINDOW {
            return Ok(Err(Problem::Short { id: id(), seconds: audio.seconds() }));
        }
        let of = match of(self.by, text, &recording.path) {
            Ok(of) => of,
            Err(error) => return Ok(Err(Problem::Unaligned { id: id(), reason: error.to_string() })),
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
            Err(Unaligned::Words(words)) => Ok(Err(Problem::Words { id: id(), words })),
            Err(Unaligned::Failed(reason)) => Ok(Err(Problem::Unaligned { id: id(), reason })),
            Err(Unaligned::Gone(error)) => Err(error),
        }
    }
}

/// Of what exactly labels are: the aligner, the transcript and the recording's bytes.
fn of(by: &Identity, text: &str, path: &Path) -> std::io::Result<String> {
    let recording = Sha256::digest(std::fs::read(path)?);
    let parts = [by.identity.as_bytes(), text.as_bytes(), recording.as_slice()];
    let digest = parts.into_iter().map(Sha256::digest).fold(Sha256::new(), Sha256::chain_update).finalize();
    Ok(hex::encode(&digest[..16]))
}
