//! Recognition with PocketSphinx 5 in a separate process: its Python package, and a script that is part of this program
//! (`pocketsphinx/recognizer.py`) and is passed to the interpreter on its command line.
//!
//! It works as the [aligner](undertone_worker_speech::align::pocketsphinx) does. The script loads the model once and answers
//! each request in a fork of itself, so a transcript does not depend on earlier recordings, and a crash or a hang affects one
//! piece. If the interpreter itself fails, it is started again. No spoken word appears on a command line or in a file.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{RecognizerError, SpeechRecognizer, check_length, check_times};
use crate::piece::{Recognition, TimedWord};
use undertone_worker_speech::align::process::{Process, Silence};
use undertone_worker_speech::sandbox::Start;

/// The script that the interpreter runs.
const SCRIPT: &str = include_str!("pocketsphinx/recognizer.py");
/// Time limit for loading a model.
pub const LOADING: Duration = Duration::from_mins(2);
/// Time after the script's own limit at which the interpreter counts as hung.
const MARGIN: Duration = Duration::from_secs(10);
/// Permitted number of processes.
const PROCESSES: std::ops::RangeInclusive<usize> = 1..=256;
/// Remedy for a failed start.
const REMEDY: &str = "PocketSphinx comes with `python3 -m venv recognizer && recognizer/bin/pip install \
                      pocketsphinx==5.1.1`; then name recognizer/bin/python as the recognizer's command";

/// A PocketSphinx installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PocketSphinx {
    /// A Python interpreter that has the package `pocketsphinx`.
    pub command: PathBuf,
    /// A folder with an acoustic model; `None` for the package's own (US English).
    pub model: Option<PathBuf>,
    /// A pronouncing dictionary in the model's phones; `None` for the package's own. Other words are never recognized.
    pub dictionary: Option<PathBuf>,
    /// A language model over the dictionary's words (ARPA or binary); `None` for the package's own.
    pub language_model: Option<PathBuf>,
    /// Time limit for a piece, in seconds, at least 1; ten times its own length if that is more.
    pub seconds: u32,
}

impl PocketSphinx {
    /// Returns an installation with the package's own models and a limit of one minute for a piece.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self { command: command.into(), model: None, dictionary: None, language_model: None, seconds: 60 }
    }

    /// Starts the recognizer. Up to `processes` (1 to 256) requests run at a time, each in its own process, which is started when
    /// needed. Waits for the first process, so it must not run on a thread of the runtime.
    ///
    /// # Errors
    /// [`RecognizerError`] with a remedy.
    pub fn start(&self, processes: usize) -> Result<PocketSphinxPool, RecognizerError> {
        if !PROCESSES.contains(&processes) {
            let reason = format!("{processes}: start between {} and {}", PROCESSES.start(), PROCESSES.end());
            return Err(RecognizerError::Setting { field: "processes", reason });
        }
        let (process, identity) = self.process()?;
        let pool = ProcessPool { program: self.clone(), identity, idle: Mutex::new(vec![process]) };
        Ok(PocketSphinxPool { pool: Arc::new(pool), places: Arc::new(Semaphore::new(processes)) })
    }

    fn refused(&self, reason: String) -> RecognizerError {
        RecognizerError::Refused { command: self.command.display().to_string(), reason, remedy: REMEDY }
    }

    fn process(&self) -> Result<(Process, ModelIdentity), RecognizerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum ProgramGreeting {
            Ready(ModelIdentity),
            Refused(String),
        }
        let Self { model, dictionary, language_model, .. } = self;
        let options = json!({ "model": model, "dictionary": dictionary, "language_model": language_model }).to_string();
        let models = [model, dictionary, language_model].into_iter().flatten().cloned();
        // Isolated mode: Python imports no module from the current folder or from environment variables.
        let program = Start::new(&self.command).args(["-I", "-c", SCRIPT, &options]).read(models);
        let mut process = Process::start(program).map_err(|source| RecognizerError::Missing {
            command: self.command.display().to_string(),
            remedy: REMEDY,
            source,
        })?;
        let greeting = process.hear(LOADING).map_err(|silence| self.refused(reason(&silence)))?;
        match serde_json::from_slice(&greeting) {
            Ok(ProgramGreeting::Ready(identity)) => Ok((process, identity)),
            Ok(ProgramGreeting::Refused(reason)) => Err(self.refused(reason)),
            Err(_) => Err(self.refused("it is no Python interpreter".to_owned())),
        }
    }
}

