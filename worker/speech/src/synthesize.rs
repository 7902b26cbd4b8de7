//! Synthesizes a small corpus of several speakers with Debian's speech synthesizers, for a site or a demo without data.
//!
//! flite and espeak-ng speak short command phrases of public words. Voice, rate, pitch and the length of the vocal
//! tract (the spectrum stretched by resampling) distinguish the speakers. Labels are phone states, three per phone.
//! flite reports its timing; espeak-ng does not, so its labels are derived by dynamic time warping against flite's,
//! word by word. [`super::prepare`] reads the resulting folder. The same configuration gives the same corpus with the
//! same versions of the engines, which are listed in `corpus.json`. Synthetic voices are easier than real ones: results
//! on them show only that the software works.

use std::path::PathBuf;

use serde::Serialize;

use super::audio::error::AudioError;
use super::dataset::DatasetError;
use super::dataset::staging::StagingFolder;
use undertone_worker_site::progress::ProgressReporter;

mod engine;
mod phones;
mod speak;
mod text;
mod voice;
mod warp;

/// Returns a recording of `text` for tests, mono at 16 kHz; `None` if flite is not installed.
///
/// # Panics
/// If there is no temporary folder.
#[cfg(any(test, feature = "testing"))]
pub fn synthesize_text(text: &str) -> Option<Vec<f32>> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let speech = SpeechEngines::default().speak(&engine::REFERENCE, text, &dir.path().join("said.wav"));
    speech.inspect_err(|error| eprintln!("passed over: {error}")).ok().map(|(samples, _)| samples)
}

pub use engine::SpeechEngines;
pub use phones::{CLASSES, PHONES, STATES};
pub use voice::{EngineVoice, SyntheticSpeaker};

/// The file of labels, relative to the corpus's folder.
pub const ALIGNMENTS_FILE: &str = "alignments/phone-states.jsonl";
/// The file of the corpus's description, see [`CorpusReport`].
pub const CORPUS_FILE: &str = "corpus.json";

/// A group of speakers that is disjoint from all others: a party, or a test set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpeakerGroup {
    /// Its folder name: lower-case letters, digits and hyphens.
    pub name: String,
    /// Number of speakers.
    pub speakers: usize,
    /// True if its voices are far from all others.
    pub outlier: bool,
}

/// The configuration of a corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorpusConfig {
    /// The folder to create; it must not exist yet.
    pub output: PathBuf,
    /// The groups of speakers.
    pub subsets: Vec<SpeakerGroup>,
    /// Number of utterances per speaker.
    pub utterances: usize,
    /// The seed of voices and texts.
    pub seed: u64,
    /// Number of threads that run engines, at least 1.
    pub threads: usize,
    /// The engines.
    pub engines: SpeechEngines,
}

/// The description of a corpus, saved as `corpus.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CorpusReport {
    /// The seed.
    pub seed: u64,
    /// Program and version of each engine in use.
    pub engines: Vec<String>,
    /// Name of each phone; label = index of the phone times [`STATES`] plus state.
    pub phones: &'static [&'static str],
    /// Number of states per phone.
    pub states: usize,
    /// Number of classes, the same for every corpus: `--classes` for `data prepare`.
    pub classes: usize,
    /// Number of utterances.
    pub utterances: usize,
    /// Length of the speech in seconds.
    pub seconds: f64,
    /// All speakers.
    pub speakers: Vec<SyntheticSpeaker>,
}

