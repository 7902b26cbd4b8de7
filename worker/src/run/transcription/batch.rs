//! The sounds: true pieces and dummies in one voice, sealed, paid for, and sent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use undertone_api::job::transcription::HISTOGRAM;

use super::batch_places::{BatchInputs, BatchPlaces, add, for_each_part, write_file};
use super::dummies::{self, DummyManner, pieces_to_send};
use super::stages::StageTimes;
use super::{TranscriptionError, clones, fitting, recorded};
use crate::dp::randomness::{Purpose, Randomness};
use crate::run::{Outbound, RoundKey, RoundProgress, RunContext, RunError, check_cancelled};
use crate::speech::transcribe::outbound::{BatchDraft, BatchPermit, DeliveryResult, OutboundError, SealedSounds};
use crate::speech::transcribe::provider::line::ProviderLine;
use crate::speech::transcribe::segment::SpokenPiece;
use crate::speech::transcribe::segment::cut::extract_pieces;
use crate::speech::transcribe::speak::likeness::{
    MeanSpectrum, SAMPLES, SpeakingManner, SpectrumShaping, length, level,
};
use crate::speech::transcribe::speak::{self, MOST_AT_ONCE, SpeakError};
use crate::speech::transcribe::voice::OneVoice;

/// The only round of the series.
const KEY: RoundKey<'static> = RoundKey::new(HISTOGRAM, 1);
/// The number of dummies for the estimate of the engine's spectrum.
pub(crate) const SAMPLE: usize = 64;
/// The highest number of passes over a batch while providers continue to answer.
pub(crate) const PASSES: u32 = 5;

/// Opens the batch that an earlier process sealed; returns `None` if there is none.
///
/// # Errors
/// [`RunError::Failed`] when it differs from the sealed batch.
pub(super) fn open_sealed(work: &Path) -> Result<Option<Arc<SealedSounds>>, RunError> {
    Ok(SealedSounds::open(&work.join("out"))?.map(Arc::new))
}

/// Checks that no batch of the job was paid: a second one is never made.
///
/// # Errors
/// [`RunError::Refused`] when one was.
pub(super) fn check_untouched(exchange: &dyn RunContext) -> Result<(), RunError> {
    let is_untouched = exchange.round_progress(KEY)? == RoundProgress::Untouched;
    if is_untouched { Ok(()) } else { Err(TranscriptionError::LostBatch.into()) }
}

