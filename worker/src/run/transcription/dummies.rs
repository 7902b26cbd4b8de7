//! Random choices: the plan, the texts of the dummies, and their manners. Each is drawn once and stored.

use std::path::Path;

use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::Spec;

use super::pieces::PieceCatalog;
use super::tools::JobTools;
use super::{TranscriptionError, fitting};
use crate::dp::noise::below;
use crate::dp::randomness::Purpose;
use crate::run::{RunContext, RunError, check_cancelled};
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::dummy::{self, DummyText, PhraseLengths};
use crate::speech::transcribe::noise::DummyMechanism;
use crate::speech::transcribe::piece::Piece;
use crate::speech::transcribe::plan::{BatchItem, Plan, PlanRandomness, load_or_create};
use crate::speech::transcribe::segment::cut::extract_pieces;
use crate::speech::transcribe::speak::likeness::SpeakingManner;
use crate::speech::transcribe::speak::reference::{ReferenceFolder, VoiceReference};

/// Returns the noise of a job in the form for drawing. It equals the spec's, to the bit.
///
/// # Errors
/// [`RunError::Failed`] for a spec without noise.
pub(super) fn make_mechanism(spec: &Spec) -> Result<DummyMechanism, RunError> {
    let noise = spec.noise()?;
    Ok(DummyMechanism::new(noise, spec.participant.distance, spec.partition()?)?)
}

/// Returns the plan of the job: drawn now, or the stored one.
///
/// # Errors
/// [`RunError::Refused`] when the plan is another release than the manifest charges, and any error of drawing and
/// storing.
pub(super) fn load_plan(
    spec: &Spec,
    catalog: &PieceCatalog,
    work: &Path,
    exchange: &mut dyn RunContext,
) -> Result<Plan, RunError> {
    let mechanism = make_mechanism(spec)?;
    let disclosure = catalog.vocabulary.disclosure();
    let event = mechanism.event(disclosure)?;
    let charge = exchange.participant().charge.as_ref();
    if charge.is_some_and(|charge| charge.event != event) {
        return Err(TranscriptionError::OtherRelease.into());
    }
    let words = exchange.draw_randomness(Purpose::DummyWords);
    let assignment = exchange.draw_randomness(Purpose::Assignment);
    let draw = || {
        let randomness = PlanRandomness::new(words, assignment)?;
        let pieces = catalog.candidates();
        Plan::draw(mechanism, catalog.vocabulary.len(), disclosure, &pieces, spec.crowded, &randomness)
    };
    Ok(Plan::once(&work.join("plan.json"), &event, draw)?)
}

/// Returns the pieces of a recording that are sent, in order of time.
pub(super) fn pieces_to_send<'a>(
    catalog: &'a PieceCatalog,
    plan: &Plan,
) -> impl Fn(usize) -> Vec<(u32, &'a Piece)> + use<'a> {
    let mut numbers: Vec<u32> = (0..plan.providers())
        .flat_map(|provider| plan.batch(provider))
        .filter_map(|item| match item {
            BatchItem::Piece(number) => Some(*number),
            BatchItem::Dummy(_) => None,
        })
        .collect();
    numbers.sort_unstable();
    move |recording| {
        let pieces = &catalog.recordings[recording];
        let start = numbers.partition_point(|number| *number < pieces.first);
        let after = pieces.first + pieces.parts.len() as u32;
        let end = numbers.partition_point(|number| *number < after);
        let piece = |number: &u32| (*number, &pieces.parts[(number - pieces.first) as usize].piece);
        numbers[start..end].iter().map(piece).collect()
    }
}

/// The sound of one dummy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DummyManner {
    pub(super) manner: SpeakingManner,
    /// The recording with the voice to imitate, if the engine does. All recordings have the same probability.
    pub(super) recording: u32,
}

impl DummyManner {
    /// Returns the same sound at another rate, words a minute.
    pub(super) fn with_rate(self, rate: f64) -> Self {
        Self { manner: SpeakingManner { rate, ..self.manner }, ..self }
    }
}

/// Stores the best reference of each recording, from pieces that are sent.
///
/// # Errors
/// [`RunError`] when a recording cannot be read, the disk refuses, or the exchange is stopped.
pub(super) fn store_references(
    recordings: &Recordings,
    catalog: &PieceCatalog,
    plan: &Plan,
    references: &ReferenceFolder,
    exchange: &dyn RunContext,
) -> Result<(), RunError> {
    let pieces_to_send = pieces_to_send(catalog, plan);
    for (number, recording) in (0_u32..).zip(&recordings.meta().recordings) {
        let pieces = pieces_to_send(number as usize);
        if pieces.is_empty() {
            continue;
        }
        let stream = recordings.stream(recording)?;
        let mut reference = VoiceReference::default();
        for sound in extract_pieces(stream, pieces.iter().map(|(_, piece)| (*piece).clone())) {
            check_cancelled(exchange)?;
            reference.add(&sound?.audio);
        }
        let voice = reference.sound();
        if !voice.is_empty() {
            references.keep(number, &voice).map_err(TranscriptionError::VoiceReference)?;
        }
    }
    Ok(())
}

/// Returns the texts of the dummies, in the order of their numbers.
///
/// # Errors
/// [`RunError::Failed`] when there is no text, or the disk refuses.
pub(super) fn load_texts(
    catalog: &PieceCatalog,
    plan: &Plan,
    tools: &JobTools,
    work: &Path,
    exchange: &mut dyn RunContext,
) -> Result<Vec<DummyText>, RunError> {
    let randomness = exchange.draw_randomness(Purpose::Dummies);
    let texts: Vec<DummyText> = load_or_create::<_, RunError>(&work.join("texts.json"), || {
        Ok(dummy::write(plan, &catalog.vocabulary, &tools.corpus, &PhraseLengths::public(), &randomness)?)
    })?;
    if texts.len() == plan.dummies().count() { Ok(texts) } else { Err(TranscriptionError::OtherPlan.into()) }
}

/// Returns the sound of each dummy, in the order of their numbers: a drawn manner, any of `recordings`, and the rate
/// that its text needs. Dummies without a text are recorded, and have their own pace.
///
/// # Errors
/// [`RunError::Failed`] when the disk refuses.
pub(super) fn load_manners(
    recordings: u32,
    texts: &[Option<&DummyText>],
    work: &Path,
    exchange: &mut dyn RunContext,
) -> Result<Vec<DummyManner>, RunError> {
    let randomness = exchange.draw_randomness(Purpose::Dummies);
    let manners: Vec<DummyManner> = load_or_create::<_, RunError>(&work.join("manners.json"), || {
        let mut rng = randomness.stream(1);
        let mut draw = |text: Option<&DummyText>| {
            let words = text.map_or(0, |text| text.text.split_whitespace().count());
            let manner = fitting::raise_rate(SpeakingManner::draw(&mut rng), words);
            DummyManner { manner, recording: below(recordings.max(1), &mut rng) }
        };
        Ok(texts.iter().copied().map(&mut draw).collect())
    })?;
    if manners.len() == texts.len() { Ok(manners) } else { Err(TranscriptionError::OtherPlan.into()) }
}
