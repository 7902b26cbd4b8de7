//! Different recognizers: word errors, money and time of the site alone, of one provider that receives everything, and of
//! private transcriptions, by the number of providers, ε and the vocabulary.
//!
//! | engine | what it is |
//! |---|---|
//! | `site` | a CTC model of the product's engine ([`site_model`]) with the lexicon and bigrams of public transcripts |
//! | `plain` | PocketSphinx as its package has it |
//! | `adapted` | PocketSphinx with a dictionary and a language model of the public transcripts |
//!
//! The recordings are the readers of `an4-test`, the public transcripts those of `an4-train`. AN4 is numbers and letters, which
//! a site keeps: this part sends them, because the corpus is public. Sounds leave in the default voice. Of N providers,
//! every second one is `adapted`; one provider is measured as each of both. Dummies change no transcript (part `words`), so
//! they are counted, and their money and time follow from the measured time of a sound.

mod site_model;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
use serde_json::json;
use support::stage::TestResult;
use undertone_api::job::transcription::window::SOUND;
use undertone_privacy::histogram::Partition;
use undertone_privacy::{Delta, Epsilon};
use undertone_worker::speech::audio::RATE;
use undertone_worker::speech::transcribe::noise::DummyMechanism;
use undertone_worker::speech::transcribe::piece::Recognition;
use undertone_worker::speech::transcribe::provider::cost::Price;
use undertone_worker::speech::transcribe::recognize::SpeechRecognizer as _;
use undertone_worker::speech::transcribe::recognize::pocketsphinx::{PocketSphinx, PocketSphinxPool};
use undertone_worker::speech::transcribe::segment::SegmentLimits;
use undertone_worker::speech::transcribe::transcript::wer::WordErrors;
use undertone_worker::speech::transcribe::transcript::{OfflineReason, Transcript, TranscriptPart};
use undertone_worker::speech::transcribe::vocabulary::language::{StemmingLanguage, normal};
use undertone_worker::speech::transcribe::vocabulary::{self, PieceWords, Vocabulary, WordList};
use undertone_worker::speech::transcribe::wav;

use super::document::{self, SpokenDocument};
use super::site::{self, MeasuredVoice, SiteTools, SoundNoise};
use super::sizes::TranscriptionSizes;
use super::stages::StageTimes;
use super::{SEED, rounded, say};
use crate::recognize::text;
use crate::report::Report;

/// The providers, the ε and the sizes of the vocabulary of the table.
const PROVIDERS: [u32; 3] = [1, 2, 4];
const EPSILONS: [f64; 3] = [1.0, 2.0, 4.0];
const VOCABULARIES: [usize; 2] = [5, 20];
const DELTA: f64 = 1e-5;
/// d: one spoken word.
const DISTANCE: u32 = 10;
/// The pieces of a provider that receives whole recordings: of the longest length that every provider accepts.
const WHOLE: SegmentLimits = SegmentLimits { rest: 8.0, margin: 0.3, threshold: 0.5 };

/// A recognizer outside of the site, with its time.
struct ProviderEngine {
    name: &'static str,
    recognizer: PocketSphinxPool,
    /// Seconds of the machine, and sounds, of the pieces in the default voice.
    seconds: f64,
    sounds: usize,
}

/// A recording with everything that its transcripts are made of.
struct ReaderResult {
    reference: String,
    parts: Vec<TranscriptPart>,
    /// By engine, the words of each piece in the default voice.
    answers: Vec<BTreeMap<u32, Recognition>>,
    /// By engine, the transcript of the unmodified recording.
    alone: Vec<String>,
    seconds: f64,
}

