//! The sounds: true pieces and dummies in one voice, sealed, paid for, and sent.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rand_chacha::rand_core::Rng;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use undertone_api::job::transcription::HISTOGRAM;

use super::dummies::{self, Sounding, sent};
use super::pieces::Ground;
use super::stages::Stages;
use super::tools::Tools;
use super::{clones, failed, fitting, go_on, recorded};
use crate::dp::randomness::{Purpose, Randomness};
use crate::run::{Exchange, Past, RunError};
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::outbound::{BatchDraft, BatchPermit, DeliveryResult, OutboundError, SealedSounds};
use crate::speech::transcribe::plan::{BatchItem, Plan};
use crate::speech::transcribe::provider::line::ProviderLine;
use crate::speech::transcribe::segment::SpokenPiece;
use crate::speech::transcribe::segment::cut::extract_pieces;
use crate::speech::transcribe::speak::likeness::{
    MeanSpectrum, SAMPLES, SpeakingManner, SpectrumShaping, length, level, pad,
};
use crate::speech::transcribe::speak::{self, MOST_AT_ONCE, SpeakError};
use crate::speech::transcribe::wav;

/// The only round of the series.
pub(super) const ROUND: u32 = 1;
/// The reason to make no second batch.
const GONE: &str = "a batch of sounds was paid for, and is not in the job's folder any more: the ledger was restored from an older copy, \
                    or the folder was removed. A second one is never made; propose a new job";
/// The number of pieces in memory at a time during the conversion to the one voice.
pub(crate) const AT_ONCE: usize = 32;
/// The number of dummies for the estimate of the engine's spectrum.
pub(crate) const SAMPLE: usize = 64;
/// The highest number of passes over a batch while providers continue to answer.
pub(crate) const PASSES: u32 = 5;

/// The inputs of a batch.
pub(super) struct Making<'a> {
    pub(super) recordings: &'a Recordings,
    pub(super) ground: &'a Ground,
    pub(super) plan: &'a Plan,
    pub(super) tools: &'a Tools,
    pub(super) work: &'a Path,
}

/// The position of each piece and each dummy: provider and place.
pub(super) struct Places {
    pieces: HashMap<u32, (u32, u32)>,
    dummies: HashMap<u32, (u32, u32)>,
}

/// Opens the batch that an earlier process sealed; returns `None` if there is none.
///
/// # Errors
/// [`RunError::Failed`] when it differs from the sealed batch.
pub(super) fn sealed(work: &Path) -> Result<Option<Arc<SealedSounds>>, RunError> {
    Ok(SealedSounds::open(&work.join("out")).map_err(RunError::from_failure)?.map(Arc::new))
}

/// Checks that no batch of the job was paid: a second one is never made.
///
/// # Errors
/// [`RunError::Refused`] when one was.
pub(super) fn is_untouched(exchange: &dyn Exchange) -> Result<(), RunError> {
    if exchange.past(HISTOGRAM, ROUND)? == Past::Untouched { Ok(()) } else { Err(RunError::Refused(GONE.to_owned())) }
}

