//! Makes a small corpus of several speakers with Debian's speech synthesizers, for a site or a demo without data.
//!
//! flite and espeak-ng speak short command phrases of public words; voice, rate, pitch and the length of the vocal tract
//! (the spectrum stretched by resampling) make the speakers. Labels are phone states, three to a phone: from flite's own
//! timing, and for espeak-ng, which has none to give, by dynamic time warping, word by word, against flite's.
//! The folder is what [`super::prepare`] reads. The same configuration gives the same corpus as long as the engines are the
//! same; their versions are in `corpus.json`. Synthetic voices are easier than people: results on them say that the
//! machinery works, nothing more.

use std::path::PathBuf;

use serde::Serialize;

use super::audio::AudioError;
use super::dataset::DatasetError;
use super::dataset::staging::Staging;
use super::progress::Progress;

mod engine;
mod phones;
mod speak;
mod text;
mod voice;
mod warp;

/// Somebody says `text`, for tests that need speech: mono at 16 kHz; `None` where flite is not installed.
#[cfg(test)]
pub(crate) fn spoken(text: &str) -> Option<Vec<f32>> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let said = Engines::default().speak(&engine::REFERENCE, text, &dir.path().join("said.wav"));
    said.inspect_err(|error| eprintln!("passed over: {error}")).ok().map(|(samples, _)| samples)
}

pub use engine::Engines;
pub use phones::{CLASSES, PHONES, STATES};
pub use voice::{Speaker, Voice};

/// The labels, below the corpus's folder.
pub const ALIGNMENTS_FILE: &str = "alignments/phone-states.jsonl";
/// The description of the corpus, see [`Report`].
pub const CORPUS_FILE: &str = "corpus.json";

/// A group of speakers that no other group shares: a party, or a test set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subset {
    /// Its folder: lower-case letters, digits and hyphens.
    pub name: String,
    /// How many speakers.
    pub speakers: usize,
    /// Whether their voices are far from everybody else's.
    pub outlier: bool,
}

/// What to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The folder to make; must not exist yet.
    pub output: PathBuf,
    /// The groups of speakers.
    pub subsets: Vec<Subset>,
    /// Utterances of each speaker.
    pub utterances: usize,
    /// Decides voices and texts.
    pub seed: u64,
    /// Threads that wait for engines, at least 1.
    pub threads: usize,
    /// The programs.
    pub engines: Engines,
}

/// What was made; saved as `corpus.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Program and version of each engine used.
    pub engines: Vec<String>,
    /// Name of each phone; label = number of the phone here times [`STATES`] plus state.
    pub phones: &'static [&'static str],
    /// States to a phone.
    pub states: usize,
    /// Number of classes, the same for every corpus: `--classes` for `data prepare`.
    pub classes: usize,
    /// Utterances made.
    pub utterances: usize,
    /// Seconds of speech made.
    pub seconds: f64,
    /// The speakers, all of them.
    pub speakers: Vec<Speaker>,
}

/// Why no corpus was made.
#[derive(Debug, thiserror::Error)]
pub enum SynthesizeError {
    /// A configuration that cannot be.
    #[error("{field}: {reason}")]
    Config {
        /// The argument.
        field: &'static str,
        /// What it should be.
        reason: String,
    },
    /// A program that is not there.
    #[error("{program} is not installed: `apt-get install {package}` (Debian)")]
    Missing {
        /// The program.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program that did not do what it should.
    #[error("{program} failed: {reason}")]
    Engine {
        /// The program.
        program: String,
        /// What it said, or did not say.
        reason: String,
    },
    /// Sound from an engine that cannot be read.
    #[error("an engine's output cannot be read")]
    Audio(#[from] AudioError),
    /// The output.
    #[error(transparent)]
    Output(#[from] DatasetError),
}

/// Makes a corpus. It appears whole, or not at all.
///
/// # Errors
/// [`SynthesizeError`]; nothing is then left at the output.
pub fn corpus(config: &Config, progress: &dyn Progress) -> Result<Report, SynthesizeError> {
    check(config)?;
    if config.output.symlink_metadata().is_ok() {
        return Err(DatasetError::Exists(config.output.clone()).into());
    }
    let speakers = voice::roster(&config.subsets, config.seed);
    let engines = config.engines.versions(&speakers)?;
    let staging = Staging::beside(&config.output)?;

    progress.start("Synthesizing speech", (speakers.len() * config.utterances) as u64);
    let threads = config.threads.clamp(1, speakers.len());
    let share = |first: usize| {
        let mine = speakers.iter().skip(first).step_by(threads);
        mine.map(|speaker| speak::speaker(config, speaker, staging.path(), progress)).collect()
    };
    let shares: Vec<Result<Vec<speak::Spoken>, SynthesizeError>> = std::thread::scope(|scope| {
        let share = &share;
        let handles: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, _>| {
            handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        handles.into_iter().map(join).collect()
    });
    let mut spoken: Vec<speak::Spoken> =
        shares.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    spoken.sort_by(|a, b| a.speaker.cmp(&b.speaker));
    progress.finish();

    let report = Report {
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

/// Who speaks, in the form LibriSpeech has.
fn table(speakers: &[Speaker], spoken: &[speak::Spoken]) -> String {
    let row = |speaker: &Speaker| {
        let mine = spoken.iter().find(|spoken| spoken.speaker == speaker.id);
        let minutes = mine.map_or(0.0, |spoken| spoken.seconds / 60.0);
        let (id, sex, subset, voice) = (&speaker.id, speaker.sex, &speaker.subset, &speaker.voice);
        format!("{id} | {sex} | {subset} | {minutes:.2} | {voice}\n")
    };
    let head = ";ID | SEX | SUBSET | MINUTES | NAME (all synthetic)\n".to_owned();
    std::iter::once(head).chain(speakers.iter().map(row)).collect()
}

fn check(config: &Config) -> Result<(), SynthesizeError> {
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
