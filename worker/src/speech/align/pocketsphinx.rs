//! Forced alignment with PocketSphinx 5, as a program of its own: its Python package and a script that is part of this
//! program (`pocketsphinx/aligner.py`), which is given to the interpreter on its command line.
//!
//! The script loads the model once and answers each utterance in a fork of itself, so that labels depend on no earlier
//! utterance and a crash or a hang costs one; should the interpreter itself fail, it is started again. Recordings are
//! decoded here and go to it as samples; transcripts never stand on a command line, where others could read them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use super::aligner::{Aligner, AlignerError, Identity, Program, Unaligned};
use super::process::Process;
use super::{Alignment, runs};
use crate::speech::audio::RATE;

/// What the interpreter runs.
const SCRIPT: &str = include_str!("pocketsphinx/aligner.py");
/// How long loading a model may take.
const LOADING: Duration = Duration::from_mins(2);
/// How much later than the script's own clock the interpreter is given up.
const MARGIN: Duration = Duration::from_secs(10);
/// How to get it.
const REMEDY: &str = "PocketSphinx comes with `python3 -m venv aligner && aligner/bin/pip install pocketsphinx==5.1.1`; then \
                      say --aligner-command aligner/bin/python";

/// PocketSphinx, as installed somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PocketSphinx {
    /// A Python interpreter that has the package `pocketsphinx`.
    pub command: PathBuf,
    /// A folder with an acoustic model; absent, the package's own (US English, 5,126 tied states).
    pub model: Option<PathBuf>,
    /// A pronouncing dictionary in the model's phones; absent, the package's own.
    pub dictionary: Option<PathBuf>,
    /// Seconds that an utterance may take, at least 1; its own length if that is more.
    pub seconds: u32,
}

impl PocketSphinx {
    /// With the package's own model and dictionary, and two minutes for an utterance.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self { command: command.into(), model: None, dictionary: None, seconds: 120 }
    }

    fn name(&self) -> String {
        self.command.display().to_string()
    }

    fn refused(&self, reason: String) -> AlignerError {
        AlignerError::Refused { command: self.name(), reason, remedy: REMEDY }
    }

    fn process(&self) -> Result<(Process, Identity), AlignerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Greeting {
            Ready(Identity),
            Refused(String),
        }
        let options = json!({ "model": self.model, "dictionary": self.dictionary }).to_string();
        // Isolated: no module from the folder we stand in, none that a variable names.
        let mut command = Command::new(&self.command);
        command.args(["-I", "-c", SCRIPT, &options]);
        let mut process = Process::start(&mut command).map_err(|source| AlignerError::Missing {
            command: self.name(),
            remedy: REMEDY,
            source,
        })?;
        let said = process.hear(LOADING).map_err(|silence| self.refused(silence.to_string()))?;
        match serde_json::from_slice(&said) {
            Ok(Greeting::Ready(identity)) if (1..=65_536).contains(&identity.classes) => Ok((process, identity)),
            Ok(Greeting::Ready(identity)) => {
                Err(self.refused(format!("its model has {} classes: between 1 and 65536", identity.classes)))
            }
            Ok(Greeting::Refused(reason)) => Err(self.refused(reason)),
            Err(_) => Err(self.refused("it is no Python interpreter".to_owned())),
        }
    }
}

impl Program for PocketSphinx {
    fn start(&self) -> Result<Box<dyn Aligner>, AlignerError> {
        let (process, identity) = self.process()?;
        Ok(Box::new(Running { program: self.clone(), identity, process: Some(process) }))
    }
}

struct Running {
    program: PocketSphinx,
    identity: Identity,
    /// Absent after it failed, until it is needed again.
    process: Option<Process>,
}

impl Aligner for Running {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn align(&mut self, samples: &[f32], text: &str) -> Result<Alignment, Unaligned> {
        let mut process = match self.process.take() {
            Some(process) => process,
            None => self.again()?,
        };
        let seconds = f64::from(self.program.seconds.max(1)).max(samples.len() as f64 / f64::from(RATE));
        let limit = MARGIN.saturating_add(Duration::from_secs_f64(seconds));
        let said =
            process.ask(question(samples, text, seconds), limit).map_err(|silence| failed(silence.to_string()))?;
        let answer = serde_json::from_slice(&said)
            .map_err(|_| failed("the aligner's answer cannot be read: was something else named?".to_owned()))?;
        // It kept to the rules: the next utterance may be its too.
        self.process = Some(process);
        match answer {
            Answer::Unknown(words) => Err(Unaligned::Words(words)),
            Answer::Failed(reason) => Err(failed(reason)),
            Answer::Runs(runs) => {
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

impl Running {
    fn again(&self) -> Result<Process, AlignerError> {
        let (process, identity) = self.program.process()?;
        if identity == self.identity { Ok(process) } else { Err(AlignerError::Changed(self.program.name())) }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Runs(Vec<(u64, u64)>),
    Unknown(Vec<String>),
    Failed(String),
}

fn failed(reason: String) -> Unaligned {
    Unaligned::Failed(reason)
}

/// A line and the samples as 16-bit integers.
fn question(samples: &[f32], text: &str, seconds: f64) -> Vec<u8> {
    let head = json!({ "text": text, "bytes": 2 * samples.len(), "seconds": seconds }).to_string();
    let mut question = head.into_bytes();
    question.push(b'\n');
    question.extend(samples.iter().flat_map(|sample| ((sample * 32_768.0).round() as i16).to_le_bytes()));
    question
}

#[cfg(test)]
mod tests;