/// Makes all sounds, and seals them. They are paid when they leave.
///
/// # Errors
/// [`RunError::Refused`] when the site would not pay, [`RunError::Failed`] when a batch was paid and is gone, or a
/// sound cannot be made, [`RunError::Stopped`] when the exchange is stopped.
pub(super) fn make(
    making: &Making<'_>,
    stages: &mut Stages,
    exchange: &mut dyn Exchange,
) -> Result<Arc<SealedSounds>, RunError> {
    let Making { recordings, ground, plan, tools, work } = making;
    is_untouched(exchange)?;
    let all = plan.dummies().count();
    let taken = recorded::taken(making, exchange)?;
    // The numbers of the dummies without a recorded piece, and their texts.
    let spoken: Vec<usize> = (0..all).filter(|number| taken.piece(*number).is_none()).collect();
    let texts = if spoken.is_empty() { Vec::new() } else { dummies::texts(ground, plan, tools, work, exchange)? };
    let references = match tools.engine.as_ref().filter(|_| !spoken.is_empty()) {
        Some(engine) => clones::begin(engine, work)?,
        None => None,
    };
    if let Some(references) = &references {
        stages.time("voices", || dummies::keep_references(recordings, ground, plan, references, exchange))?;
    }
    let count = recordings.meta().recordings.len() as u32;
    // The text of each dummy without a recorded piece.
    let said: Vec<_> = (0..all).map(|number| texts.get(number).filter(|_| taken.piece(number).is_none())).collect();
    let manners = dummies::manners(count, &said, work, exchange)?;
    if let Some(references) = &references {
        clones::complete(references, spoken.iter().map(|number| &manners[*number]), recordings, ground, exchange)?;
    }
    let say = |number: usize| match (&tools.engine, texts.get(number)) {
        (Some(engine), Some(text)) => {
            let one = &manners[number];
            fitting::say(&one.manner, |rate| clones::say(engine, references.as_ref(), &text.text, &one.at(rate)))
        }
        _ => Err(SpeakError::Setting { field: "fill", reason: "recordings have no piece for a dummy: name an engine" }),
    };
    let recipients = (0_u32..).zip(&tools.lines);
    let recipients =
        recipients.map(|(provider, line)| (line.recipient().to_owned(), plan.batch(provider).len() as u32));
    let draft = BatchDraft::begin(&work.join("out"), recipients.collect()).map_err(RunError::from_failure)?;
    let (places, draft) = (Places::of(plan), Mutex::new(draft));
    let ends = exchange.chance(Purpose::Dummies);
    stages.time("one voice", || true_pieces(making, &places, &draft, &ends, exchange))?;
    let chance = exchange.chance(Purpose::Dummies);
    if !spoken.is_empty() {
        let sample = |place: usize| say(spoken[place]);
        let own = stages.time("sample of the speech", || spectrum(spoken.len(), &sample))?;
        let shaping = SpectrumShaping::new(&own);
        let shape = |sound: Vec<f32>, manner: &SpeakingManner| {
            shaping.shape(&sound, fitting::fitted_lead(*manner, length(&sound)))
        };
        let stopped: &dyn Exchange = exchange;
        stages.time("dummies", || speak(&say, &spoken, &manners, making, &places, &draft, &shape, &chance, stopped))?;
    }
    // Voices stay on disk only during the imitation.
    drop(references);
    if spoken.len() < all {
        let placing = recorded::Placing { making, places: &places, draft: &draft, chance: &chance };
        stages.time("recorded dummies", || placing.put(&taken, exchange))?;
    }
    let draft = draft.into_inner().unwrap_or_else(PoisonError::into_inner);
    go_on(exchange)?;
    let missing = draft.missing();
    if missing > 0 {
        return Err(failed(OutboundError::Incomplete { missing }));
    }
    // From here on only the disk can fail.
    let event = plan.event()?;
    let permit = BatchPermit::new(exchange.clear(HISTOGRAM, ROUND)?, &event)
        .map_err(|error| RunError::Refused(error.to_string()))?;
    draft.seal(permit).map(Arc::new).map_err(RunError::from_failure)
}

/// Sends the rest of a batch, as long as providers answer more of it each time; returns the reason for missing answers,
/// by provider.
///
/// # Errors
/// [`RunError`] when nothing may leave, or the exchange is stopped.
pub(super) fn deliver(
    sealed: &Arc<SealedSounds>,
    lines: &[ProviderLine],
    exchange: &mut dyn Exchange,
) -> Result<Vec<Option<String>>, RunError> {
    passes(|| exchange.dispatch(HISTOGRAM, ROUND, sealed, lines))
}

/// Repeats `send` like [`deliver`], at most [`PASSES`] times.
fn passes(
    mut send: impl FnMut() -> Result<Vec<Result<DeliveryResult, OutboundError>>, RunError>,
) -> Result<Vec<Option<String>>, RunError> {
    for pass in 1.. {
        let delivered = send()?;
        let (mut answered, mut left, mut problems) = (0, 0, Vec::with_capacity(delivered.len()));
        for one in delivered {
            match one {
                Ok(one) => {
                    answered += one.answered;
                    left += one.left;
                    problems.push(one.problem.filter(|_| one.left > 0).map(|problem| problem.to_string()));
                }
                // The pieces of a provider that refuses the site keep the offline words; the other providers' answers
                // are kept.
                Err(error @ OutboundError::Line { .. }) => problems.push(Some(error.to_string())),
                Err(OutboundError::Recipient { .. }) => {
                    let reason =
                        "a provider leads elsewhere by the site's configuration than when the batch was charged";
                    return Err(RunError::Refused(reason.to_owned()));
                }
                Err(error) => return Err(RunError::from_failure(error)),
            }
        }
        if left == 0 || answered == 0 || pass == PASSES {
            return Ok(problems);
        }
    }
    Ok(Vec::new())
}

impl Places {
    /// Returns the place of the dummy with a number.
    ///
    /// # Errors
    /// [`RunError::Failed`] for one that the plan does not have.
    pub(super) fn dummy(&self, number: usize) -> Result<(u32, u32), RunError> {
        let place = u32::try_from(number).ok().and_then(|number| self.dummies.get(&number));
        place.copied().ok_or_else(|| failed("a dummy has no place in the plan"))
    }

