//! `recognize`: the words of recordings, by a trained model.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::table::format_table;
use super::{CommandFailure, find_dataset};
use crate::recognition::{ModelRecognizer, RecognizedWord, RecognizerFiles, RecognizerOptions, RecordingResult};
use crate::site::folder::Folder;
use crate::speech::audio::LONGEST;
use crate::speech::decode::SearchOptions;
use crate::speech::transcribe::transcript::wer::WordErrors;

/// The version of the JSON output.
const VERSION: u32 = 1;

/// Recognize recordings with a model: words with times and confidence.
///
/// With a lexicon, the best words under the language model are found. Without one, the best path is printed: characters of a
/// CTC model as words, else phones, else class numbers. The command prints at this terminal, and neither stores nor sends.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub(super) struct RecognizeCommand {
    /// The recordings: FLAC or WAV.
    #[arg(value_name = "AUDIO", required = true)]
    audio: Vec<PathBuf>,
    /// The model: a safetensors file of a job.
    #[arg(long, value_name = "FILE")]
    model: PathBuf,
    /// The dataset of this site with the labels that the model was trained on: for the frequencies of classes, the treatment
    /// of features, and its phones.json and classes.json.
    #[arg(long, value_name = "NAME")]
    dataset: Option<String>,
    /// The phones of the labels: the phones.json of a dataset, the `mdef` of a PocketSphinx model, or lines `CLASS PHONE STATE`.
    #[arg(long, value_name = "FILE", conflicts_with = "characters")]
    phone_map: Option<PathBuf>,
    /// The classes of the labels: the classes.json of a dataset.
    #[arg(long, value_name = "FILE", conflicts_with = "characters")]
    class_map: Option<PathBuf>,
    /// The characters of a CTC model: the characters.json of `data spell`.
    #[arg(long, value_name = "FILE")]
    characters: Option<PathBuf>,
    /// The pronouncing dictionary, in the format of the CMU Pronouncing Dictionary. For a CTC model words alone are enough.
    #[arg(long, value_name = "FILE")]
    lexicon: Option<PathBuf>,
    /// The language model over the words of the lexicon: n-grams in the ARPA format.
    #[arg(long = "lm", value_name = "FILE")]
    language_model: Option<PathBuf>,
    /// Skip words of the language model that the lexicon lacks.
    #[arg(long)]
    skip_missing_words: bool,
    /// The factor of the language model against the acoustic model: by default 10 for phones, and 2 for characters.
    #[arg(long, value_name = "FACTOR", value_parser = parse_weight)]
    lm_weight: Option<f64>,
    /// The cost of each word, in natural logarithms; negative values favour more words.
    #[arg(long, value_name = "COST", default_value_t = 0.0, allow_negative_numbers = true, value_parser = parse_penalty)]
    word_penalty: f64,
    /// The greatest distance of a path to the best one, in natural logarithms. Smaller values are faster and miss more.
    #[arg(long, value_name = "DISTANCE", default_value_t = 150.0, value_parser = parse_beam)]
    beam: f64,
    /// The most paths of a frame.
    #[arg(long, value_name = "PATHS", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    paths: u32,
    /// Keep the mean of the features, for a model of data prepared with `--normalize none`.
    #[arg(long)]
    keep_mean: bool,
    /// Accept recordings below 16 kHz.
    #[arg(long)]
    upsample: bool,
    /// The limit of a recording's length.
    #[arg(long, value_name = "SECONDS", default_value_t = LONGEST, value_parser = parse_longest)]
    longest: f64,
    /// Compare with the `*.trans.txt` beside each recording (lines `ID TEXT`) and print the word error rate.
    #[arg(long)]
    references: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// The output.
#[derive(Debug, Serialize)]
struct RecognitionReport {
    version: u32,
    /// SHA-256 of the model's file, hex.
    model: String,
    /// The parts of the recognizer.
    system: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    word_error_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<WordErrors>,
    recordings: Vec<RecordingResult>,
}

impl RecognizeCommand {
    /// Recognizes the recordings and prints the result to `out`.
    pub(super) fn run(&self, folder: &Folder, out: &mut dyn Write) -> Result<(), CommandFailure> {
        let dataset = match &self.dataset {
            Some(name) => Some((find_dataset(folder, name)?, name.clone())),
            None => None,
        };
        let files = RecognizerFiles {
            model: self.model.clone(),
            dataset,
            phone_map: self.phone_map.clone(),
            class_map: self.class_map.clone(),
            characters: self.characters.clone(),
            lexicon: self.lexicon.clone(),
            language_model: self.language_model.clone(),
        };
        let options = SearchOptions {
            word_penalty: self.word_penalty,
            beam: self.beam,
            most_tokens: self.paths as usize,
            skip_missing_words: self.skip_missing_words,
            ..SearchOptions::default()
        };
        let recognizer_options = RecognizerOptions {
            language_weight: self.lm_weight,
            subtracts_mean: self.keep_mean.then_some(false),
            longest: self.longest,
            upsamples: self.upsample,
        };
        let mut recognizer = ModelRecognizer::open(&files, options, recognizer_options)?;
        let mut recordings = Vec::new();
        for path in &self.audio {
            recordings.push(recognizer.recognize(path, self.references)?);
        }
        let errors = self.references.then(|| {
            let own = recordings.iter().filter_map(|recording| recording.errors);
            own.fold(WordErrors::default(), |mut sum, errors| {
                sum += errors;
                sum
            })
        });
        let report = RecognitionReport {
            version: VERSION,
            model: recognizer.digest().to_owned(),
            system: recognizer.system().to_owned(),
            word_error_rate: errors.and_then(|errors| errors.rate()),
            errors,
            recordings,
        };
        let text = if self.json { serde_json::to_string_pretty(&report)? + "\n" } else { format_report(&report) };
        out.write_all(text.as_bytes())?;
        Ok(())
    }
}

fn format_report(report: &RecognitionReport) -> String {
    let mut parts: Vec<String> = report.recordings.iter().map(format_recording).collect();
    parts.push(format!("System           {}\n", report.system));
    if let (Some(errors), Some(rate)) = (&report.errors, report.word_error_rate) {
        parts.push(format!(
            "Word error rate  {:.2} % ({} substituted, {} inserted, {} deleted of {} words)\n",
            rate * 100.0,
            errors.substitutions,
            errors.insertions,
            errors.deletions,
            errors.words
        ));
    }
    parts.concat()
}

fn format_recording(recording: &RecordingResult) -> String {
    let row = |word: &RecognizedWord| {
        let time = |seconds: f64| format!("{seconds:.2}");
        vec![time(word.start), time(word.end), time(word.confidence), word.word.clone()]
    };
    let rows: Vec<Vec<String>> = recording.words.iter().map(row).collect();
    let note = if recording.complete { "" } else { "the recording ends within a word, which is missing\n" };
    format!(
        "{}  {:.2} s\n{note}{}\n",
        recording.audio.display(),
        recording.seconds,
        format_table(&["START", "END", "CONFIDENCE", "WORD"], &rows)
    )
}

fn parse_number(text: &str, range: std::ops::RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
}

fn parse_weight(text: &str) -> Result<f64, String> {
    parse_number(text, 0.0..=1_000.0)
}

fn parse_penalty(text: &str) -> Result<f64, String> {
    parse_number(text, -1_000.0..=1_000.0)
}

fn parse_beam(text: &str) -> Result<f64, String> {
    parse_number(text, 1.0..=100_000.0)
}

fn parse_longest(text: &str) -> Result<f64, String> {
    parse_number(text, 0.1..=3_600.0)
}

#[cfg(test)]
mod tests;
