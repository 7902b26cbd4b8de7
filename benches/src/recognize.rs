//! Word error rates of `recognize` on AN4: models of the product's own engine, trained on `an4-train` as public data, and
//! all utterances of `an4-test`, which has other speakers.
//!
//! The first kind of model classifies senones of PocketSphinx, the second characters with CTC. Each is measured without
//! a lexicon where that gives words, with a lexicon, and with a bigram model of the training transcripts. The lexicon has
//! the words of the training transcripts, so a word that only the test has is always an error.
//!
//! `UNDERTONE_RECOGNIZE` is a comma-separated list of `senones` and `characters`, by default both;
//! `UNDERTONE_RECOGNIZE_EPOCHS` sets the epochs. The senones need `UNDERTONE_ALIGNER`, a Python with PocketSphinx, whose
//! model names their phones.

mod model;
pub(crate) mod text;

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;
use support::workspace;
use undertone_worker::recognition::{ModelRecognizer, RecognizerFiles, RecognizerOptions};
use undertone_worker::speech::audio::LONGEST;
use undertone_worker::speech::decode::SearchOptions;
use undertone_worker::speech::prepare::spell::{CHARACTERS_FILE, LABELS_FILE, SpellOptions, spell};
use undertone_worker::speech::transcribe::transcript::wer::WordErrors;

use crate::report::{Outcome, Report};
use model::{TrainingData, train};

/// The subset whose utterances are recognized.
const TEST: &str = "an4-test";

/// One way to recognize.
struct System<'a> {
    name: &'a str,
    files: RecognizerFiles,
    language_weight: f64,
}

pub(crate) fn run(report: &mut Report) -> Outcome {
    let data = workspace::data().ok_or("no data: set UNDERTONE_DATA to the folder that holds `speech/` and `dict/`")?;
    let kinds = std::env::var("UNDERTONE_RECOGNIZE").unwrap_or_else(|_| "senones,characters".to_owned());
    let work = tempfile::tempdir()?;
    let words = text::write_word_files(&data, work.path())?;
    for kind in kinds.split(',').map(str::trim) {
        match (kind, phone_map()) {
            ("senones", Some(phones)) => measure_senones(report, &data, work.path(), &words, phones)?,
            ("senones", None) => {
                let because = "UNDERTONE_ALIGNER names no Python with PocketSphinx";
                report.line(json!({ "system": kind, "left_out": because }))?;
            }
            ("characters", _) => measure_characters(report, &data, work.path(), &words)?,
            _ => return Err(format!("UNDERTONE_RECOGNIZE: `{kind}` is not `senones` or `characters`").into()),
        }
    }
    Ok(())
}

/// Returns the path of the model definition of PocketSphinx.
fn phone_map() -> Option<PathBuf> {
    let python = std::env::var_os("UNDERTONE_ALIGNER")?;
    let script = "import pocketsphinx; print(pocketsphinx.get_model_path('en-us/en-us/mdef'))";
    let output = std::process::Command::new(python).args(["-c", script]).output().ok()?;
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    path.is_file().then_some(path)
}

fn measure_senones(report: &mut Report, data: &Path, work: &Path, words: &text::WordFiles, phones: PathBuf) -> Outcome {
    let labels = data.join("speech/alignments/pocketsphinx-en-us-senones.jsonl");
    let training = TrainingData::senones(data, &labels, &work.join("senones"))?;
    let model = train(report, &training, &work.join("senones.safetensors"))?;
    let files = RecognizerFiles {
        model,
        dataset: Some((training.folder.clone(), "senones".to_owned())),
        phone_map: Some(phones),
        lexicon: Some(words.lexicon.clone()),
        ..RecognizerFiles::default()
    };
    let language = RecognizerFiles { language_model: Some(words.language_model.clone()), ..files.clone() };
    for system in [
        System { name: "senones, lexicon", files, language_weight: 10.0 },
        System { name: "senones, lexicon, bigrams", files: language, language_weight: 10.0 },
    ] {
        recognize_tests(report, data, &system)?;
    }
    Ok(())
}

fn measure_characters(report: &mut Report, data: &Path, work: &Path, words: &text::WordFiles) -> Outcome {
    let spelled = work.join("spelled");
    let input = data.join("speech");
    spell(&SpellOptions { input, output: spelled.clone(), characters: None, longest: LONGEST })?;
    let characters = spelled.join(CHARACTERS_FILE);
    let training = TrainingData::characters(data, &spelled.join(LABELS_FILE), &characters, &work.join("characters"))?;
    let model = train(report, &training, &work.join("characters.safetensors"))?;
    let files = RecognizerFiles { model, characters: Some(characters), ..RecognizerFiles::default() };
    let lexicon = RecognizerFiles { lexicon: Some(words.lexicon.clone()), ..files.clone() };
    let language = RecognizerFiles { language_model: Some(words.language_model.clone()), ..lexicon.clone() };
    for system in [
        System { name: "characters", files, language_weight: 0.0 },
        System { name: "characters, lexicon", files: lexicon, language_weight: 2.0 },
        System { name: "characters, lexicon, bigrams", files: language, language_weight: 2.0 },
    ] {
        recognize_tests(report, data, &system)?;
    }
    Ok(())
}

/// Recognizes all utterances of the test and prints the errors and the speed.
fn recognize_tests(report: &mut Report, data: &Path, system: &System<'_>) -> Outcome {
    let search = SearchOptions { beam: 150.0, ..SearchOptions::default() };
    let language_weight = Some(system.language_weight);
    let options = RecognizerOptions { language_weight, subtracts_mean: None, longest: LONGEST, upsamples: false };
    let mut recognizer = ModelRecognizer::open(&system.files, search, options)?;
    let started = Instant::now();
    let mut errors = WordErrors::default();
    let mut seconds = 0.0;
    for recording in text::recordings(&data.join("speech").join(TEST))? {
        let result = recognizer.recognize(&recording, true)?;
        seconds += result.seconds;
        errors += result.errors.unwrap_or_default();
    }
    report.line(json!({
        "system": system.name, "word_error_rate": errors.rate(), "words": errors.words,
        "substitutions": errors.substitutions, "insertions": errors.insertions, "deletions": errors.deletions,
        "language_weight": system.language_weight, "real_time_factor": started.elapsed().as_secs_f64() / seconds,
    }))
}
