//! Converts each recording to a row, on several threads, in the given order.

use super::scan::ScannedRecording;
use super::{ClassMap, PrepareOptions, RecordingProblem};
use crate::align::alignment::AlignmentSet;
use crate::audio::{self, SourceDigest};
use crate::features::{self, Normalization, Treatment};
use crate::mfcc::{COEFFICIENTS, Mfcc};
use undertone_worker_site::progress::ProgressReporter;

/// Number of recordings in memory at a time, per thread.
const BATCH: usize = 16;

/// The settings for every recording.
pub(super) struct RowSettings<'a> {
    pub(super) options: &'a PrepareOptions,
    pub(super) alignments: &'a AlignmentSet,
    pub(super) map: &'a ClassMap,
}

/// A row of the dataset.
pub(super) struct FeatureRow {
    /// `[frames, inputs]`; where a mean over the speaker is still to be subtracted, the bare `[frames, COEFFICIENTS]`.
    pub(super) features: Vec<f32>,
    /// `[frames]`
    pub(super) labels: Vec<u16>,
    /// Number of feature frames at the end without a label.
    pub(super) unlabelled: usize,
    /// Number of labels at the end without a feature frame.
    pub(super) surplus: usize,
    /// The rate of the recording, Hz.
    pub(super) source_rate: u32,
    /// The number of channels of the recording.
    pub(super) channels: usize,
    /// The digests that identify the recording.
    pub(super) source: SourceDigest,
}

/// The result for a recording.
pub(super) enum RowOutcome {
    Kept(Box<FeatureRow>),
    Left(RecordingProblem),
}

/// Processes all `recordings` and passes the results to `sink`, in order. Memory is bounded by the batch.
pub(super) fn each<'a, E>(
    settings: &RowSettings<'_>,
    recordings: &'a [ScannedRecording],
    progress: &dyn ProgressReporter,
    mut sink: impl FnMut(&'a ScannedRecording, RowOutcome) -> Result<(), E>,
) -> Result<(), E> {
    let threads = settings.options.threads.max(1);
    let mut tables: Vec<Mfcc> = (0..threads).map(|_| Mfcc::new()).collect();
    for batch in recordings.chunks(BATCH * threads) {
        let share = batch.len().div_ceil(threads);
        let outcomes: Vec<RowOutcome> = std::thread::scope(|scope| {
            let work = |(part, mfcc): (&'_ [ScannedRecording], &'_ mut Mfcc)| -> Vec<RowOutcome> {
                part.iter()
                    .map(|recording| {
                        let outcome = one(settings, recording, mfcc);
                        progress.advance(1);
                        outcome
                    })
                    .collect()
            };
            let handles: Vec<_> =
                batch.chunks(share).zip(&mut tables).map(|pair| scope.spawn(move || work(pair))).collect();
            let join = |handle: std::thread::ScopedJoinHandle<'_, Vec<RowOutcome>>| {
                handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            handles.into_iter().flat_map(join).collect()
        });
        for (recording, outcome) in batch.iter().zip(outcomes) {
            sink(recording, outcome)?;
        }
    }
    Ok(())
}

fn one(settings: &RowSettings<'_>, recording: &ScannedRecording, mfcc: &mut Mfcc) -> RowOutcome {
    let RowSettings { options, alignments, map } = settings;
    let id = || recording.id.clone();
    let Some(alignment) = alignments.by_id.get(&recording.id) else {
        return RowOutcome::Left(RecordingProblem::Unlabelled { id: id() });
    };
    let audio = match audio::read(&recording.path, options.longest) {
        Ok(audio) => audio,
        Err(error) => return RowOutcome::Left(RecordingProblem::audio(options, &error)),
    };
    let source = match SourceDigest::read(&recording.path, &audio.samples) {
        Ok(source) => source,
        Err(error) => return RowOutcome::Left(RecordingProblem::audio(options, &error)),
    };
    let mut coefficients = mfcc.compute(&audio.samples);
    let frames = coefficients.len() / COEFFICIENTS;
    if frames == 0 {
        return RowOutcome::Left(RecordingProblem::Short { id: id(), seconds: audio.seconds() });
    }
    let labels = match alignment.labels(frames, options.tolerance) {
        Ok(labels) => labels,
        Err(mismatch) => {
            return RowOutcome::Left(RecordingProblem::Mismatch { id: id(), reason: mismatch.to_string() });
        }
    };
    let classes: Option<Vec<u16>> = labels.iter().map(|label| map.class(*label)).collect();
    let Some(labels) = classes else {
        return RowOutcome::Left(RecordingProblem::Class {
            id: id(),
            label: labels.into_iter().max().unwrap_or_default(),
        });
    };
    coefficients.truncate(labels.len() * COEFFICIENTS);
    let Treatment { normalization, .. } = options.treatment;
    if normalization == Normalization::Utterance {
        features::subtract_mean(&mut coefficients);
    }
    // A speaker's mean, and the slopes after it, are computed when the speaker is complete.
    let features = match normalization {
        Normalization::Speaker => coefficients,
        Normalization::None | Normalization::Utterance => options.treatment.with_deltas(&coefficients),
    };
    RowOutcome::Kept(Box::new(FeatureRow {
        unlabelled: frames - labels.len(),
        surplus: alignment.frames() - labels.len(),
        source_rate: audio.source_rate,
        channels: audio.channels,
        source,
        features,
        labels,
    }))
}
