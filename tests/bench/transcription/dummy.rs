//! Which sounds are dummies, told by an adversary who recognizes: he has what he receives, what he hears in it, and recordings of
//! others that he put through the same product himself. So he learns from all documents but one and is asked about that one;
//! with one document alone, from four fifths of its sounds.
//!
//! The words of a sound count by their number, length and share of the vocabulary, not by which they are.

use serde_json::{Value, json};
use support::stage::Staged;
use undertone_privacy::membership::{Auc, rate_interval};
use undertone_worker::speech::mfcc::Mfcc;
use undertone_worker::speech::transcribe::piece::Heard;
use undertone_worker::speech::transcribe::plan::{Chance, Crowded, Plan};
use undertone_worker::speech::transcribe::vocabulary::Held;
use undertone_worker::speech::transcribe::wav;

use super::net::Net;
use super::site::{self, Spoke, Tools};
use super::sizes::Sizes;
use super::stages::Stages;
use super::{CONFIDENCE, cloud, document, feature, rounded, say};
use crate::report::Report;

/// Parts of one document, where there is no other.
const FOLDS: usize = 5;
/// Hidden units of the stronger classifier.
const HIDDEN: usize = 32;

/// What leaves of a document, before the voice is changed.
struct Made {
    pieces: Vec<Vec<f32>>,
    dummies: Vec<Vec<f32>>,
}

/// A sound as the adversary has it.
struct Received {
    /// From which part he must not have learned.
    fold: usize,
    /// 1 for a dummy.
    label: usize,
    values: Vec<f32>,
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
        let dummies = site::dummies(&tools, &prepared, &plan, usize::MAX, stages)?;
        // Spread over the words, as they are received.
        let step = (dummies.len() / each.max(1)).max(1);
        let dummies: Vec<Vec<f32>> = dummies.into_iter().step_by(step).take(each).collect();
        let leaves = prepared.candidates.iter().filter(|(_, held)| *held != Held::Several);
        let mut pieces = Vec::new();
        for (id, _) in leaves.take(each) {
            pieces.push(prepared.piece(*id)?.audio.clone());
        }
        made.push(Made { pieces, dummies });
    }
    for voice in site::voices(sizes)? {
        let sounds = received(&tools, &made, &voice, stages).await?;
        for (classifier, hidden) in [("logistic regression", None), ("hidden layer", Some(HIDDEN))] {
            for (known, width) in [("sound", feature::SOUND), ("sound and words", usize::MAX)] {
                say(report, line(&voice.name, classifier, known, &scores(&sounds, width, hidden)?))?;
            }
        }
    }
    Ok(())
}

async fn received(tools: &Tools, made: &[Made], voice: &Spoke, stages: &mut Stages) -> Staged<Vec<Received>> {
    let mut all = Vec::new();
    for (number, Made { pieces, dummies }) in made.iter().enumerate() {
        let sounds: Vec<&[f32]> = pieces.iter().chain(dummies).map(Vec::as_slice).collect();
        let files = voice.files(&sounds, stages)?;
        let heard = cloud::hear(&tools.ear, &files, tools.at_once).await?;
        let mut mfcc = Mfcc::new();
        for (place, (file, heard)) in files.iter().zip(&heard).enumerate() {
            let samples = wav::read(file)?;
            let mut values = feature::sound(&mut mfcc, &samples);
            values.extend(said(tools, heard, wav::seconds(file)));
            let fold = if made.len() > 1 { number } else { place % FOLDS };
            all.push(Received { fold, label: usize::from(place >= pieces.len()), values });
        }
    }
    Ok(all)
}

/// What the recognizer makes of a sound: words, words a second, letters a word, share of the vocabulary, share of the sound that
/// words cover.
fn said(tools: &Tools, heard: &Heard, seconds: f64) -> [f32; 5] {
    let count = heard.words.len() as f64;
    let letters: usize = heard.words.iter().map(|word| word.text.len()).sum();
    let listed = heard.words.iter().filter(|word| tools.vocabulary.number(&word.text).is_some()).count();
    let covered: f64 = heard.words.iter().map(|word| word.end - word.start).sum();
    let (words, time) = (count.max(1.0), seconds.max(0.01));
    [count, count / time, letters as f64 / words, listed as f64 / words, covered / time].map(|value| value as f32)
}

/// How sure he is that each sound is a dummy, never having learned from its part: true pieces, dummies.
fn scores(sounds: &[Received], width: usize, hidden: Option<usize>) -> Staged<[Vec<f64>; 2]> {
    let folds = sounds.iter().map(|sound| sound.fold + 1).max().unwrap_or(0);
    let cut = |sound: &Received| sound.values[..sound.values.len().min(width)].to_vec();
    let mut scores = [Vec::new(), Vec::new()];
    for fold in 0..folds {
        let (asked, known): (Vec<&Received>, Vec<&Received>) = sounds.iter().partition(|sound| sound.fold == fold);
        if asked.is_empty() || known.is_empty() {
            continue;
        }
        let examples: Vec<Vec<f32>> = known.iter().map(|sound| cut(sound)).collect();
        let labels: Vec<usize> = known.iter().map(|sound| sound.label).collect();
        let net = Net::train(&examples, &labels, 2, hidden);
        let logs = net.logs(&asked.iter().map(|sound| cut(sound)).collect::<Vec<_>>())?;
        for (sound, logs) in asked.iter().zip(logs) {
            scores[sound.label].push(f64::from(logs[1] - logs[0]));
        }
    }
    Ok(scores)
}

fn line(voice: &str, classifier: &str, known: &str, [pieces, dummies]: &[Vec<f64>; 2]) -> Value {
    let auc = Auc::of(dummies, pieces);
    let right =
        pieces.iter().filter(|score| **score < 0.0).count() + dummies.iter().filter(|score| **score >= 0.0).count();
    let all = pieces.len() + dummies.len();
    let (low, high) = rate_interval(right as u64, all as u64, CONFIDENCE);
    json!({
        "attack": "true or dummy", "voice": voice, "classifier": classifier, "knows": known, "true": pieces.len(),
        "dummies": dummies.len(), "accuracy": rounded(right as f64 / all.max(1) as f64),
        "accuracy_95": [rounded(low), rounded(high)],
        "guessing": rounded(pieces.len().max(dummies.len()) as f64 / all.max(1) as f64),
        "area": auc.map(|auc| rounded(auc.value())),
        "area_95": auc.map(|auc| { let (low, high) = auc.interval(CONFIDENCE); [rounded(low), rounded(high)] }),
    })
}