/// # Errors
/// When a module fails.
pub(super) async fn measure(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    stages: &mut StageTimes,
) -> TestResult<()> {
    let data = document::data()?;
    let work = tempfile::tempdir()?;
    let words = text::write_word_files(&data, work.path()).map_err(|error| error.to_string())?;
    let site = site_model::train(report, sizes, &data, &words, work.path())?;
    let python = std::env::var_os("UNDERTONE_ALIGNER").ok_or("no PocketSphinx: UNDERTONE_ALIGNER is not set")?;
    // The limit is for hangs; how long a piece takes is measured, also beside other work.
    let plain = PocketSphinx { seconds: 600, ..PocketSphinx::new(python) };
    let adapted = PocketSphinx {
        dictionary: Some(site_model::write_dictionary(&words.lexicon, work.path())?),
        language_model: Some(words.language_model.clone()),
        ..plain.clone()
    };
    let mut engines = Vec::new();
    for (name, program) in [("plain", plain), ("adapted", adapted)] {
        engines.push(ProviderEngine { name, recognizer: program.start(site::cores())?, seconds: 0.0, sounds: 0 });
    }
    let tools = SiteTools::start(sizes)?.with_recognizer(Box::new(site));
    let voices = site::voices(sizes)?;
    let voice = voices.iter().find(|voice| voice.is_default).ok_or("no default voice among the details")?;
    let mut readers = Vec::new();
    for document in document::readers("an4-test", sizes)? {
        readers.push(read(&tools, &mut engines, voice, &document, stages).await?);
    }
    report_alone(report, sizes, &engines, &readers)?;
    let list = frequent_words(&data)?;
    for size in VOCABULARIES {
        let language = StemmingLanguage::new("en")?;
        let chosen: Vec<String> = list.iter().take(size).cloned().collect();
        let vocabulary = vocabulary::public(language, &WordList::from_words(&chosen)?)?;
        for arrangement in arrangements(engines.len()) {
            report_private(report, sizes, &engines, &readers, &vocabulary, &arrangement)?;
        }
    }
    Ok(())
}

/// Returns the engine of each provider: one provider of either engine, then engines in turn.
fn arrangements(engines: usize) -> Vec<Vec<usize>> {
    let several = PROVIDERS.iter().filter(|providers| **providers > 1);
    let turns = several.map(|providers| (0..*providers as usize).map(|provider| provider % engines).collect());
    (0..engines).map(|engine| vec![engine]).chain(turns).collect()
}

/// Recognizes a recording in all ways.
async fn read(
    tools: &SiteTools,
    engines: &mut [ProviderEngine],
    voice: &MeasuredVoice,
    document: &SpokenDocument,
    stages: &mut StageTimes,
) -> TestResult<ReaderResult> {
    let prepared = site::prepare(tools, document, stages).await?;
    let mut parts = prepared.parts.clone();
    // Numbers and letters leave; a piece in which the site recognizes nothing stays, as at a site.
    for part in parts.iter_mut().filter(|part| !part.offline.words.is_empty()) {
        part.stays = (part.piece.seconds() > SOUND).then_some(OfflineReason::Long);
    }
    let leaving: Vec<u32> = parts.iter().filter(|part| part.stays.is_none()).map(|part| part.piece.id).collect();
    let mut sounds = Vec::new();
    for id in &leaving {
        sounds.push((SoundNoise::Piece(*id), prepared.piece(*id)?.audio.as_slice()));
    }
    let files = voice.leaving(&sounds, stages)?;
    let converted: Vec<Vec<f32>> = files.iter().map(|file| wav::read(file)).collect::<Result<_, _>>()?;
    let whole: Vec<Vec<f32>> =
        site::segment_document(document, WHOLE)?.into_iter().map(|spoken| spoken.audio).collect();
    let (mut answers, mut alone) = (Vec::new(), Vec::new());
    for engine in engines {
        let texts: Vec<String> =
            hear(&engine.recognizer, &whole, tools.at_once).await?.iter().map(Recognition::text).collect();
        alone.push(texts.join(" "));
        let began = Instant::now();
        let recognitions = hear(&engine.recognizer, &converted, tools.at_once).await?;
        engine.seconds += began.elapsed().as_secs_f64();
        engine.sounds += recognitions.len();
        answers.push(leaving.iter().copied().zip(recognitions).collect());
    }
    Ok(ReaderResult { reference: document.reference.clone(), parts, answers, alone, seconds: document.seconds() })
}

async fn hear(recognizer: &PocketSphinxPool, sounds: &[Vec<f32>], at_once: usize) -> TestResult<Vec<Recognition>> {
    let hearing = sounds.iter().map(|sound| recognizer.transcribe(sound));
    Ok(stream::iter(hearing).buffered(at_once).try_collect().await?)
}