/// Reasons why no corpus was created.
#[derive(Debug, thiserror::Error)]
pub enum SynthesizeError {
    /// The configuration is invalid.
    #[error("{field}: {reason}")]
    Config {
        /// The argument.
        field: &'static str,
        /// The valid values.
        reason: String,
    },
    /// A program is not installed.
    #[error("{program} is not installed: `apt-get install {package}` (Debian)")]
    Missing {
        /// The program.
        program: String,
        /// Its Debian package.
        package: &'static str,
    },
    /// A program failed.
    #[error("{program} failed: {reason}")]
    Engine {
        /// The program.
        program: String,
        /// Its error message, or the missing output.
        reason: String,
    },
    /// The audio from an engine cannot be read.
    #[error("an engine's output cannot be read")]
    Audio(#[from] AudioError),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] DatasetError),
}

/// Creates a corpus, which appears complete or not at all.
///
/// # Errors
/// [`SynthesizeError`]; nothing is then left at the output.
pub fn corpus(config: &CorpusConfig, progress: &dyn ProgressReporter) -> Result<CorpusReport, SynthesizeError> {
    check(config)?;
    if config.output.symlink_metadata().is_ok() {
        return Err(DatasetError::Exists(config.output.clone()).into());
    }
    let speakers = voice::roster(&config.subsets, config.seed);
    let engines = config.engines.versions(&speakers)?;
    let staging = StagingFolder::create_for(&config.output)?;

    progress.start("Synthesizing speech", (speakers.len() * config.utterances) as u64);
    let threads = config.threads.clamp(1, speakers.len());
    let share = |first: usize| {
        let mine = speakers.iter().skip(first).step_by(threads);
        mine.map(|speaker| speak::speaker(config, speaker, staging.path(), progress)).collect()
    };
    let shares: Vec<Result<Vec<speak::SpeakerOutput>, SynthesizeError>> = std::thread::scope(|scope| {
        let share = &share;
        let handles: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect()
    });
    let mut spoken: Vec<speak::SpeakerOutput> =
        shares.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    spoken.sort_by(|a, b| a.speaker.cmp(&b.speaker));
    progress.finish();

    let report = CorpusReport {
        seed: config.seed,
        engines,
        phones: &PHONES,
        states: STATES,
        classes: CLASSES,
        utterances: speakers.len() * config.utterances,
        seconds: spoken.iter().map(|spoken| spoken.seconds).sum(),
        speakers,
    };
    let alignments: String = spoken.iter().map(|spoken| spoken.alignments.as_str()).collect();
    staging.write_text(ALIGNMENTS_FILE, &alignments)?;
    staging.write_text("SPEAKERS.TXT", &table(&report.speakers, &spoken))?;
    staging.write_json(CORPUS_FILE, &report)?;
    staging.publish(&config.output)?;
    Ok(report)
}

/// Returns the table of speakers in LibriSpeech format.
fn table(speakers: &[SyntheticSpeaker], spoken: &[speak::SpeakerOutput]) -> String {
    let row = |speaker: &SyntheticSpeaker| {
        let mine = spoken.iter().find(|spoken| spoken.speaker == speaker.id);
        let minutes = mine.map_or(0.0, |spoken| spoken.seconds / 60.0);
        let (id, sex, subset, voice) = (&speaker.id, speaker.sex, &speaker.subset, &speaker.voice);
        format!("{id} | {sex} | {subset} | {minutes:.2} | {voice}\n")
    };
    let head = ";ID | SEX | SUBSET | MINUTES | NAME (all synthetic)\n".to_owned();
    std::iter::once(head).chain(speakers.iter().map(row)).collect()
}

fn check(config: &CorpusConfig) -> Result<(), SynthesizeError> {
    let refuse = |field, reason: String| Err(SynthesizeError::Config { field, reason });
    let mut names: Vec<&str> = config.subsets.iter().map(|subset| subset.name.as_str()).collect();
    let plain = |name: &str| {
        let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !name.is_empty() && name.len() <= 64 && name.bytes().all(letter) && name != "alignments"
    };
    if let Some(name) = names.iter().find(|name| !plain(name)) {
        return refuse("--subset", format!("{name:?}: lower-case letters, digits and hyphens, and not `alignments`"));
    }
    names.sort_unstable();
    if let Some([name, _]) = names.array_windows().find(|[a, b]| a == b) {
        return refuse("--subset", format!("{name} twice"));
    }
    let speakers: usize = config.subsets.iter().map(|subset| subset.speakers.min(10_000)).sum();
    if config.subsets.iter().any(|subset| subset.speakers == 0) || !(1..=1_000).contains(&speakers) {
        return refuse("--speakers", "between 1 and 1000 in all, and no subset without".to_owned());
    }
    if !(1..=1_000).contains(&config.utterances) {
        return refuse("--utterances", format!("{}: between 1 and 1000 by speaker", config.utterances));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
