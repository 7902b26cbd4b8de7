//! The documents: readers of the speech data, and texts spoken by an engine.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use support::stage::TestResult;
use support::workspace;
use undertone_worker::speech::audio;
use undertone_worker::speech::transcribe::speak::{SpeechEngine, SpeechSynthesizer as _, USUAL_RATE};
use undertone_worker::speech::transcribe::transcript::wer::normalized;

use super::sizes::TranscriptionSizes;

/// Silence between utterances, samples.
const PAUSE: usize = 9_600;
/// Longest utterance, seconds.
const LONGEST: f64 = 60.0;
/// The number of words that the engine speaks at a time.
const BREATH: usize = 12;
/// The voice of the spoken documents. Another engine speaks the dummies.
const VOICE: &str = "slt";

/// A recording with known words.
pub(super) struct SpokenDocument {
    pub(super) name: String,
    /// `read` by people, or `spoken` by an engine.
    pub(super) kind: &'static str,
    pub(super) samples: Vec<f32>,
    pub(super) reference: String,
}

impl SpokenDocument {
    pub(super) fn seconds(&self) -> f64 {
        self.samples.len() as f64 / f64::from(audio::RATE)
    }

    fn add(&mut self, samples: &[f32], words: &str) {
        self.samples.extend(samples);
        self.samples.resize(self.samples.len() + PAUSE, 0.0);
        self.reference.push_str(words);
        self.reference.push(' ');
    }
}

/// One utterance of a speaker.
pub(super) struct SpeakerUtterance {
    pub(super) path: PathBuf,
    pub(super) words: String,
}

/// Returns all requested documents.
///
/// # Errors
/// When the data or an engine are missing.
pub(super) fn all(sizes: &TranscriptionSizes) -> TestResult<Vec<SpokenDocument>> {
    let mut documents = read(sizes)?;
    documents.extend(synthesize_documents(sizes)?);
    Ok(documents)
}

/// Returns the readers, each one's utterances in order.
///
/// # Errors
/// When the data are missing.
pub(super) fn read(sizes: &TranscriptionSizes) -> TestResult<Vec<SpokenDocument>> {
    readers("librispeech-test-other", sizes)
}

/// Returns the first readers of a subset, each one's utterances in order.
///
/// # Errors
/// When the data are missing.
pub(super) fn readers(subset: &str, sizes: &TranscriptionSizes) -> TestResult<Vec<SpokenDocument>> {
    let readers = folders(&data()?.join("speech").join(subset))?;
    readers.iter().take(sizes.readers).map(|reader| read_speaker(reader, sizes.seconds)).collect()
}

/// Returns speakers of another corpus, as public speech.
///
/// # Errors
/// When the data are missing.
pub(super) fn corpus(sizes: &TranscriptionSizes) -> TestResult<Vec<SpokenDocument>> {
    let speakers = folders(&data()?.join("speech/an4-train"))?;
    speakers.iter().take(sizes.corpus).map(|speaker| read_speaker(speaker, sizes.seconds)).collect()
}

/// Returns the utterances of a speaker in order, at least one and no more than so many seconds.
///
/// # Errors
/// When the data are missing.
pub(super) fn read_speaker(speaker: &Path, seconds: f64) -> TestResult<SpokenDocument> {
    let mut document =
        SpokenDocument { name: file_name(speaker), kind: "read", samples: Vec::new(), reference: String::new() };
    for utterance in utterances(speaker)? {
        let samples = audio::read(&utterance.path, LONGEST)?.samples;
        let more = samples.len() as f64 / f64::from(audio::RATE);
        if !document.samples.is_empty() && document.seconds() + more > seconds {
            break;
        }
        document.add(&samples, &utterance.words);
    }
    Ok(document)
}

/// Returns the utterances of a speaker's folder, in order.
///
/// # Errors
/// When it cannot be read, or an utterance has no words.
pub(super) fn utterances(speaker: &Path) -> TestResult<Vec<SpeakerUtterance>> {
    let mut utterances = Vec::new();
    for chapter in folders(speaker)? {
        let texts = files(&chapter, "txt")?.pop().ok_or("a chapter without its transcripts")?;
        for line in fs::read_to_string(texts)?.lines() {
            let (id, words) = line.split_once(' ').ok_or("a transcript without words")?;
            utterances.push(SpeakerUtterance { path: chapter.join(format!("{id}.flac")), words: words.to_owned() });
        }
    }
    Ok(utterances)
}

/// Returns the speakers of the speech data: corpus and folder.
///
/// # Errors
/// When the data are missing.
pub(super) fn speakers() -> TestResult<Vec<(&'static str, PathBuf)>> {
    let mut all = Vec::new();
    for subset in ["an4-train", "an4-test", "librispeech-test-other"] {
        // Speakers are compared within one corpus, because microphones distinguish corpora.
        let corpus = if subset.starts_with("an4") { "an4" } else { "librispeech" };
        all.extend(folders(&data()?.join("speech").join(subset))?.into_iter().map(|folder| (corpus, folder)));
    }
    Ok(all)
}

fn synthesize_documents(sizes: &TranscriptionSizes) -> TestResult<Vec<SpokenDocument>> {
    let docs = data()?.join("docs");
    let mut texts = files(&docs.join("ami_meetings"), "txt")?;
    // Meetings and calls alternately.
    for (place, call) in files(&docs.join("earnings21"), "txt")?.into_iter().enumerate() {
        texts.insert((2 * place + 1).min(texts.len()), call);
    }
    let engine = SpeechEngine::flite(VOICE, Duration::from_mins(1))?;
    let mut documents = Vec::new();
    for text in texts.into_iter().take(sizes.spoken) {
        let words = words_of(&fs::read_to_string(&text)?, sizes.spoken_words);
        let mut document =
            SpokenDocument { name: file_name(&text), kind: "spoken", samples: Vec::new(), reference: String::new() };
        for breath in words.chunks(BREATH).map(|words| words.join(" ")) {
            document.add(&engine.speak(&breath, USUAL_RATE)?, &breath);
        }
        documents.push(document);
    }
    Ok(documents)
}

/// Returns the first words of a text, without speaker names, and without lines that contain digits, which have several
/// readings.
fn words_of(text: &str, most: usize) -> Vec<String> {
    let lines = text.lines().map(|line| line.split_once(": ").map_or(line, |(_, rest)| rest));
    let plain = lines.filter(|line| !line.contains(|sign: char| sign.is_ascii_digit()));
    plain.flat_map(normalized).take(most).collect()
}

/// Returns the folder of shared data.
///
/// # Errors
/// When it does not exist.
pub(super) fn data() -> TestResult<PathBuf> {
    workspace::data().ok_or_else(|| "no data: set UNDERTONE_DATA to the folder that holds `speech/` and `docs/`".into())
}

fn file_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn folders(folder: &Path) -> TestResult<Vec<PathBuf>> {
    entries(folder, Path::is_dir)
}

/// Returns the files of a folder with this extension, sorted.
///
/// # Errors
/// When it cannot be read.
pub(super) fn files(folder: &Path, ending: &str) -> TestResult<Vec<PathBuf>> {
    entries(folder, |path| path.extension().is_some_and(|found| found == ending))
}

fn entries(folder: &Path, wanted: impl Fn(&Path) -> bool) -> TestResult<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if wanted(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}
