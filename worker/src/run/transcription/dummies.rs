//! What chance decides: the plan, what the dummies say, and how they are made to sound. Each is drawn once and kept.

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
use crate::speech::transcribe::dummy::{self, Length, Lengths, Text};
use crate::speech::transcribe::noise::Mechanism;
use crate::speech::transcribe::piece::{Piece, Word};
use crate::speech::transcribe::plan::{Chance, Item, Plan, kept};
use crate::speech::transcribe::segment::cut::cut;
use crate::speech::transcribe::speak::USUAL_RATE;
use crate::speech::transcribe::speak::likeness::{Likeness, Manner, Spectrum};
use crate::speech::transcribe::speak::reference::{Reference, References};
use crate::speech::transcribe::vocabulary::language::Language;

/// Lengths of dummies where no piece is sent whose length they could have.
const USUAL: [Length; 3] =
    [Length { words: 2, content: 1 }, Length { words: 3, content: 2 }, Length { words: 4, content: 2 }];
/// The manner of dummies where no piece is sent whose manner they could have.
const PLAIN: Manner = Manner { before: 1_600, after: 1_600, loudness: 0.05, floor: 0.000_5, rate: USUAL_RATE };

/// Why nothing is made of what is kept.
pub(super) const OTHERS: &str = "what is kept of the dummies is of another plan";

/// The noise of a job, as it can be drawn. The same as the spec's, to the bit.
///
/// # Errors
/// [`RunError::Failed`] for a spec without noise.
pub(super) fn mechanism(spec: &Spec) -> Result<Mechanism, RunError> {
    let noise = spec.noise().map_err(failed)?;
    Mechanism::new(noise, spec.participant.distance, spec.partition().map_err(failed)?).map_err(failed)
}

/// The plan of the job: drawn now, or as it was drawn before.
///
/// # Errors
/// [`RunError::Refused`] when the plan is another release than the manifest charges, and what drawing and keeping have.
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
        let chance = Chance::new(words, assignment)?;
        Plan::draw(mechanism, ground.vocabulary.len(), disclosure, &ground.candidates(), spec.crowded, &chance)
    };
    Ok(Plan::once(&work.join("plan.json"), &paid, draw)?)
}

/// The pieces of a recording that are sent, in order of time, with their words.
pub(super) fn sent<'a>(
    ground: &'a Ground,
    plan: &Plan,
) -> impl Fn(usize) -> Vec<(u32, &'a Piece, &'a [Word])> + use<'a> {
    let mut numbers: Vec<u32> = (0..plan.providers())
        .flat_map(|provider| plan.batch(provider))
        .filter_map(|item| match item {
            Item::Piece(number) => Some(*number),
            Item::Dummy(_) => None,
        })
        .collect();
    numbers.sort_unstable();
    move |recording| {
        let cut = &ground.cuts[recording];
        let end = cut.first + cut.parts.len() as u32;
        let range =
            numbers.partition_point(|number| *number < cut.first)..numbers.partition_point(|number| *number < end);
        let piece = |number: &u32| {
            let part = &cut.parts[(number - cut.first) as usize];
            (*number, &part.piece, part.offline.words.as_slice())
        };
        numbers[range].iter().map(piece).collect()
    }
}

/// How the pieces that are sent sound.
#[derive(Default)]
pub(super) struct Sound {
    /// On the whole.
    pub(super) likeness: Likeness,
    /// By piece with a sound, in the order in which it was heard: the number of its recording.
    recordings: Vec<u32>,
}

/// How one dummy is made to sound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sounding {
    pub(super) manner: Manner,
    /// The recording whose piece has this manner, and whose voice is imitated where the engine does.
    pub(super) recording: u32,
}

impl Sounding {
    /// The same at another rate, words a minute.
    pub(super) fn at(self, rate: f64) -> Self {
        Self { manner: Manner { rate, ..self.manner }, ..self }
    }
}

