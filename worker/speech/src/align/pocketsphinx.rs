//! Forced alignment with PocketSphinx 5 as a separate process: its Python package and a script that this program
//! contains (`pocketsphinx/aligner.py`) and passes to the interpreter on its command line.
//!
//! The script loads the model once and aligns each utterance in a fork of itself. So labels depend on no earlier
//! utterance, and a crash or a hang affects a single utterance. If the interpreter itself fails, it is restarted.
//! Recordings are decoded here and sent as samples. Transcripts are never on a command line, where other users could
//! read them.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::aligner::{AlignFailure, Aligner, AlignerError, AlignerIdentity, AlignerProgram};
use super::alignment::Alignment;
use super::process::Process;
use super::runs;
use crate::audio::resample::RATE;
use crate::sandbox::Start;

/// The script that the interpreter runs.
const SCRIPT: &str = include_str!("pocketsphinx/aligner.py");
/// Maximum time to load a model.
const LOADING: Duration = Duration::from_mins(2);
/// Time after the script's own limit before the interpreter is ended.
const MARGIN: Duration = Duration::from_secs(10);
/// How to install it.
const REMEDY: &str = "PocketSphinx comes with `python3 -m venv aligner && aligner/bin/pip install pocketsphinx==5.1.1`; then \
                      say --aligner-command aligner/bin/python";

/// An installation of PocketSphinx.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PocketSphinx {
    /// A Python interpreter with the package `pocketsphinx`.
    pub command: PathBuf,
    /// A folder with an acoustic model; `None` for the package's own (US English, 5,126 tied states).
    pub model: Option<PathBuf>,
    /// A pronouncing dictionary in the model's phones; `None` for the package's own.
    pub dictionary: Option<PathBuf>,
    /// Time limit for an utterance in seconds, at least 1; raised to the utterance's length.
    pub seconds: u32,
}

impl PocketSphinx {
    /// Returns an installation with the package's own model and dictionary, and two minutes per utterance.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self { command: command.into(), model: None, dictionary: None, seconds: 120 }
    }

    fn name(&self) -> String {
        self.command.display().to_string()
    }

    fn refused(&self, reason: String) -> AlignerError {
        AlignerError::Refused { command: self.name(), reason, remedy: REMEDY }
    }

    fn process(&self) -> Result<(Process, AlignerIdentity), AlignerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum AlignerGreeting {
            Ready(AlignerIdentity),
            Refused(String),
        }
        let options = json!({ "model": self.model, "dictionary": self.dictionary }).to_string();
        let models = [&self.model, &self.dictionary].into_iter().flatten().cloned();
        // Isolated mode: no modules from the current folder or from environment variables.
        let program = Start::new(&self.command).args(["-I", "-c", SCRIPT, &options]).read(models);
        let mut process = Process::start(program).map_err(|source| AlignerError::Missing {
            command: self.name(),
            remedy: REMEDY,
            source,
        })?;
        let reply = process.hear(LOADING).map_err(|silence| self.refused(silence.to_string()))?;
        match serde_json::from_slice(&reply) {
            Ok(AlignerGreeting::Ready(identity)) if (1..=65_536).contains(&identity.classes) => Ok((process, identity)),
            Ok(AlignerGreeting::Ready(identity)) => {
                Err(self.refused(format!("its model has {} classes: between 1 and 65536", identity.classes)))
            }
            Ok(AlignerGreeting::Refused(reason)) => Err(self.refused(reason)),
            Err(_) => Err(self.refused("it is no Python interpreter".to_owned())),
        }
    }
}

impl AlignerProgram for PocketSphinx {
    fn start(&self) -> Result<Box<dyn Aligner>, AlignerError> {
        let (process, identity) = self.process()?;
        Ok(Box::new(RunningAligner { program: self.clone(), identity, process: Some(process) }))
    }
}

struct RunningAligner {
    program: PocketSphinx,
    identity: AlignerIdentity,
    /// Absent after a failure, until the next utterance restarts it.
    process: Option<Process>,
}

impl Aligner for RunningAligner {
    fn identity(&self) -> &AlignerIdentity {
        &self.identity
    }

    fn align(&mut self, samples: &[f32], text: &str) -> Result<Alignment, AlignFailure> {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => self.again()?,
        };
        let seconds = f64::from(self.program.seconds.max(1)).max(samples.len() as f64 / f64::from(RATE));
        let limit = MARGIN.saturating_add(Duration::from_secs_f64(seconds));
        let reply =
            process.ask(question(samples, text, seconds), limit).map_err(|silence| failed(silence.to_string()))?;
        let answer = serde_json::from_slice(&reply)
            .map_err(|_| failed("the aligner's answer cannot be read: was something else named?".to_owned()))?;
        // The reply was well-formed, so the process is reused for the next utterance.
        self.process = Some(process);
        match answer {
            AlignReply::Unknown(words) => Err(AlignFailure::Words(words)),
            AlignReply::Failed(reason) => Err(failed(reason)),
            AlignReply::Runs(runs) => {
                let alignment = runs::checked(runs).map_err(failed)?;
                let classes = self.identity.classes;
                match alignment.runs.iter().find(|(class, _)| usize::from(*class) >= classes) {
                    Some((class, _)) => Err(failed(format!("class {class} of a model with {classes}"))),
                    None => Ok(alignment),
                }
            }
        }
    }
}

impl RunningAligner {
    fn again(&self) -> Result<Process, AlignerError> {
        let (process, identity) = self.program.process()?;
        if identity == self.identity { Ok(process) } else { Err(AlignerError::Changed(self.program.name())) }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum AlignReply {
    Runs(Vec<(u64, u64)>),
    Unknown(Vec<String>),
    Failed(String),
}

fn failed(reason: String) -> AlignFailure {
    AlignFailure::Failed(reason)
}

/// Encodes a request: a line and the samples as 16-bit integers.
fn question(samples: &[f32], text: &str, seconds: f64) -> Vec<u8> {
    let head = json!({ "text": text, "bytes": 2 * samples.len(), "seconds": seconds }).to_string();
    let mut question = head.into_bytes();
    question.push(b'\n');
    question.extend(samples.iter().flat_map(|sample| ((sample * 32_768.0).round() as i16).to_le_bytes()));
    question
}

#[cfg(test)]
mod tests;