/// Makes all sounds, and seals them. They are paid when they leave.
///
/// # Errors
/// [`RunError::Refused`] when the site would not pay, [`RunError::Failed`] when a batch was paid and is gone, or a
/// sound cannot be made, [`RunError::Stopped`] when the exchange is stopped.
pub(super) fn make(
    inputs: &BatchInputs<'_>,
    stages: &mut StageTimes,
    exchange: &mut dyn Outbound,
) -> Result<Arc<SealedSounds>, RunError> {
    let BatchInputs { recordings, catalog, plan, tools, work } = inputs;
    check_untouched(exchange)?;
    let all = plan.dummies().count();
    let dummy_pieces = recorded::load_dummy_pieces(inputs, exchange)?;
    // The numbers of the dummies without a recorded piece, and their texts.
    let spoken: Vec<usize> = (0..all).filter(|number| dummy_pieces.piece(*number).is_none()).collect();
    let texts = if spoken.is_empty() { Vec::new() } else { dummies::load_texts(catalog, plan, tools, work, exchange)? };
    let references = match tools.engine.as_ref().filter(|_| !spoken.is_empty()) {
        Some(engine) => clones::create_folder(engine, work)?,
        None => None,
    };
    if let Some(references) = &references {
        stages.time("voices", || dummies::store_references(recordings, catalog, plan, references, exchange))?;
    }
    let count = recordings.meta().recordings.len() as u32;
    // The text of each dummy without a recorded piece.
    let spoken_texts: Vec<_> =
        (0..all).map(|number| texts.get(number).filter(|_| dummy_pieces.piece(number).is_none())).collect();
    let manners = dummies::load_manners(count, &spoken_texts, work, exchange)?;
    if let Some(references) = &references {
        clones::complete(references, spoken.iter().map(|number| &manners[*number]), recordings, catalog, exchange)?;
    }
    let speak = |number: usize| match (&tools.engine, texts.get(number)) {
        (Some(engine), Some(text)) => {
            let manner = &manners[number];
            fitting::speak_within_limit(&manner.manner, |rate| {
                clones::speak(engine, references.as_ref(), &text.text, &manner.with_rate(rate))
            })
        }
        _ => Err(SpeakError::Setting { field: "fill", reason: "recordings have no piece for a dummy: name an engine" }),
    };
    let recipient =
        |(provider, line): (u32, &ProviderLine)| (line.recipient().to_owned(), plan.batch(provider).len() as u32);
    let recipients = (0_u32..).zip(&tools.lines).map(recipient);
    let draft = Mutex::new(BatchDraft::begin(&work.join("out"), recipients.collect())?);
    let places = BatchPlaces::from_plan(plan);
    let ends = exchange.draw_randomness(Purpose::Dummies);
    stages.time("one voice", || convert_pieces(inputs, &places, &draft, &ends, exchange))?;
    let randomness = exchange.draw_randomness(Purpose::Dummies);
    if !spoken.is_empty() {
        let sample = |place: usize| speak(spoken[place]);
        let own = stages.time("sample of the speech", || estimate_spectrum(spoken.len(), &sample))?;
        let shaping = SpectrumShaping::new(&own);
        let shape = |sound: Vec<f32>, manner: &SpeakingManner| {
            shaping.shape(&sound, fitting::fitted_lead(*manner, length(&sound)))
        };
        let dummies = SpokenDummies {
            voice: &*tools.voice,
            places: &places,
            draft: &draft,
            randomness: &randomness,
            manners: &manners,
            speak: &speak,
            shape: &shape,
        };
        stages.time("dummies", || dummies.make(&spoken, exchange))?;
    }
    // Voices stay on disk only during the imitation.
    drop(references);
    if spoken.len() < all {
        let dummies = recorded::RecordedDummies { inputs, places: &places, draft: &draft, randomness: &randomness };
        stages.time("recorded dummies", || dummies.make(&dummy_pieces, exchange))?;
    }
    let draft = draft.into_inner().unwrap_or_else(PoisonError::into_inner);
    check_cancelled(exchange)?;
    let missing = draft.missing();
    if missing > 0 {
        return Err(OutboundError::Incomplete { missing }.into());
    }
    // From here on only the disk can fail.
    let event = plan.event()?;
    let permit = BatchPermit::new(exchange.clear(KEY)?, &event)?;
    Ok(Arc::new(draft.seal(permit)?))
}

/// Sends the rest of a batch, as long as providers answer more of it each time; returns the reason for missing answers,
/// by provider.
///
/// # Errors
/// [`RunError`] when nothing may leave, or the exchange is stopped.
pub(super) fn deliver(
    sealed: &Arc<SealedSounds>,
    lines: &[ProviderLine],
    exchange: &mut dyn Outbound,
) -> Result<Vec<Option<String>>, RunError> {
    repeat_passes(|| exchange.dispatch_batch(KEY, sealed, lines))
}

