//! Channels: a voice, and a source of dummies. Each row states how well a channel hides which sounds are dummies and who
//! speaks, and what it costs in words. Every other speaker of the data is transcribed; the others are public speech.
//!
//! The adversary has labelled sounds of the same site and engine. He is tested twice: on pieces of readers of whom he knows
//! other pieces, and on readers that he does not know. A row has his best result, over both tests, both learners, with or
//! without the recognized words, and with or without features of how the sound moves. `guessing` is the share of the larger class.
//!
//! Pieces do not stay because of their words: the channel is measured, not the search for names and numbers. The words
//! of dummies have the same source as those of true pieces, so only the sound can tell them apart:
//!
//! | dummies | sound | public speech for one dummy |
//! |---|---|---|
//! | `engine` | an engine speaks the words of a public piece | none, its text |
//! | `recorded` | a public piece | one piece |
//! | `exchanged` | a public piece, one word replaced by that word of another speaker | one piece of any words, and one recording of the word |
//! | `respoken` | an engine speaks the words of every sound, true pieces too | none, its text |
//!
//! With `respoken`, a provider receives the words of the site's own recognizer and nothing else: its transcript cannot be
//! better than the site's. The row shows where the trade-off ends; no job offers it.

use std::collections::BTreeMap;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::json;
use support::stage::TestResult;
use undertone_worker::speech::audio::RATE;
use undertone_worker::speech::mfcc::Mfcc;
use undertone_worker::speech::transcribe::attack::{
    AttackKnowledge, AttackLearner, AttackScores, FOLDS, ReceivedSound, feature, true_or_dummy,
};
use undertone_worker::speech::transcribe::piece::{Recognition, TimedWord};
use undertone_worker::speech::transcribe::speak::likeness::SAMPLES;
use undertone_worker::speech::transcribe::transcript::wer::WordErrors;
use undertone_worker::speech::transcribe::wav;

use super::site::{self, MeasuredVoice, PreparedRecording, SiteTools, SoundNoise};
use super::sizes::TranscriptionSizes;
use super::stages::StageTimes;
use super::{CONFIDENCE, SEED, cloud, document, rounded, say, speaker};
use crate::report::Report;

/// Words a minute of engines.
const PACE: f64 = 160.0;
/// Samples over which two sounds are faded into each other: 10 ms.
const FADE: usize = RATE as usize / 100;

/// A source of dummies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DummySource {
    Engine,
    Recorded,
    Exchanged,
    Respoken,
}

impl DummySource {
    const ALL: [Self; 4] = [Self::Recorded, Self::Exchanged, Self::Engine, Self::Respoken];

    const fn label(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Recorded => "recorded",
            Self::Exchanged => "exchanged",
            Self::Respoken => "respoken",
        }
    }
}

/// A piece of a speaker, and its words timed from the beginning of the piece.
struct SpokenSound {
    speaker: usize,
    audio: Vec<f32>,
    words: Vec<TimedWord>,
}

impl SpokenSound {
    fn text(&self) -> String {
        self.words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
    }
}

/// The speakers: the true pieces with the reference of each reader, and the public pieces.
struct ChannelSpeech {
    references: BTreeMap<usize, String>,
    pieces: Vec<SpokenSound>,
    public: Vec<SpokenSound>,
}

/// Sounds in their final form, and their recognized words.
struct ConvertedSounds {
    files: Vec<Vec<u8>>,
    recognitions: Vec<Recognition>,
}

/// # Errors
/// When a module fails.
pub(super) async fn measure(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    stages: &mut StageTimes,
) -> TestResult<()> {
    let tools = SiteTools::start(sizes)?;
    let speech = read_speech(sizes, &tools, stages).await?;
    let recorded: Vec<Vec<f32>> = speech.pieces.iter().map(|sound| sound.audio.clone()).collect();
    // The first voice leaves everything as recorded.
    let mut unmodified: Option<WordErrors> = None;
    for voice in site::voices(sizes)?.iter().filter(|voice| !voice.clones) {
        let speakers = speaker::identify(sizes, voice)?;
        let converted = convert(&tools, voice, &recorded, 0, stages).await?;
        let errors = count_errors(&speech, &converted.recognitions);
        let is_first = unmodified.is_none();
        let baseline = *unmodified.get_or_insert(errors);
        let ratio = |errors: &WordErrors| errors.rate().zip(baseline.rate()).map(|(ours, bare)| rounded(ours / bare));
        // An engine has one voice, whatever converts it.
        for source in DummySource::ALL.into_iter().filter(|source| is_first || *source != DummySource::Respoken) {
            let respoken = match source {
                DummySource::Respoken => {
                    Some(convert(&tools, voice, &respeak(&tools, &speech.pieces)?, 0, stages).await?)
                }
                _ => None,
            };
            let pieces = respoken.as_ref().unwrap_or(&converted);
            let dummies = make_dummies(&tools, &speech, source)?;
            let dummies = convert(&tools, voice, &dummies, recorded.len(), stages).await?;
            let mut sounds = list_received(&tools, &speech.pieces, pieces, false)?;
            sounds.extend(list_received(&tools, &speech.public, &dummies, true)?);
            let best = attack(&sounds)?;
            let (_, upper) = best.interval(CONFIDENCE);
            let errors = count_errors(&speech, &pieces.recognitions);
            let identified = respoken.is_none().then(|| rounded(speakers.identified()));
            say(
                report,
                json!({
                    "channel": format!("{}, {}", voice.name, source.label()),
                    "default": voice.is_default && source == DummySource::Engine,
                    "told_apart": rounded(best.accuracy()), "told_apart_upper": rounded(upper),
                    "guessing": rounded(best.chance()), "pieces": best.pieces(), "dummies": best.dummies(),
                    "readers": speech.references.len(), "speaker_attack": identified,
                    "speaker_guessing": rounded(speakers.chance()), "speakers": speakers.speakers(),
                    "word_error_rate": errors.rate().map(rounded), "word_error_ratio": ratio(&errors),
                }),
            )?;
        }
    }
    Ok(())
}