    fn of(plan: &Plan) -> Self {
        let (mut pieces, mut dummies) = (HashMap::new(), HashMap::new());
        for provider in 0..plan.providers() {
            for (place, item) in (0_u32..).zip(plan.batch(provider)) {
                match item {
                    BatchItem::Piece(number) => pieces.insert(*number, (provider, place)),
                    BatchItem::Dummy(number) => dummies.insert(*number, (provider, place)),
                };
            }
        }
        Self { pieces, dummies }
    }
}

/// Puts a sound in its place.
///
/// # Errors
/// [`RunError::Failed`] when there is no such place, or the disk refuses.
pub(super) fn add(draft: &Mutex<BatchDraft>, (provider, place): (u32, u32), file: &[u8]) -> Result<(), RunError> {
    draft.lock().unwrap_or_else(PoisonError::into_inner).add(provider, place, file).map_err(RunError::from_failure)
}

/// Returns the file of an outgoing sound, padded to the public length.
///
/// # Errors
/// [`RunError::Failed`] for one that is longer.
pub(super) fn file(sound: Vec<f32>, rng: &mut impl Rng) -> Result<Vec<u8>, RunError> {
    let sound = pad(sound, rng).ok_or_else(|| {
        failed("a sound is longer than any piece: the converter of voices, or the speech engine, does not keep to its length")
    })?;
    Ok(wav::write(&sound))
}

