//! Speaker identification by an adversary who knows recordings of all speakers: a classifier of 1.5 s windows, trained
//! on each speaker's known utterances and tested on others. He has no pretrained network of speaker embeddings, which
//! would do better: take his success as a lower bound, and compare voices with each other.
//!
//! | attack | trained on | tested on |
//! |---|---|---|
//! | `original` | recordings | recordings |
//! | `ignorant` | recordings | changed voices |
//! | `informed` | changed voices: he runs the product himself | changed voices |

use std::collections::BTreeSet;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_privacy::membership::rate_interval;
use undertone_worker::speech::audio::{self, RATE};
use undertone_worker::speech::mfcc::Mfcc;
use undertone_worker::speech::transcribe::attack::classifier::SoundClassifier;
use undertone_worker::speech::transcribe::attack::feature;
use undertone_worker::speech::transcribe::wav;

use super::site::{self, MeasuredVoice, cores};
use super::sizes::TranscriptionSizes;
use super::stages::StageTimes;
use super::{CONFIDENCE, SEED, document, rounded, say};
use crate::report::Report;

/// A window and its distance to the next, samples.
const WINDOW: usize = 3 * RATE as usize / 2;
const HOP: usize = RATE as usize / 4;
/// Longest utterance, seconds.
const LONGEST: f64 = 60.0;
const HIDDEN: usize = 128;
/// Repetitions of the bootstrap.
const REPEATS: usize = 500;

/// An utterance.
struct MeasuredUtterance {
    speaker: usize,
    corpus: &'static str,
    /// Whether the adversary knows its speaker.
    known: bool,
    samples: Vec<f32>,
}

/// # Errors
/// When the data are missing.
pub(super) fn measure(report: &mut Report, sizes: &TranscriptionSizes) -> TestResult<()> {
    let utterances = utterances(sizes)?;
    let mut stages = StageTimes::default();
    let mut original = None;
    for voice in site::voices(sizes)? {
        let windows = windows(&utterances, &voice, &mut stages)?;
        let informed = learned(&utterances, &windows);
        match &original {
            None => {
                say(report, attack_voice("original", &voice.name, &utterances, &windows, &informed))?;
                original = Some(informed);
            }
            Some(recordings) => {
                say(report, attack_voice("ignorant", &voice.name, &utterances, &windows, recordings))?;
                say(report, attack_voice("informed", &voice.name, &utterances, &windows, &informed))?;
            }
        }
    }
    Ok(())
}

/// Returns the utterances of each speaker, alternately known and tested.
fn utterances(sizes: &TranscriptionSizes) -> TestResult<Vec<MeasuredUtterance>> {
    let mut all = Vec::new();
    for (speaker, (corpus, folder)) in document::speakers()?.into_iter().take(sizes.speakers).enumerate() {
        for (place, utterance) in document::utterances(&folder)?.into_iter().take(sizes.utterances).enumerate() {
            let samples = audio::read(&utterance.path, LONGEST)?.samples;
            all.push(MeasuredUtterance { speaker, corpus, known: place % 2 == 0, samples });
        }
    }
    Ok(all)
}

/// Returns the features of the windows of each utterance in a voice.
fn windows(
    utterances: &[MeasuredUtterance],
    voice: &MeasuredVoice,
    stages: &mut StageTimes,
) -> TestResult<Vec<Vec<Vec<f32>>>> {
    let sounds: Vec<&[f32]> = utterances.iter().map(|said| said.samples.as_slice()).collect();
    let files = voice.files(&sounds, stages)?;
    let of = |file: &Vec<u8>| -> TestResult<Vec<Vec<f32>>> {
        let samples = wav::read(file)?;
        let mut mfcc = Mfcc::new();
        if samples.len() <= WINDOW {
            return Ok(vec![feature::voice(&mut mfcc, &samples)]);
        }
        Ok(samples.windows(WINDOW).step_by(HOP).map(|window| feature::voice(&mut mfcc, window)).collect())
    };
    let each = files.len().div_ceil(cores()).max(1);
    std::thread::scope(|scope| {
        let spawned: Vec<_> = files
            .chunks(each)
            .map(|part| scope.spawn(move || part.iter().map(of).collect::<TestResult<Vec<_>>>()))
            .collect();
        let mut all = Vec::new();
        for part in spawned {
            all.extend(part.join().map_err(|_| "a thread gave up")??);
        }
        Ok(all)
    })
}

fn learned(utterances: &[MeasuredUtterance], windows: &[Vec<Vec<f32>>]) -> SoundClassifier {
    let (mut examples, mut labels) = (Vec::new(), Vec::new());
    for (said, windows) in utterances.iter().zip(windows).filter(|(said, _)| said.known) {
        examples.extend(windows.iter().cloned());
        labels.extend(std::iter::repeat_n(said.speaker, windows.len()));
    }
    let speakers = utterances.iter().map(|said| said.speaker + 1).max().unwrap_or(0);
    SoundClassifier::train(&examples, &labels, speakers, Some(HIDDEN), SEED)
}

/// Trials of one utterance: its similarity to its own speaker, and to each other one of its corpus.
struct SpeakerTrial {
    speaker: usize,
    own: f64,
    others: Vec<f64>,
    right: bool,
}

/// The success of the informed adversary in naming one of several speakers.
pub(super) struct SpeakerIdentification {
    right: usize,
    trials: usize,
    speakers: usize,
}

impl SpeakerIdentification {
    /// Returns the share of utterances whose speaker is named, 0 to 1.
    pub(super) fn identified(&self) -> f64 {
        self.right as f64 / self.trials.max(1) as f64
    }

