//! Detection of dummies by an adversary who has the received sounds, his own recognition of them, and recordings of
//! other people that he processed with the same product. He learns from all documents but one and is tested on that
//! one; with a single document, he learns from four fifths of its sounds.
//!
//! Dummies are measured twice: spoken by an engine, and from recorded people ([`recorded`]).
//!
//! His features and his learner are the product's own: [`undertone_worker::speech::transcribe::attack`].

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_worker::speech::mfcc::Mfcc;
use undertone_worker::speech::transcribe::attack::{
    AttackKnowledge, AttackLearner, AttackScores, FOLDS, ReceivedSound, feature, true_or_dummy,
};
use undertone_worker::speech::transcribe::plan::{CrowdedPieces, Plan, PlanRandomness};
use undertone_worker::speech::transcribe::vocabulary::PieceWords;
use undertone_worker::speech::transcribe::wav;

use super::site::{self, MeasuredVoice, PreparedRecording, SiteTools, SoundNoise};
use super::sizes::TranscriptionSizes;
use super::stages::StageTimes;
use super::{CONFIDENCE, SEED, cloud, document, recorded, rounded, say};
use crate::report::Report;

/// The sounds of a document, before voice conversion.
pub(super) struct DocumentSounds {
    pub(super) pieces: Vec<Vec<f32>>,
    pub(super) dummies: Vec<Vec<f32>>,
    /// The same dummies in imitations of the document's voice.
    pub(super) imitations: Vec<Vec<f32>>,
}

/// # Errors
/// When a module fails.
pub(super) async fn measure(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    stages: &mut StageTimes,
) -> TestResult<()> {
    let tools = SiteTools::start(sizes)?;
    // Dummies of an engine with an engine's document would be an attack on engines.
    let documents = document::read(sizes)?;
    let each = sizes.sounds.div_ceil(documents.len().max(1));
    let (mut made, mut all) = (Vec::new(), Vec::new());
    for document in &documents {
        let prepared = site::prepare(&tools, document, stages).await?;
        let plan = Plan::draw(
            sizes.mechanism()?,
            tools.vocabulary.len(),
            tools.vocabulary.disclosure(),
            &prepared.candidates,
            CrowdedPieces::Keep,
            &PlanRandomness::from_os(),
        )?;
        // Spread over the words, as in the received batch.
        let spread = |dummies: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            let step = (dummies.len() / each.max(1)).max(1);
            dummies.into_iter().step_by(step).take(each).collect()
        };
        let dummies = spread(site::dummies(&tools, &plan, usize::MAX, stages)?);
        let imitations = spread(site::imitations(&tools, &prepared, &plan, usize::MAX, stages)?);
        made.push(DocumentSounds { pieces: leaving(&prepared, each)?, dummies, imitations });
        all.push(prepared);
    }
    tell(report, sizes, &tools, &made, "spoken by an engine", stages).await?;
    recorded::measure(report, sizes, &tools, &all, stages).await
}

/// Returns the first pieces of a document that may leave.
///
/// # Errors
/// When a piece does not exist.
pub(super) fn leaving(prepared: &PreparedRecording, most: usize) -> TestResult<Vec<Vec<f32>>> {
    let leaves = prepared.candidates.iter().filter(|(_, held)| *held != PieceWords::Several);
    leaves.take(most).map(|(id, _)| Ok(prepared.piece(*id)?.audio.clone())).collect()
}

/// Attacks the sounds in every voice, and reports the success; `source` is the origin of the dummies.
///
/// # Errors
/// When a module fails.
pub(super) async fn tell(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    tools: &SiteTools,
    made: &[DocumentSounds],
    source: &str,
    stages: &mut StageTimes,
) -> TestResult<()> {
    let imitated = made.iter().any(|made| !made.imitations.is_empty());
    for voice in site::voices(sizes)?.iter().filter(|voice| imitated || !voice.clones) {
        let sounds = received(tools, made, voice, stages).await?;
        for learner in AttackLearner::ALL {
            for knowledge in AttackKnowledge::ALL {
                let scores = true_or_dummy(&sounds, learner, knowledge, SEED, &|| false).ok_or("nobody stops it")?;
                say(report, line(&voice.name, source, learner, knowledge, &scores))?;
            }
        }
    }
    Ok(())
}

async fn received(
    tools: &SiteTools,
    made: &[DocumentSounds],
    voice: &MeasuredVoice,
    stages: &mut StageTimes,
) -> TestResult<Vec<ReceivedSound>> {
    let mut all = Vec::new();
    for (number, DocumentSounds { pieces, dummies, imitations }) in made.iter().enumerate() {
        let dummies = if voice.clones { imitations } else { dummies };
        // Independent noise for every sound of every document.
        let mut sounds: Vec<(SoundNoise, &[f32])> = Vec::new();
        for (place, sound) in pieces.iter().chain(dummies).enumerate() {
            sounds.push((SoundNoise::Dummy((number << 32) | place), sound));
        }
        let files = voice.leaving(&sounds, stages)?;
        let recognitions = cloud::hear(&tools.ear, &files, tools.at_once).await?;
        let mut mfcc = Mfcc::new();
        for (place, (file, recognition)) in files.iter().zip(&recognitions).enumerate() {
            let samples = wav::read(file)?;
            let words = feature::words(&tools.vocabulary, recognition, wav::seconds(file));
            let fold = if made.len() > 1 { number } else { place % FOLDS };
            let sound = feature::sound(&mut mfcc, &samples);
            all.push(ReceivedSound { fold, dummy: place >= pieces.len(), sound, words });
        }
    }
    Ok(all)
}

fn line(voice: &str, source: &str, learner: AttackLearner, knowledge: AttackKnowledge, scores: &AttackScores) -> Value {
    let (low, high) = scores.interval(CONFIDENCE);
    let area = scores.area();
    json!({
        "attack": "true or dummy", "voice": voice, "dummies are": source, "classifier": learner.label(), "knows": knowledge.label(),
        "true": scores.pieces(), "dummies": scores.dummies(), "accuracy": rounded(scores.accuracy()),
        "accuracy_95": [rounded(low), rounded(high)], "guessing": rounded(scores.chance()),
        "area": area.map(|area| rounded(area.value())),
        "area_95": area.map(|area| { let (low, high) = area.interval(CONFIDENCE); [rounded(low), rounded(high)] }),
    })
}