/// Converts the pieces that are sent to the one voice and puts them in their places.
fn true_pieces(
    making: &Making<'_>,
    places: &Places,
    draft: &Mutex<BatchDraft>,
    ends: &Randomness,
    exchange: &dyn Exchange,
) -> Result<(), RunError> {
    let Making { recordings, ground, plan, tools, .. } = making;
    let (sent, mut ends) = (sent(ground, plan), ends.stream(0));
    for (number, recording) in recordings.meta().recordings.iter().enumerate() {
        let sent = sent(number);
        if sent.is_empty() {
            continue;
        }
        let stream = recordings.stream(recording).map_err(RunError::from_failure)?;
        let mut sounds = extract_pieces(stream, sent.iter().map(|(_, piece)| (*piece).clone()));
        by_parts(&sent, &mut sounds, |numbers, mut some: Vec<SpokenPiece>| {
            go_on(exchange)?;
            for sound in &mut some {
                sound.audio = level(&sound.audio, &mut ends);
            }
            let spoken: Vec<Vec<f32>> = some
                .par_iter()
                .map(|sound| tools.voice.convert(&sound.audio))
                .collect::<Result<_, _>>()
                .map_err(failed)?;
            let files = spoken.into_iter().map(|sound| file(sound, &mut ends)).collect::<Result<Vec<_>, _>>()?;
            for (file, (piece, _)) in files.iter().zip(numbers) {
                let place = places.pieces.get(piece).ok_or_else(|| failed("a piece has no place in the plan"))?;
                add(draft, *place, file)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Reads the sounds of the `known` items, in their order, and calls `each` for every part; at most [`AT_ONCE`] sounds
/// are in memory.
///
/// # Errors
/// [`RunError::Failed`] for a sound that cannot be read, and any error of `each`.
pub(super) fn by_parts<K, S, E: std::fmt::Display>(
    known: &[K],
    sounds: &mut impl Iterator<Item = Result<S, E>>,
    mut each: impl FnMut(&[K], Vec<S>) -> Result<(), RunError>,
) -> Result<(), RunError> {
    for part in known.chunks(AT_ONCE) {
        let some: Vec<S> = sounds.by_ref().take(part.len()).collect::<Result<_, _>>().map_err(failed)?;
        each(part, some)?;
    }
    Ok(())
}

/// An engine's speech for the dummy of this number.
type Say<'a> = dyn Fn(usize) -> Result<Vec<f32>, SpeakError> + Sync + 'a;

/// Returns the engine's mean spectrum.
fn spectrum(dummies: usize, say: &Say<'_>) -> Result<MeanSpectrum, RunError> {
    let spectrum = Mutex::new(MeanSpectrum::default());
    let hear = |_: usize, sound: Vec<f32>| -> Result<(), SpeakError> {
        spectrum.lock().unwrap_or_else(PoisonError::into_inner).add(&sound);
        Ok(())
    };
    speak::each(dummies.min(SAMPLE), at_once(), say, &hear).map_err(failed)?;
    Ok(spectrum.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Makes a dummy from an engine's speech, in this manner.
type Shape<'a> = dyn Fn(Vec<f32>, &SpeakingManner) -> Vec<f32> + Sync + 'a;

/// The reason for a missing dummy.
enum Unmade {
    Said(SpeakError),
    Run(RunError),
}

impl From<SpeakError> for Unmade {
    fn from(error: SpeakError) -> Self {
        Self::Said(error)
    }
}

/// Has the engine speak the dummies of these `numbers`, shapes them like the pieces, converts them to the one voice,
/// and puts them in their places.
#[expect(clippy::too_many_arguments, reason = "what a dummy is made of, each from another place")]
fn speak(
    say: &Say<'_>,
    numbers: &[usize],
    manners: &[Sounding],
    making: &Making<'_>,
    places: &Places,
    draft: &Mutex<BatchDraft>,
    shape: &Shape<'_>,
    chance: &Randomness,
    exchange: &dyn Exchange,
) -> Result<(), RunError> {
    let voice = &making.tools.voice;
    let heard = |number: usize, sound: Vec<f32>| -> Result<(), Unmade> {
        let unmade = |error: &dyn std::fmt::Display| Unmade::Run(failed(error));
        let shaped = shape(sound, &manners[number].manner);
        if shaped.is_empty() {
            return Err(SpeakError::Silent.into());
        }
        if shaped.len() > SAMPLES {
            return Err(unmade(&"a dummy is longer than any piece: the speech engine does not keep to the rate"));
        }
        // Each dummy has a separate stream, independent of thread and order.
        let mut rng = chance.stream(2 + number as u32);
        let spoken = voice.convert(&level(&shaped, &mut rng)).map_err(|error| unmade(&error))?;
        let file = file(spoken, &mut rng).map_err(Unmade::Run)?;
        places.dummy(number).and_then(|place| add(draft, place, &file)).map_err(Unmade::Run)
    };
    // In parts, so that a stop is detected in between.
    for part in numbers.chunks(MOST_AT_ONCE) {
        go_on(exchange)?;
        let (say, heard) = (|place: usize| say(part[place]), |place: usize, sound| heard(part[place], sound));
        speak::each(part.len(), at_once(), &say, &heard).map_err(|error| match error {
            Unmade::Said(error) => failed(error),
            Unmade::Run(error) => error,
        })?;
    }
    Ok(())
}

fn at_once() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MOST_AT_ONCE)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::convert::Infallible;
    use std::rc::Rc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{AT_ONCE, PASSES, SAMPLE, SpeakError, by_parts, passes, spectrum};
    use crate::speech::transcribe::outbound::DeliveryResult;

    /// Returns the number of passes and of remaining sounds, if each pass answers one of `sounds` sounds.
    fn sent(sounds: u32) -> (u32, u32) {
        let (mut times, mut left) = (0, sounds);
        let problems = passes(|| {
            times += 1;
            left -= 1;
            Ok(vec![Ok(DeliveryResult { answered: 1, left, problem: None })])
        });
        assert_eq!(problems.unwrap(), [None]);
        (times, left)
    }

    #[test]
    fn what_is_left_is_sent_again_as_long_as_somebody_answers_and_five_times_at_most() {
        assert_eq!(PASSES, 5);
        assert_eq!([sent(1), sent(4), sent(5), sent(6)], [(1, 0), (4, 0), (5, 0), (5, 1)]);
        let mut times = 0;
        let silent = passes(|| {
            times += 1;
            Ok(vec![Ok(DeliveryResult { answered: 0, left: 3, problem: None })])
        });
        assert_eq!((silent.unwrap(), times), (vec![None], 1), "who answers nothing is not asked again");
    }

    #[test]
    fn thirty_two_sounds_are_in_memory_and_no_more() {
        assert_eq!(AT_ONCE, 32);
        for (count, parts) in [(31, vec![31]), (32, vec![32]), (33, vec![32, 1]), (65, vec![32, 32, 1])] {
            let (sound, mut seen) = (Rc::new(()), Vec::new());
            let known: Vec<usize> = (0..count).collect();
            let mut sounds = (0..count).map(|number| Ok::<_, Infallible>((number, Rc::clone(&sound))));
            let read = by_parts(&known, &mut sounds, |part, some| {
                assert!(part.iter().eq(some.iter().map(|(number, _)| number)), "each with what is known of it");
                seen.push(Rc::strong_count(&sound) - 1);
                Ok(())
            });
            assert!(read.is_ok());
            assert_eq!(seen, parts);
        }
    }

    #[test]
    fn sixty_four_dummies_are_spoken_to_know_the_engine_by_and_no_more() {
        assert_eq!(SAMPLE, 64);
        for (dummies, spoken) in [(0, 0), (63, 63), (64, 64), (65, 64)] {
            let said = AtomicUsize::new(0);
            let say = |_: usize| {
                said.fetch_add(1, Ordering::Relaxed);
                Ok::<_, SpeakError>(vec![0.25_f32; 1_600])
            };
            assert!(spectrum(dummies, &say).is_ok());
            assert_eq!(said.into_inner(), spoken);
        }
    }
}