/// Reads, cuts and recognizes all speakers.
async fn read_speech(
    sizes: &TranscriptionSizes,
    tools: &SiteTools,
    stages: &mut StageTimes,
) -> TestResult<ChannelSpeech> {
    let mut speech = ChannelSpeech { references: BTreeMap::new(), pieces: Vec::new(), public: Vec::new() };
    for (speaker, (_, folder)) in document::speakers()?.into_iter().take(sizes.speakers).enumerate() {
        let document = document::read_speaker(&folder, sizes.seconds)?;
        let prepared = site::prepare(tools, &document, stages).await?;
        let sounds = list_sounds(speaker, &prepared)?;
        if speaker % 2 == 0 {
            speech.references.insert(speaker, document.reference);
            speech.pieces.extend(sounds);
        } else {
            speech.public.extend(sounds);
        }
    }
    Ok(speech)
}

/// Returns the pieces that are no longer than a sound.
fn list_sounds(speaker: usize, prepared: &PreparedRecording) -> TestResult<Vec<SpokenSound>> {
    let fits = prepared.parts.iter().filter(|part| part.piece.samples.end - part.piece.samples.start <= SAMPLES as u64);
    fits.map(|part| {
        let words = part.offline.words.iter().map(|word| word.later(-part.piece.start())).collect();
        Ok(SpokenSound { speaker, audio: prepared.piece(part.piece.id)?.audio.clone(), words })
    })
    .collect()
}

/// Returns the words of sounds, spoken by the engine of the dummies.
fn respeak<'a>(tools: &SiteTools, sounds: impl IntoIterator<Item = &'a SpokenSound>) -> TestResult<Vec<Vec<f32>>> {
    sounds.into_iter().map(|sound| tools.speak(&sound.text(), PACE)).collect()
}

/// Returns a dummy for each public piece, at most as many as true pieces, before conversion.
fn make_dummies(tools: &SiteTools, speech: &ChannelSpeech, source: DummySource) -> TestResult<Vec<Vec<f32>>> {
    let public = speech.public.iter().take(speech.pieces.len());
    Ok(match source {
        DummySource::Engine | DummySource::Respoken => respeak(tools, public)?,
        DummySource::Recorded => public.map(|sound| sound.audio.clone()).collect(),
        DummySource::Exchanged => {
            let mut rng = ChaCha20Rng::seed_from_u64(SEED);
            public.map(|sound| exchange_word(sound, &speech.public, &mut rng)).collect()
        }
    })
}

/// Replaces a random word of a sound by a random word of another speaker, as loud, with short fades.
fn exchange_word(sound: &SpokenSound, public: &[SpokenSound], rng: &mut ChaCha20Rng) -> Vec<f32> {
    let mut draw = |most: usize| (rng.next_u64() % most.max(1) as u64) as usize;
    let others: Vec<&SpokenSound> =
        public.iter().filter(|other| other.speaker != sound.speaker && !other.words.is_empty()).collect();
    let Some(other) = others.get(draw(others.len())).filter(|_| !sound.words.is_empty()) else {
        return sound.audio.clone();
    };
    let removed = samples(&sound.audio, &sound.words[draw(sound.words.len())]);
    let inserted = &other.audio[samples(&other.audio, &other.words[draw(other.words.len())])];
    let power = |part: &[f32]| part.iter().map(|value| value * value).sum::<f32>() / part.len().max(1) as f32;
    let gain = (power(&sound.audio[removed.clone()]) / power(inserted).max(f32::MIN_POSITIVE)).sqrt().min(10.0);
    let louder: Vec<f32> = inserted.iter().map(|value| value * gain).collect();
    let mut exchanged = sound.audio[..removed.start].to_vec();
    append_faded(&mut exchanged, &louder);
    append_faded(&mut exchanged, &sound.audio[removed.end..]);
    exchanged.truncate(SAMPLES);
    exchanged
}

