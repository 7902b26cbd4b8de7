//! Which sounds are dummies, told by an adversary who recognizes: he has what he receives, what he hears in it, and recordings of
//! others that he put through the same product himself. So he learns from all documents but one and is asked about that one;
//! with one document alone, from four fifths of its sounds.
//!
//! What he measures and how he learns are the product's own: [`undertone_worker::speech::transcribe::attack`].

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;
use serde_json::{Value, json};
use support::stage::Staged;
use undertone_worker::site::clock::entropy;
use undertone_worker::speech::mfcc::Mfcc;
use undertone_worker::speech::transcribe::attack::{
    FOLDS, Knowledge, Learner, Received, Scores, feature, true_or_dummy,
};
use undertone_worker::speech::transcribe::plan::{Chance, Crowded, Plan};
use undertone_worker::speech::transcribe::speak::likeness::ragged;
use undertone_worker::speech::transcribe::vocabulary::Held;
use undertone_worker::speech::transcribe::wav;

use super::site::{self, Spoke, Tools};
use super::sizes::Sizes;
use super::stages::Stages;
use super::{CONFIDENCE, SEED, cloud, document, rounded, say};
use crate::report::Report;

/// What leaves of a document, before the voice is changed.
struct Made {
    pieces: Vec<Vec<f32>>,
    dummies: Vec<Vec<f32>>,
    /// The same dummies in imitations of the document's voice.
    imitations: Vec<Vec<f32>>,
}

/// # Errors
/// When a room fails.
pub(super) async fn measure(report: &mut Report, sizes: &Sizes, stages: &mut Stages) -> Staged<()> {
    let tools = Tools::start(sizes)?;
    // Dummies of an engine beside an engine's document would be an attack on engines.
    let documents = document::read(sizes)?;
    let each = sizes.sounds.div_ceil(documents.len().max(1));
    let mut made = Vec::new();
    for document in &documents {
        let prepared = site::prepare(&tools, document, stages).await?;
        let plan = Plan::draw(
            sizes.mechanism()?,
            tools.vocabulary.len(),
            tools.vocabulary.disclosure(),
            &prepared.candidates,
            Crowded::Keep,
            &Chance::from_os(),
        )?;
        // Ends as they leave, and spread over the words, as they are received.
        let mut ends = ChaCha20Rng::from_seed(entropy()?);
        let mut end = |mut sound: Vec<f32>| {
            sound.truncate(ragged(sound.len(), &mut ends));
            sound
        };
        let mut spread = |dummies: Vec<Vec<f32>>| -> Vec<Vec<f32>> {
            let step = (dummies.len() / each.max(1)).max(1);
            dummies.into_iter().step_by(step).take(each).map(&mut end).collect()
        };
        let dummies = spread(site::dummies(&tools, &prepared, &plan, usize::MAX, stages)?);
        let imitations = spread(site::imitations(&tools, &prepared, &plan, usize::MAX, stages)?);
        let leaves = prepared.candidates.iter().filter(|(_, held)| *held != Held::Several);
        let mut pieces = Vec::new();
        for (id, _) in leaves.take(each) {
            pieces.push(end(prepared.piece(*id)?.audio.clone()));
        }
        made.push(Made { pieces, dummies, imitations });
    }
    for voice in site::voices(sizes)? {
        let sounds = received(&tools, &made, &voice, stages).await?;
        for learner in Learner::ALL {
            for knowledge in Knowledge::ALL {
                let scores = true_or_dummy(&sounds, learner, knowledge, SEED, &|| false).ok_or("nobody stops it")?;
                say(report, line(&voice.name, learner, knowledge, &scores))?;
            }
        }
    }
    Ok(())
}

async fn received(tools: &Tools, made: &[Made], voice: &Spoke, stages: &mut Stages) -> Staged<Vec<Received>> {
    let mut all = Vec::new();
    for (number, Made { pieces, dummies, imitations }) in made.iter().enumerate() {
        let dummies = if voice.clones { imitations } else { dummies };
        let sounds: Vec<&[f32]> = pieces.iter().chain(dummies).map(Vec::as_slice).collect();
        let files = voice.files(&sounds, stages)?;
        let heard = cloud::hear(&tools.ear, &files, tools.at_once).await?;
        let mut mfcc = Mfcc::new();
        for (place, (file, heard)) in files.iter().zip(&heard).enumerate() {
            let samples = wav::read(file)?;
            let words = feature::words(&tools.vocabulary, heard, wav::seconds(file));
            let fold = if made.len() > 1 { number } else { place % FOLDS };
            let sound = feature::sound(&mut mfcc, &samples);
            all.push(Received { fold, dummy: place >= pieces.len(), sound, words });
        }
    }
    Ok(all)
}

fn line(voice: &str, learner: Learner, knowledge: Knowledge, scores: &Scores) -> Value {
    let (low, high) = scores.interval(CONFIDENCE);
    let area = scores.area();
    json!({
        "attack": "true or dummy", "voice": voice, "classifier": learner.label(), "knows": knowledge.label(),
        "true": scores.pieces(), "dummies": scores.dummies(), "accuracy": rounded(scores.accuracy()),
        "accuracy_95": [rounded(low), rounded(high)], "guessing": rounded(scores.chance()),
        "area": area.map(|area| rounded(area.value())),
        "area_95": area.map(|area| { let (low, high) = area.interval(CONFIDENCE); [rounded(low), rounded(high)] }),
    })
}
