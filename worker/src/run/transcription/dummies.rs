//! Random choices: the plan, the texts of the dummies, and their manners. Each is drawn once and stored.

use std::path::Path;

use serde::{Deserialize, Serialize};
use undertone_api::job::transcription::Spec;
use undertone_privacy::Event;

use super::pieces::Ground;
use super::tools::Tools;
use super::{failed, fitting, go_on};
use crate::dp::noise::below;
use crate::dp::randomness::Purpose;
use crate::run::{Exchange, RunError};
use crate::speech::recordings::Recordings;
use crate::speech::transcribe::dummy::{self, DummyText, PhraseLengths};
use crate::speech::transcribe::noise::DummyMechanism;
use crate::speech::transcribe::piece::Piece;
use crate::speech::transcribe::plan::{BatchItem, Plan, PlanRandomness, load_or_create};
use crate::speech::transcribe::segment::cut::extract_pieces;
use crate::speech::transcribe::speak::likeness::SpeakingManner;
use crate::speech::transcribe::speak::reference::{ReferenceFolder, VoiceReference};

/// The reason to reject stored state.
pub(super) const OTHERS: &str = "what is kept of the dummies is of another plan";

/// Returns the noise of a job in the form for drawing. It equals the spec's, to the bit.
///
/// # Errors
/// [`RunError::Failed`] for a spec without noise.
pub(super) fn mechanism(spec: &Spec) -> Result<DummyMechanism, RunError> {
    let noise = spec.noise().map_err(failed)?;
    DummyMechanism::new(noise, spec.participant.distance, spec.partition().map_err(failed)?).map_err(failed)
}

/// Returns the plan of the job: drawn now, or the stored one.
///
/// # Errors
/// [`RunError::Refused`] when the plan is another release than the manifest charges, and any error of drawing and
/// storing.
pub(super) fn plan(spec: &Spec, ground: &Ground, work: &Path, exchange: &mut dyn Exchange) -> Result<Plan, RunError> {
    let (mechanism, disclosure) = (mechanism(spec)?, ground.vocabulary.disclosure());
    let made = mechanism.event(disclosure).map_err(failed)?;
    let charged = exchange.own().charge.as_ref().map(|charge| charge.event.clone());
    let paid: Event = charged.unwrap_or_else(|| made.clone());
    if paid != made {
        return Err(RunError::Refused("the job's plan is another release than its manifest charges".to_owned()));
    }
    let (words, assignment) = (exchange.chance(Purpose::DummyWords), exchange.chance(Purpose::Assignment));
    let draw = || {
        let chance = PlanRandomness::new(words, assignment)?;
        Plan::draw(mechanism, ground.vocabulary.len(), disclosure, &ground.candidates(), spec.crowded, &chance)
    };
    Ok(Plan::once(&work.join("plan.json"), &paid, draw)?)
}

/// Returns the pieces of a recording that are sent, in order of time.
pub(super) fn sent<'a>(ground: &'a Ground, plan: &Plan) -> impl Fn(usize) -> Vec<(u32, &'a Piece)> + use<'a> {
    let mut numbers: Vec<u32> = (0..plan.providers())
        .flat_map(|provider| plan.batch(provider))
        .filter_map(|item| match item {
            BatchItem::Piece(number) => Some(*number),
            BatchItem::Dummy(_) => None,
        })
        .collect();
    numbers.sort_unstable();
    move |recording| {
        let cut = &ground.cuts[recording];
        let end = cut.first + cut.parts.len() as u32;
        let range =
            numbers.partition_point(|number| *number < cut.first)..numbers.partition_point(|number| *number < end);
        let piece = |number: &u32| (*number, &cut.parts[(number - cut.first) as usize].piece);
        numbers[range].iter().map(piece).collect()
    }
}

/// The sound of one dummy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sounding {
    pub(super) manner: SpeakingManner,
    /// The recording with the voice to imitate, if the engine does. All recordings have the same probability.
    pub(super) recording: u32,
}

impl Sounding {
    /// Returns the same sound at another rate, words a minute.
    pub(super) fn at(self, rate: f64) -> Self {
        Self { manner: SpeakingManner { rate, ..self.manner }, ..self }
    }
}

/// Stores the best reference of each recording, from pieces that are sent.
///
/// # Errors
/// [`RunError`] when a recording cannot be read, the disk refuses, or the exchange is stopped.
pub(super) fn keep_references(
    recordings: &Recordings,
    ground: &Ground,
    plan: &Plan,
    references: &ReferenceFolder,
    exchange: &dyn Exchange,
) -> Result<(), RunError> {
    let sent = sent(ground, plan);
    for (number, recording) in (0_u32..).zip(&recordings.meta().recordings) {
        let sent = sent(number as usize);
        if sent.is_empty() {
            continue;
        }
        let stream = recordings.stream(recording).map_err(RunError::from_failure)?;
        let mut reference = VoiceReference::default();
        for sound in extract_pieces(stream, sent.iter().map(|(_, piece)| (*piece).clone())) {
            go_on(exchange)?;
            reference.add(&sound.map_err(failed)?.audio);
        }
        let voice = reference.sound();
        if !voice.is_empty() {
            references.keep(number, &voice).map_err(RunError::from_failure)?;
        }
    }
    Ok(())
}

/// Returns the texts of the dummies, in the order of their numbers.
///
/// # Errors
/// [`RunError::Failed`] when there is no text, or the disk refuses.
pub(super) fn texts(
    ground: &Ground,
    plan: &Plan,
    tools: &Tools,
    work: &Path,
    exchange: &mut dyn Exchange,
) -> Result<Vec<DummyText>, RunError> {
    let chance = exchange.chance(Purpose::Dummies);
    let texts: Vec<DummyText> = load_or_create::<_, RunError>(&work.join("texts.json"), || {
        dummy::write(plan, &ground.vocabulary, &tools.corpus, &PhraseLengths::public(), &chance).map_err(failed)
    })?;
    if texts.len() == plan.dummies().count() { Ok(texts) } else { Err(failed(OTHERS)) }
}

/// Returns the sound of each dummy, in the order of their numbers: a drawn manner, any of `recordings`, and the rate
/// that its text needs. Dummies without a text are recorded, and have their own pace.
///
/// # Errors
/// [`RunError::Failed`] when the disk refuses.
pub(super) fn manners(
    recordings: u32,
    texts: &[Option<&DummyText>],
    work: &Path,
    exchange: &mut dyn Exchange,
) -> Result<Vec<Sounding>, RunError> {
    let chance = exchange.chance(Purpose::Dummies);
    let manners: Vec<Sounding> = load_or_create::<_, RunError>(&work.join("manners.json"), || {
        let mut rng = chance.stream(1);
        let mut sounding = |text: Option<&DummyText>| {
            let words = text.map_or(0, |text| text.text.split_whitespace().count());
            let manner = fitting::hurried(SpeakingManner::draw(&mut rng), words);
            Sounding { manner, recording: below(recordings.max(1), &mut rng) }
        };
        Ok(texts.iter().copied().map(&mut sounding).collect())
    })?;
    if manners.len() == texts.len() { Ok(manners) } else { Err(failed(OTHERS)) }
}