/// Prints the word errors of the site alone and of each provider alone, with the provider's money and time.
fn report_alone(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    engines: &[ProviderEngine],
    readers: &[ReaderResult],
) -> TestResult<()> {
    let mut errors = WordErrors::default();
    for reader in readers {
        let offline: Vec<String> = reader.parts.iter().map(|part| part.offline.text()).collect();
        errors += WordErrors::count(&reader.reference, &offline.join(" "));
    }
    say(
        report,
        json!({ "transcript": "site alone", "words": errors.words, "word_error_rate": errors.rate().map(rounded) }),
    )?;
    let tariff = price(sizes).tariff()?;
    for (number, engine) in engines.iter().enumerate() {
        let mut errors = WordErrors::default();
        for reader in readers {
            errors += WordErrors::count(&reader.reference, &reader.alone[number]);
        }
        let money = tariff.cost(readers.iter().map(|reader| (reader.seconds * f64::from(RATE)) as u64));
        say(
            report,
            json!({
                "transcript": format!("{} alone, unmodified", engine.name), "words": errors.words,
                "word_error_rate": errors.rate().map(rounded), "money": money.to_string(),
                "machine_seconds_per_sound": rounded(engine.seconds / engine.sounds.max(1) as f64),
            }),
        )?;
    }
    Ok(())
}

/// Prints a private transcription with each ε.
fn report_private(
    report: &mut Report,
    sizes: &TranscriptionSizes,
    engines: &[ProviderEngine],
    readers: &[ReaderResult],
    vocabulary: &Vocabulary,
    arrangement: &[usize],
) -> TestResult<()> {
    let mut errors = WordErrors::default();
    let (mut sent, mut crowded) = (0_usize, 0_usize);
    let mut rng = ChaCha20Rng::seed_from_u64(SEED);
    for reader in readers {
        let mut parts = reader.parts.clone();
        let mut answers = Vec::new();
        for part in parts.iter_mut().filter(|part| part.stays.is_none()) {
            if vocabulary.classify(&part.offline.words) == PieceWords::Several {
                part.stays = Some(OfflineReason::Crowded);
                crowded += 1;
                continue;
            }
            let provider = (rng.next_u64() % arrangement.len() as u64) as usize;
            let answer = reader.answers[arrangement[provider]].get(&part.piece.id).cloned().unwrap_or_default();
            answers.push((provider as u32, part.piece.id, answer));
        }
        sent += answers.len();
        let transcript = Transcript::assemble(&parts, answers, |_, piece| Some(piece));
        errors += WordErrors::count(&reader.reference, &transcript.plain());
    }
    let names: Vec<&str> = arrangement.iter().map(|engine| engines[*engine].name).collect();
    let per_sound: f64 =
        arrangement.iter().map(|engine| engines[*engine].seconds / engines[*engine].sounds.max(1) as f64).sum::<f64>()
            / arrangement.len() as f64;
    let providers = NonZeroU32::new(arrangement.len() as u32).ok_or("no providers")?;
    let distance = NonZeroU32::new(DISTANCE).ok_or("no distance")?;
    let tariff = price(sizes).tariff()?;
    for epsilon in EPSILONS {
        let partition = Partition::new(providers, NonZeroU32::MIN)?;
        let mechanism = DummyMechanism::calibrated(Epsilon::new(epsilon)?, Delta::new(DELTA)?, distance, partition)?;
        let dummies = mechanism.expected(vocabulary.len());
        let sounds = dummies + sent as f64;
        // Each sound is a request of its own, rounded up separately.
        let sizes_of_sounds = std::iter::repeat_n((SOUND * f64::from(RATE)) as u64, sounds.ceil() as usize);
        say(
            report,
            json!({
                "transcript": "private", "providers": names, "epsilon": epsilon, "delta": DELTA, "distance": DISTANCE,
                "vocabulary": vocabulary.len(), "words": errors.words, "word_error_rate": errors.rate().map(rounded),
                "pieces": sent, "crowded": crowded, "dummies": dummies.round(), "money": tariff.cost(sizes_of_sounds).to_string(),
                "machine_seconds": rounded(sounds * per_sound),
            }),
        )?;
    }
    Ok(())
}

fn price(sizes: &TranscriptionSizes) -> Price {
    Price {
        currency: "USD".to_owned(),
        per_minute: sizes.per_minute.clone(),
        step_seconds: sizes.step,
        least_seconds: 0,
    }
}

/// Returns the words of the public transcripts without stop words, the most frequent first.
fn frequent_words(data: &std::path::Path) -> TestResult<Vec<String>> {
    let language = StemmingLanguage::new("en")?;
    let stops = language.stop_words();
    let sentences = text::sentences(&data.join("speech/an4-train")).map_err(|error| error.to_string())?;
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for word in sentences.into_iter().flatten() {
        if normal(&word).is_some_and(|word| !stops.contains(&word)) {
            *counts.entry(word).or_default() += 1;
        }
    }
    let mut words: Vec<(String, usize)> = counts.into_iter().collect();
    words.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    Ok(words.into_iter().map(|(word, _)| word).collect())
}
