//! Recognition with PocketSphinx 5, as a program of its own: its Python package and a script that is part of this program
//! (`pocketsphinx/recognizer.py`), which is given to the interpreter on its command line.
//!
//! The same way as the [aligner](crate::speech::align::pocketsphinx) goes: the script loads the model once and answers each
//! request in a fork of itself, so that a transcript depends on no earlier recording, and a crash or a hang costs one piece;
//! should the interpreter itself fail, it is started again. Nothing that was said stands on a command line or in a file.

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{Recognizer, RecognizerError, believed, length};
use crate::speech::align::process::{Process, Silence};
use crate::speech::transcribe::piece::{Heard, Word};

/// What the interpreter runs.
const SCRIPT: &str = include_str!("pocketsphinx/recognizer.py");
/// How long loading a model may take.
pub(crate) const LOADING: Duration = Duration::from_mins(2);
/// How much later than the script's own clock the interpreter is given up.
const MARGIN: Duration = Duration::from_secs(10);
/// Processes that may be started.
const PROCESSES: std::ops::RangeInclusive<usize> = 1..=256;
/// How to get it.
const REMEDY: &str = "PocketSphinx comes with `python3 -m venv recognizer && recognizer/bin/pip install \
                      pocketsphinx==5.1.1`; then name recognizer/bin/python as the recognizer's command";

/// PocketSphinx, as installed somewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PocketSphinx {
    /// A Python interpreter that has the package `pocketsphinx`.
    pub command: PathBuf,
    /// A folder with an acoustic model; absent, the package's own (US English).
    pub model: Option<PathBuf>,
    /// A pronouncing dictionary in the model's phones; absent, the package's own. What it lacks is never heard.
    pub dictionary: Option<PathBuf>,
    /// A language model over the dictionary's words (ARPA or binary); absent, the package's own.
    pub language_model: Option<PathBuf>,
    /// Seconds that a piece may take, at least 1; ten times its own length if that is more.
    pub seconds: u32,
}

impl PocketSphinx {
    /// With the package's own models, and a minute for a piece.
    pub fn new(command: impl Into<PathBuf>) -> Self {
        Self { command: command.into(), model: None, dictionary: None, language_model: None, seconds: 60 }
    }

    /// Starts it; up to `processes` (1 to 256) will hear at a time, each a process of its own that is started when it is
    /// needed. Waits for the first: not for a thread of the runtime.
    ///
    /// # Errors
    /// [`RecognizerError`] with what to do about it.
    pub fn start(&self, processes: usize) -> Result<Running, RecognizerError> {
        if !PROCESSES.contains(&processes) {
            let reason = format!("{processes}: start between {} and {}", PROCESSES.start(), PROCESSES.end());
            return Err(RecognizerError::Setting { field: "processes", reason });
        }
        let (process, identity) = self.process()?;
        let pool = Pool { program: self.clone(), identity, idle: Mutex::new(vec![process]) };
        Ok(Running { pool: Arc::new(pool), places: Arc::new(Semaphore::new(processes)) })
    }

    fn refused(&self, reason: String) -> RecognizerError {
        RecognizerError::Refused { command: self.command.display().to_string(), reason, remedy: REMEDY }
    }

    fn process(&self) -> Result<(Process, Identity), RecognizerError> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Greeting {
            Ready(Identity),
            Refused(String),
        }
        let Self { model, dictionary, language_model, .. } = self;
        let options = json!({ "model": model, "dictionary": dictionary, "language_model": language_model }).to_string();
        // Isolated: no module from the folder we stand in, none that a variable names.
        let mut command = Command::new(&self.command);
        command.args(["-I", "-c", SCRIPT, &options]);
        let mut process = Process::start(&mut command).map_err(|source| RecognizerError::Missing {
            command: self.command.display().to_string(),
            remedy: REMEDY,
            source,
        })?;
        let said = process.hear(LOADING).map_err(|silence| self.refused(reason(&silence)))?;
        match serde_json::from_slice(&said) {
            Ok(Greeting::Ready(identity)) => Ok((process, identity)),
            Ok(Greeting::Refused(reason)) => Err(self.refused(reason)),
            Err(_) => Err(self.refused("it is no Python interpreter".to_owned())),
        }
    }
}

/// Everything that a transcript depends on besides the sound.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Identity {
    /// Program and version, for people.
    pub program: String,
    /// A digest of program, models and dictionary, hexadecimal: another one hears otherwise.
    pub identity: String,
}

/// A PocketSphinx that was started. Its processes end with it.
#[derive(Clone)]
pub struct Running {
    pool: Arc<Pool>,
    places: Arc<Semaphore>,
}

struct Pool {
    program: PocketSphinx,
    identity: Identity,
    idle: Mutex<Vec<Process>>,
}

impl Running {
    /// What it is.
    pub fn identity(&self) -> &Identity {
        &self.pool.identity
    }
}

#[async_trait]
impl Recognizer for Running {
    fn name(&self) -> &str {
        &self.pool.identity.program
    }

    async fn hear(&self, audio: &[f32]) -> Result<Heard, RecognizerError> {
        let seconds = length(audio)?;
        let allowed = f64::from(self.pool.program.seconds.max(1)).max(10.0 * seconds);
        let question = question(audio, allowed);
        let ended = || RecognizerError::Failed("the recognizer was given up".to_owned());
        let place = Arc::clone(&self.places).acquire_owned().await.map_err(|_| ended())?;
        let pool = Arc::clone(&self.pool);
        let asked = tokio::task::spawn_blocking(move || {
            // Held until the process is idle again, also when nobody waits for the answer any more.
            let _place = place;
            pool.ask(question, MARGIN.saturating_add(Duration::from_secs_f64(allowed)))
        });
        believed(asked.await.map_err(|_| ended())??, seconds)
    }
}

impl Pool {
    fn ask(&self, question: Vec<u8>, limit: Duration) -> Result<Heard, RecognizerError> {
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = idle().pop();
        let mut process = match waiting {
            Some(process) => process,
            None => self.another()?,
        };
        let said = process.ask(question, limit).map_err(|silence| failed(&reason(&silence)))?;
        let answer = serde_json::from_slice(&said).map_err(|_| failed("its answer cannot be read"))?;
        // It kept to the rules: the next piece may be its too.
        idle().push(process);
        match answer {
            Answer::Failed(reason) => Err(failed(&reason)),
            Answer::Words(words) => {
                let word = |(text, start, end, confidence)| Word { text, start, end, confidence: Some(confidence) };
                Ok(Heard { words: words.into_iter().map(word).collect() })
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
enum Answer {
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
