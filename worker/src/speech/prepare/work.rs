//! One recording to one row, on a few threads, in the order they were given.

use super::scan::Recording;
use super::{ClassMap, Options, Problem};
use crate::speech::align::Alignments;
use crate::speech::audio::{self, SourceDigest};
use crate::speech::features::{self, Normalization, Treatment};
use crate::speech::mfcc::{COEFFICIENTS, Mfcc};
use crate::speech::progress::Progress;

/// Recordings that are in memory at once, by thread.
const BATCH: usize = 16;

/// What every recording is treated with.
pub(super) struct Settings<'a> {
    pub(super) options: &'a Options,
    pub(super) alignments: &'a Alignments,
    pub(super) map: &'a ClassMap,
}

/// A row of the dataset.
pub(super) struct Ready {
    /// `[frames, inputs]`; where a mean over the speaker is still to be subtracted, the bare `[frames, COEFFICIENTS]`.
    pub(super) features: Vec<f32>,
    /// `[frames]`
    pub(super) labels: Vec<u16>,
    /// Feature frames that had no label, at the end.
    pub(super) unlabelled: usize,
    /// Labels that had no feature frame, at the end.
    pub(super) surplus: usize,
    /// The rate it was recorded at, Hz.
    pub(super) source_rate: u32,
    /// The channels it was recorded with.
    pub(super) channels: usize,
    /// By what its recording is recognized.
    pub(super) source: SourceDigest,
}

/// What became of a recording.
pub(super) enum Outcome {
    Kept(Box<Ready>),
    Left(Problem),
}

/// Treats all `recordings` and hands the outcomes to `sink`, in order. Memory is bounded by the batch.
pub(super) fn each<'a, E>(
    settings: &Settings<'_>,
    recordings: &'a [Recording],
    progress: &dyn Progress,
    mut sink: impl FnMut(&'a Recording, Outcome) -> Result<(), E>,
) -> Result<(), E> {
    let threads = settings.options.threads.max(1);
    let mut tables: Vec<Mfcc> = (0..threads).map(|_| Mfcc::new()).collect();
    for batch in recordings.chunks(BATCH * threads) {
        let share = batch.len().div_ceil(threads);
        let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
            let work = |(part, mfcc): (&'_ [Recording], &'_ mut Mfcc)| -> Vec<Outcome> {
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
            let join = |handle: std::thread::ScopedJoinHandle<'_, Vec<Outcome>>| {
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

fn one(settings: &Settings<'_>, recording: &Recording, mfcc: &mut Mfcc) -> Outcome {
    let Settings { options, alignments, map } = settings;
    let id = || recording.id.clone();
    let Some(alignment) = alignments.by_id.get(&recording.id) else {
        return Outcome::Left(Problem::Unlabelled { id: id() });
    };
    let audio = match audio::read(&recording.path, options.longest) {
        Ok(audio) => audio,
        Err(error) => return Outcome::Left(Problem::audio(options, &error)),
    };
    let source = match SourceDigest::read(&recording.path, &audio.samples) {
        Ok(source) => source,
        Err(error) => return Outcome::Left(Problem::audio(options, &error)),
    };
    let mut coefficients = mfcc.compute(&audio.samples);
    let frames = coefficients.len() / COEFFICIENTS;
    if frames == 0 {
        return Outcome::Left(Problem::Short { id: id(), seconds: audio.seconds() });
    }
    let labels = match alignment.labels(frames, options.tolerance) {
        Ok(labels) => labels,
        Err(mismatch) => return Outcome::Left(Problem::Mismatch { id: id(), reason: mismatch.to_string() }),
    };
    let classes: Option<Vec<u16>> = labels.iter().map(|label| map.class(*label)).collect();
    let Some(labels) = classes else {
        return Outcome::Left(Problem::Class { id: id(), label: labels.into_iter().max().unwrap_or_default() });
    };
    coefficients.truncate(labels.len() * COEFFICIENTS);
    let Treatment { normalization, .. } = options.treatment;
    if normalization == Normalization::Utterance {
        features::subtract_mean(&mut coefficients);
    }
    // The mean of a speaker, and the slopes after it, wait until the speaker is complete.
    let features = match normalization {
        Normalization::Speaker => coefficients,
        Normalization::None | Normalization::Utterance => options.treatment.with_deltas(&coefficients),
    };
    Outcome::Kept(Box::new(Ready {
        unlabelled: frames - labels.len(),
        surplus: alignment.frames() - labels.len(),
        source_rate: audio.source_rate,
        channels: audio.channels,
        source,
        features,
        labels,
    }))
}
