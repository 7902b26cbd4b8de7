//! `[transcription.recognizer]`: who hears recordings as they are, a program here or a server of the site's own.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use crate::speech::transcribe::provider::key::{KeyError, ProviderKey};
use crate::speech::transcribe::recognize::pocketsphinx::PocketSphinx;
use crate::speech::transcribe::recognize::pool::RecognizerPool;
use crate::speech::transcribe::recognize::server::{RecognizerServer, ServerConfig, ServerProtocol};
use crate::speech::transcribe::recognize::{RecognizerError, SpeechRecognizer};

/// The recognizer at the site, as configured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Recognizer {
    /// PocketSphinx, as a Python package.
    Pocketsphinx {
        /// A Python interpreter that has it.
        command: PathBuf,
        /// A folder with an acoustic model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<PathBuf>,
        /// A pronouncing dictionary.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dictionary: Option<PathBuf>,
        /// A language model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        language_model: Option<PathBuf>,
        /// Pieces heard at a time, each by a process, 1 to 64.
        #[serde(default = "two")]
        processes: usize,
        /// Seconds that a piece may take, 1 to 600.
        #[serde(default = "minute")]
        seconds: u32,
    },
    /// A server on this machine or in a private network.
    Server {
        /// Its address; for `vosk` with `ws` or `wss` as well.
        url: String,
        /// How it is asked: `open_ai`, `whisper_cpp` or `vosk`.
        protocol: ServerProtocol,
        /// The model; `vosk` has its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The file that holds its bearer token, relative to the site's folder, 0600.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_file: Option<PathBuf>,
        /// Requests at a time, 1 to 64.
        #[serde(default = "two")]
        requests: usize,
        /// Seconds that an answer may take, 1 to 600.
        #[serde(default = "minute")]
        seconds: u32,
    },
}

/// Why there is no recognizer.
#[derive(Debug, thiserror::Error)]
pub enum EarsError {
    /// It does not start.
    #[error("transcription.recognizer: {0}")]
    Recognizer(#[from] RecognizerError),
    /// The key.
    #[error("transcription.recognizer: {0}")]
    Key(#[from] KeyError),
    /// No threads.
    #[error("this machine cannot wait for a recognizer")]
    Runtime(#[source] std::io::Error),
    /// Not one of those that there are.
    #[error("the recognizer is neither program nor server")]
    Neither,
}

impl Recognizer {
    /// It, started, for what is spoken in `language` (ISO 639-1). Waits: not for a thread of a runtime. `site` is the site's folder.
    ///
    /// # Errors
    /// [`EarsError`] with what to do about it.
    pub fn ears(&self, site: &Path, language: &str) -> Result<RecognizerPool, EarsError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(EarsError::Runtime)?;
        let recognizer: Box<dyn SpeechRecognizer> = if let Some((program, processes)) = self.program() {
            Box::new(program.start(processes)?)
        } else {
            let server = self.server(site, language)?.ok_or(EarsError::Neither)?;
            Box::new(runtime.block_on(RecognizerServer::find(server))?)
        };
        Ok(RecognizerPool::new(runtime, recognizer, self.at_once()))
    }

    /// What is to be started, for PocketSphinx; `None` for a server.
    pub fn program(&self) -> Option<(PocketSphinx, usize)> {
        match self {
            Self::Pocketsphinx { command, model, dictionary, language_model, processes, seconds } => {
                let program = PocketSphinx {
                    command: command.clone(),
                    model: model.clone(),
                    dictionary: dictionary.clone(),
                    language_model: language_model.clone(),
                    seconds: *seconds,
                };
                Some((program, *processes))
            }
            Self::Server { .. } => None,
        }
    }

    /// What is to be asked, for a server that hears `language`; `None` for a program. The key is read from the site's folder.
    ///
    /// # Errors
    /// [`KeyError`] when its key cannot be read.
    pub fn server(&self, site: &Path, language: &str) -> Result<Option<ServerConfig>, KeyError> {
        let Self::Server { url, protocol, model, key_file, requests, seconds } = self else { return Ok(None) };
        let key = key_file.as_ref().map(|file| ProviderKey::from_file(&site.join(file))).transpose()?;
        Ok(Some(ServerConfig {
            url: url.clone(),
            protocol: *protocol,
            model: model.clone(),
            language: Some(language.to_owned()),
            key: key.map(ProviderKey::into_secret),
            seconds: *seconds,
            requests: *requests,
        }))
    }

    /// How many pieces it hears at a time.
    pub const fn at_once(&self) -> usize {
        match self {
            Self::Pocketsphinx { processes, .. } => *processes,
            Self::Server { requests, .. } => *requests,
        }
    }
}

const fn two() -> usize {
    2
}

const fn minute() -> u32 {
    60
}