/// How the pieces that are sent sound; what is best to imitate of each recording goes to `references`.
///
/// # Errors
/// [`RunError`] when a recording cannot be read, the disk refuses, or the exchange says stop.
pub(super) fn likeness(
    recordings: &Recordings,
    ground: &Ground,
    plan: &Plan,
    references: Option<&References>,
    exchange: &dyn Exchange,
) -> Result<Sound, RunError> {
    let mut heard = Sound::default();
    let sent = sent(ground, plan);
    for (number, recording) in (0_u32..).zip(&recordings.meta().recordings) {
        let sent = sent(number as usize);
        if sent.is_empty() {
            continue;
        }
        let stream = recordings.stream(recording).map_err(failed)?;
        let sounds = cut(stream, sent.iter().map(|(_, piece, _)| (*piece).clone()));
        let mut reference = Reference::default();
        for (sound, (.., words)) in sounds.zip(&sent) {
            go_on(exchange)?;
            let audio = sound.map_err(failed)?.audio;
            if heard.likeness.hear(&audio, words.len()) {
                heard.recordings.push(number);
            }
            if references.is_some() {
                reference.hear(&audio);
            }
        }
        let voice = reference.sound();
        if let Some(references) = references.filter(|_| !voice.is_empty()) {
            references.keep(number, &voice).map_err(failed)?;
        }
    }
    Ok(heard)
}

/// What the dummies say, in the order of their numbers.
///
/// # Errors
/// [`RunError::Failed`] when there is nothing to say, or the disk refuses.
pub(super) fn texts(
    ground: &Ground,
    plan: &Plan,
    tools: &Tools,
    work: &Path,
    exchange: &mut dyn Exchange,
) -> Result<Vec<Text>, RunError> {
    let chance = exchange.chance(Purpose::Dummies);
    let texts: Vec<Text> = kept::<_, RunError>(&work.join("texts.json"), || {
        let lengths = lengths(ground, plan, tools.language)?;
        dummy::write(plan, &ground.vocabulary, &tools.corpus, &lengths, &chance).map_err(failed)
    })?;
    if texts.len() == plan.dummies().count() { Ok(texts) } else { Err(failed(OTHERS)) }
}

/// The lengths of the pieces that are sent, in words.
///
/// # Errors
/// [`RunError::Failed`] never: there are usual ones where none is sent.
pub(super) fn lengths(ground: &Ground, plan: &Plan, language: Language) -> Result<Lengths, RunError> {
    let sent = sent(ground, plan);
    let words: Vec<&[Word]> =
        (0..ground.cuts.len()).flat_map(|recording| sent(recording).into_iter().map(|(.., words)| words)).collect();
    if words.is_empty() { Lengths::stated(USUAL.to_vec()) } else { Lengths::of(words, language) }.map_err(failed)
}

/// How each dummy is made to sound, in the order of their numbers: as a piece that is sent, or plainly after any of `recordings`
/// where none is, and as fast as its text needs; those without a text are recorded, and have a pace of their own.
///
/// # Errors
/// [`RunError::Failed`] when the disk refuses.
pub(super) fn manners(
    sound: &Sound,
    recordings: u32,
    texts: &[Option<&Text>],
    work: &Path,
    exchange: &mut dyn Exchange,
) -> Result<Vec<Sounding>, RunError> {
    let chance = exchange.chance(Purpose::Dummies);
    let manners: Vec<Sounding> = kept::<_, RunError>(&work.join("manners.json"), || {
        let mut rng = chance.stream(1);
        let mut draw = || match sound.likeness.choose(&mut rng) {
            Some((place, manner)) => Sounding { manner, recording: sound.recordings[place] },
            None => Sounding { manner: PLAIN, recording: below(recordings.max(1), &mut rng) },
        };
        let sounding = |text: Option<&Text>| {
            let drawn = draw();
            let words = text.map_or(0, |text| text.text.split_whitespace().count());
            Sounding { manner: fitting::hurried(drawn.manner, words), ..drawn }
        };
        Ok(texts.iter().copied().map(sounding).collect())
    })?;
    if manners.len() == texts.len() { Ok(manners) } else { Err(failed(OTHERS)) }
}

/// The spectrum that dummies are brought to: that of the pieces, or where none is sent their own.
pub(super) fn target<'a>(likeness: &'a Likeness, own: &'a Spectrum) -> &'a Spectrum {
    if *likeness.spectrum() == Spectrum::default() { own } else { likeness.spectrum() }
}