/// Repeats `send` like [`deliver`], at most [`PASSES`] times.
fn repeat_passes(
    mut send: impl FnMut() -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError>,
) -> Result<Vec<Option<String>>, RunError> {
    for pass in 1.. {
        let results = send()?;
        let mut answered = 0;
        let mut remaining = 0;
        let mut problems = Vec::with_capacity(results.len());
        for result in results {
            match result {
                Ok(result) => {
                    answered += result.answered;
                    remaining += result.left;
                    let problem = result.problem.filter(|_| result.left > 0);
                    problems.push(problem.map(|problem| problem.to_string()));
                }
                // The pieces of a provider that refuses the site keep the offline words; the other providers' answers
                // are kept.
                Err(error @ OutboundError::Line { .. }) => problems.push(Some(error.to_string())),
                Err(error @ OutboundError::Recipient { .. }) => {
                    return Err(TranscriptionError::OtherRecipient(error).into());
                }
                Err(error) => return Err(error.into()),
            }
        }
        if remaining == 0 || answered == 0 || pass == PASSES {
            return Ok(problems);
        }
    }
    Ok(Vec::new())
}

/// Converts the pieces that are sent to the one voice and puts them in their places.
fn convert_pieces(
    inputs: &BatchInputs<'_>,
    places: &BatchPlaces,
    draft: &Mutex<BatchDraft>,
    ends: &Randomness,
    exchange: &dyn RunContext,
) -> Result<(), RunError> {
    let BatchInputs { recordings, catalog, plan, tools, .. } = inputs;
    let pieces_to_send = pieces_to_send(catalog, plan);
    let mut rng = ends.stream(0);
    for (number, recording) in recordings.meta().recordings.iter().enumerate() {
        let pieces = pieces_to_send(number);
        if pieces.is_empty() {
            continue;
        }
        let stream = recordings.stream(recording)?;
        let mut sounds = extract_pieces(stream, pieces.iter().map(|(_, piece)| (*piece).clone()));
        for_each_part(&pieces, &mut sounds, |numbers, mut part: Vec<SpokenPiece>| {
            check_cancelled(exchange)?;
            for sound in &mut part {
                sound.audio = level(&sound.audio, &mut rng);
            }
            let converted: Vec<Vec<f32>> =
                part.par_iter().map(|sound| tools.voice.convert(&sound.audio)).collect::<Result<_, _>>()?;
            let files =
                converted.into_iter().map(|sound| write_file(sound, &mut rng)).collect::<Result<Vec<_>, _>>()?;
            for (file, (piece, _)) in files.iter().zip(numbers) {
                let place = places.pieces.get(piece).ok_or(TranscriptionError::PiecePlace(*piece))?;
                add(draft, *place, file)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// An engine's speech for the dummy of this number.
type SpeakDummy<'a> = dyn Fn(usize) -> Result<Vec<f32>, SpeakError> + Sync + 'a;

/// Returns the engine's mean spectrum: the same to the bit for the same speech.
fn estimate_spectrum(dummies: usize, speak: &SpeakDummy<'_>) -> Result<MeanSpectrum, RunError> {
    let parts = Mutex::new(BTreeMap::new());
    let add = |place: usize, sound: Vec<f32>| -> Result<(), SpeakError> {
        let mut part = MeanSpectrum::default();
        part.add(&sound);
        parts.lock().unwrap_or_else(PoisonError::into_inner).insert(place, part);
        Ok(())
    };
    speak::each(dummies.min(SAMPLE), thread_count(), speak, &add)?;
    // Threads end in any order, and a sum of floats depends on its order.
    let mut spectrum = MeanSpectrum::default();
    for part in parts.into_inner().unwrap_or_else(PoisonError::into_inner).values() {
        spectrum.merge(part);
    }
    Ok(spectrum)
}

/// Makes a dummy from an engine's speech, in this manner.
type ShapeDummy<'a> = dyn Fn(Vec<f32>, &SpeakingManner) -> Vec<f32> + Sync + 'a;

/// The dummies that an engine speaks.
struct SpokenDummies<'a> {
    voice: &'a dyn OneVoice,
    places: &'a BatchPlaces,
    draft: &'a Mutex<BatchDraft>,
    randomness: &'a Randomness,
    manners: &'a [DummyManner],
    speak: &'a SpeakDummy<'a>,
    shape: &'a ShapeDummy<'a>,
}

impl SpokenDummies<'_> {
    /// Has the engine speak the dummies of these `numbers`, shapes them like the pieces, converts them to the one
    /// voice, and puts them in their places.
    fn make(&self, numbers: &[usize], exchange: &dyn RunContext) -> Result<(), RunError> {
        // In parts, so that a stop is detected in between.
        for part in numbers.chunks(MOST_AT_ONCE) {
            check_cancelled(exchange)?;
            let speak = |place: usize| (self.speak)(part[place]);
            let receive = |place: usize, sound: Vec<f32>| self.receive(part[place], sound);
            speak::each(part.len(), thread_count(), &speak, &receive)?;
        }
        Ok(())
    }

    /// Puts the speech of one dummy in its place.
    fn receive(&self, number: usize, sound: Vec<f32>) -> Result<(), RunError> {
        let shaped = (self.shape)(sound, &self.manners[number].manner);
        if shaped.is_empty() {
            return Err(SpeakError::Silent.into());
        }
        if shaped.len() > SAMPLES {
            return Err(TranscriptionError::LongDummy.into());
        }
        // Each dummy has a separate stream, independent of thread and order.
        let mut rng = self.randomness.stream(2 + number as u32);
        let converted = self.voice.convert(&level(&shaped, &mut rng))?;
        let file = write_file(converted, &mut rng)?;
        add(self.draft, self.places.dummy(number)?, &file)
    }
}

fn thread_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::{PASSES, SAMPLE, SpeakError, estimate_spectrum, repeat_passes};
    use crate::speech::transcribe::outbound::DeliveryResult;

    /// Returns the number of passes and of remaining sounds, if each pass answers one of `sounds` sounds.
    fn deliver(sounds: u32) -> (u32, u32) {
        let mut passes = 0;
        let mut left = sounds;
        let problems = repeat_passes(|| {
            passes += 1;
            left -= 1;
            Ok(vec![Ok(DeliveryResult { answered: 1, left, problem: None })])
        });
        assert_eq!(problems.unwrap(), [None]);
        (passes, left)
    }

    #[test]
    fn remaining_sounds_are_resent_while_answered_at_most_5_times() {
        assert_eq!(PASSES, 5);
        assert_eq!([deliver(1), deliver(4), deliver(5), deliver(6)], [(1, 0), (4, 0), (5, 0), (5, 1)]);
        let mut passes = 0;
        let problems = repeat_passes(|| {
            passes += 1;
            Ok(vec![Ok(DeliveryResult { answered: 0, left: 3, problem: None })])
        });
        assert_eq!((problems.unwrap(), passes), (vec![None], 1), "a silent provider gets no second pass");
    }

    #[test]
    fn spectrum_does_not_depend_on_the_order_of_the_threads() {
        let speak = |slow: usize| {
            move |place: usize| {
                if place == slow {
                    std::thread::sleep(Duration::from_millis(50));
                }
                let tone = |sample: u32| (0.01 + 0.1 * place as f32) * (0.1 * (1 + place) as f32 * sample as f32).sin();
                Ok::<_, SpeakError>((0..4_800).map(tone).collect())
            }
        };
        let estimates = [0, 1, 5].map(|slow| estimate_spectrum(8, &speak(slow)).unwrap());
        assert!(estimates.iter().all(|estimate| *estimate == estimates[0]));
    }

    #[test]
    fn spectrum_is_estimated_from_at_most_sixty_four_dummies() {
        assert_eq!(SAMPLE, 64);
        for (dummies, spoken) in [(0, 0), (63, 63), (64, 64), (65, 64)] {
            let count = AtomicUsize::new(0);
            let speak = |_: usize| {
                count.fetch_add(1, Ordering::Relaxed);
                Ok::<_, SpeakError>(vec![0.25_f32; 1_600])
            };
            assert!(estimate_spectrum(dummies, &speak).is_ok());
            assert_eq!(count.into_inner(), spoken);
        }
    }
}