/// Returns the range of a word in a sound.
fn samples(audio: &[f32], word: &TimedWord) -> std::ops::Range<usize> {
    let at = |seconds: f64| ((seconds.max(0.0) * f64::from(RATE)) as usize).min(audio.len());
    at(word.start)..at(word.end).max(at(word.start))
}

/// Appends a sound, whose beginning overlaps the end of the first.
fn append_faded(first: &mut Vec<f32>, second: &[f32]) {
    let overlap = FADE.min(first.len()).min(second.len());
    let start = first.len() - overlap;
    for (place, value) in second.iter().take(overlap).enumerate() {
        let part = (place + 1) as f32 / (overlap + 1) as f32;
        first[start + place] = first[start + place] * (1.0 - part) + value * part;
    }
    first.extend(&second[overlap..]);
}

/// Converts sounds into their final form, and has the cloud recognize them.
async fn convert(
    tools: &SiteTools,
    voice: &MeasuredVoice,
    sounds: &[Vec<f32>],
    first: usize,
    stages: &mut StageTimes,
) -> TestResult<ConvertedSounds> {
    let numbered: Vec<(SoundNoise, &[f32])> = (first..)
        .zip(sounds)
        .map(|(number, sound)| (SoundNoise::Dummy(number), &sound[..sound.len().min(SAMPLES)]))
        .collect();
    let files = voice.leaving(&numbered, stages)?;
    let recognitions = cloud::hear(&tools.ear, &files, tools.at_once).await?;
    Ok(ConvertedSounds { files, recognitions })
}

/// Returns the sounds from the adversary's point of view; the fold is the speaker.
fn list_received(
    tools: &SiteTools,
    sources: &[SpokenSound],
    sounds: &ConvertedSounds,
    dummy: bool,
) -> TestResult<Vec<ReceivedSound>> {
    let mut mfcc = Mfcc::new();
    let sounds = sounds.files.iter().zip(&sounds.recognitions).zip(sources);
    sounds
        .map(|((file, recognition), source)| {
            let words = feature::words(&tools.vocabulary, recognition, wav::seconds(file));
            let samples = wav::read(file)?;
            let mut sound = feature::sound(&mut mfcc, &samples);
            sound.extend(feature::trajectory(&mut mfcc, &samples));
            Ok(ReceivedSound { fold: source.speaker, dummy, sound, words })
        })
        .collect()
}

/// Returns the best result of the adversary, with and without the features of the trajectory.
fn attack(received: &[ReceivedSound]) -> TestResult<AttackScores> {
    let short =
        |sound: &ReceivedSound| ReceivedSound { sound: sound.sound[..feature::SOUND].to_vec(), ..sound.clone() };
    let short: Vec<ReceivedSound> = received.iter().map(short).collect();
    let results = [attack_features(received)?, attack_features(&short)?];
    let better = |one: &AttackScores, other: &AttackScores| one.accuracy().total_cmp(&other.accuracy());
    results.into_iter().max_by(better).ok_or_else(|| "no attack".into())
}

fn attack_features(received: &[ReceivedSound]) -> TestResult<AttackScores> {
    // A reader and a public speaker in each fold, so that every fold has both classes.
    let by_reader = received.iter().map(|sound| ReceivedSound { fold: sound.fold / 2 % FOLDS, ..sound.clone() });
    let by_piece =
        received.iter().enumerate().map(|(place, sound)| ReceivedSound { fold: place % FOLDS, ..sound.clone() });
    let mut best: Option<AttackScores> = None;
    for sounds in [by_reader.collect::<Vec<_>>(), by_piece.collect()] {
        for learner in AttackLearner::ALL {
            for knowledge in AttackKnowledge::ALL {
                let scores = true_or_dummy(&sounds, learner, knowledge, SEED, &|| false).ok_or("nobody stops it")?;
                if best.as_ref().is_none_or(|best| scores.accuracy() > best.accuracy()) {
                    best = Some(scores);
                }
            }
        }
    }
    best.ok_or_else(|| "no attack".into())
}

/// Counts the word errors of all readers.
fn count_errors(speech: &ChannelSpeech, recognitions: &[Recognition]) -> WordErrors {
    let mut transcripts: BTreeMap<usize, String> = BTreeMap::new();
    for (sound, recognition) in speech.pieces.iter().zip(recognitions) {
        let transcript = transcripts.entry(sound.speaker).or_default();
        transcript.push_str(&recognition.text());
        transcript.push(' ');
    }
    let mut errors = WordErrors::default();
    for (speaker, reference) in &speech.references {
        errors += WordErrors::count(reference, transcripts.get(speaker).map_or("", String::as_str));
    }
    errors
}