    /// Returns the share that guessing names.
    pub(super) fn chance(&self) -> f64 {
        1.0 / self.speakers.max(1) as f64
    }

    /// Returns the number of speakers.
    pub(super) fn speakers(&self) -> usize {
        self.speakers
    }
}

/// Runs the informed attack on a voice.
///
/// # Errors
/// When the data are missing.
pub(super) fn identify(sizes: &TranscriptionSizes, voice: &MeasuredVoice) -> TestResult<SpeakerIdentification> {
    let utterances = utterances(sizes)?;
    let windows = windows(&utterances, voice, &mut StageTimes::default())?;
    let trials = try_speakers(&utterances, &windows, &learned(&utterances, &windows));
    let right = trials.iter().filter(|trial| trial.right).count();
    let speakers = trials.iter().map(|trial| trial.speaker).collect::<BTreeSet<_>>().len();
    Ok(SpeakerIdentification { right, trials: trials.len(), speakers })
}

/// Names the speaker of each utterance that the adversary does not know.
fn try_speakers(
    utterances: &[MeasuredUtterance],
    windows: &[Vec<Vec<f32>>],
    classifier: &SoundClassifier,
) -> Vec<SpeakerTrial> {
    let mut trials = Vec::new();
    for (said, windows) in utterances.iter().zip(windows).filter(|(said, _)| !said.known) {
        let logs = classifier.logs(windows);
        let speakers = logs.first().map_or(0, Vec::len);
        let mean =
            |speaker: usize| logs.iter().map(|logs| f64::from(logs[speaker])).sum::<f64>() / logs.len().max(1) as f64;
        let scores: Vec<f64> = (0..speakers).map(mean).collect();
        let same: BTreeSet<usize> =
            utterances.iter().filter(|other| other.corpus == said.corpus).map(|other| other.speaker).collect();
        let others: Vec<f64> = (0..speakers)
            .filter(|other| *other != said.speaker && same.contains(other))
            .map(|other| scores[other])
            .collect();
        let own = scores[said.speaker];
        let right = scores.iter().all(|score| *score <= own);
        trials.push(SpeakerTrial { speaker: said.speaker, own, others, right });
    }
    trials
}

fn attack_voice(
    attack: &str,
    voice: &str,
    utterances: &[MeasuredUtterance],
    windows: &[Vec<Vec<f32>>],
    classifier: &SoundClassifier,
) -> Value {
    let trials = try_speakers(utterances, windows, classifier);
    let speakers: Vec<usize> = trials.iter().map(|trial| trial.speaker).collect::<BTreeSet<_>>().into_iter().collect();
    let right = trials.iter().filter(|trial| trial.right).count();
    let (low, high) = rate_interval(right as u64, trials.len() as u64, CONFIDENCE);
    let all: Vec<&SpeakerTrial> = trials.iter().collect();
    let (least, most) = bootstrap(&trials, &speakers);
    // Without any error, the bootstrap carries no information; the exact interval of so many trials bounds the rate.
    let most = most.max(rate_interval(0, trials.len() as u64, CONFIDENCE).1);
    json!({
        "attack": "who speaks", "adversary": attack, "voice": voice, "speakers": speakers.len(), "utterances": trials.len(),
        "identified": rounded(right as f64 / trials.len().max(1) as f64), "identified_95": [rounded(low), rounded(high)],
        "guessing": rounded(1.0 / speakers.len().max(1) as f64), "equal_error_rate": rounded(equal_error(&all)),
        "equal_error_rate_95": [rounded(least), rounded(most)],
    })
}

/// Returns the rate at which false acceptances and false rejections are equal.
fn equal_error(trials: &[&SpeakerTrial]) -> f64 {
    let own = trials.iter().map(|trial| (trial.own, true));
    let others = trials.iter().flat_map(|trial| trial.others.iter().map(|score| (*score, false)));
    let mut scores: Vec<(f64, bool)> = own.chain(others).collect();
    scores.sort_by(|one, other| one.0.total_cmp(&other.0));
    let owns = scores.iter().filter(|(_, own)| *own).count() as f64;
    let strangers = scores.len() as f64 - owns;
    if owns < 1.0 || strangers < 1.0 {
        return 0.5;
    }
    let (mut rejected, mut accepted) = (0.0, strangers);
    for (_, own) in scores {
        if own {
            rejected += 1.0;
        } else {
            accepted -= 1.0;
        }
        if rejected / owns >= accepted / strangers {
            break;
        }
    }
    0.5 * (rejected / owns + accepted / strangers)
}

/// Returns the interval of the rate with the confidence, over random draws of other speakers.
fn bootstrap(trials: &[SpeakerTrial], speakers: &[usize]) -> (f64, f64) {
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    let mut draw_rate = || {
        let mut all = Vec::new();
        for _ in speakers {
            let speaker = speakers[(rng.next_u64() % speakers.len() as u64) as usize];
            all.extend(trials.iter().filter(|trial| trial.speaker == speaker));
        }
        equal_error(&all)
    };
    let mut rates: Vec<f64> = (0..REPEATS).map(|_| draw_rate()).collect();
    rates.sort_by(f64::total_cmp);
    let at = |part: f64| rates.get((part * (REPEATS - 1) as f64).round() as usize).copied().unwrap_or(0.5);
    (at(0.5 * (1.0 - CONFIDENCE)), at(0.5 * (1.0 + CONFIDENCE)))
}