/// Everything besides the sound on which a transcript depends.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ModelIdentity {
    /// Program and version, for display.
    pub program: String,
    /// A digest of program, models and dictionary, hexadecimal. Another digest may give other transcripts.
    pub identity: String,
}

/// A started PocketSphinx. Dropping it ends its processes.
#[derive(Clone)]
pub struct PocketSphinxPool {
    pool: Arc<ProcessPool>,
    places: Arc<Semaphore>,
}

struct ProcessPool {
    program: PocketSphinx,
    identity: ModelIdentity,
    idle: Mutex<Vec<Process>>,
}

impl PocketSphinxPool {
    /// Returns the identity of the program and its models.
    pub fn identity(&self) -> &ModelIdentity {
        &self.pool.identity
    }
}

#[async_trait]
impl SpeechRecognizer for PocketSphinxPool {
    fn name(&self) -> &str {
        &self.pool.identity.program
    }

    async fn transcribe(&self, audio: &[f32]) -> Result<Recognition, RecognizerError> {
        let seconds = check_length(audio)?;
        let allowed = f64::from(self.pool.program.seconds.max(1)).max(10.0 * seconds);
        let question = question(audio, allowed);
        let ended = || RecognizerError::Failed("the recognizer was stopped".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ended())?;
        let pool = Arc::clone(&self.pool);
        let answer = tokio::task::spawn_blocking(move || {
            // The permit is held until the process is idle again, also after the caller stopped waiting.
            let _place = place;
            pool.ask(question, MARGIN.saturating_add(Duration::from_secs_f64(allowed)))
        });
        check_times(answer.await.map_err(|_| ended())??, seconds)
    }
}

impl ProcessPool {
    fn ask(&self, question: Vec<u8>, limit: Duration) -> Result<Recognition, RecognizerError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let mut process = match waiting {
            Some(process) => process,
            None => self.another()?,
        };
        let reply = process.ask(question, limit).map_err(|silence| failed(&reason(&silence)))?;
        let answer = serde_json::from_slice(&reply).map_err(|_| failed("its answer cannot be read"))?;
        // The process followed the protocol, so it can take the next piece.
        idle().push(process);
        match answer {
            ProgramAnswer::Failed(reason) => Err(failed(&reason)),
            ProgramAnswer::Words(words) => {
                let word =
                    |(text, start, end, confidence)| TimedWord { text, start, end, confidence: Some(confidence) };
                Ok(Recognition { words: words.into_iter().map(word).collect() })
            }
        }
    }

    fn another(&self) -> Result<Process, RecognizerError> {
        let (process, identity) = self.program.process()?;
        if identity == self.identity {
            Ok(process)
        } else {
            Err(self.program.refused("it changed while it was used".to_owned()))
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum ProgramAnswer {
    Words(Vec<(String, f64, f64, f64)>),
    Failed(String),
}

fn failed(reason: &str) -> RecognizerError {
    RecognizerError::Failed(format!("the recognizer failed: {reason}"))
}

fn reason(silence: &Silence) -> String {
    match silence {
        Silence::Late(seconds) => format!("no answer within {seconds} s"),
        Silence::Ended(said) => format!("it crashed{said}"),
    }
}

/// A line and the samples as 16-bit integers.
fn question(samples: &[f32], seconds: f64) -> Vec<u8> {
    let mut question = json!({ "bytes": 2 * samples.len(), "seconds": seconds }).to_string().into_bytes();
    question.push(b'\n');
    question.extend(samples.iter().flat_map(|sample| ((sample * 32_768.0).round() as i16).to_le_bytes()));
    question
}

#[cfg(test)]
mod tests;
