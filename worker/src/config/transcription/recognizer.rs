//! `[transcription.recognizer]`: the recognizer of unmodified recordings, a program here, a server of the site's own, or
//! a model that a job trained.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use super::model::{TrainedModel, TrainedModelError};
use crate::speech::transcribe::provider::key::{KeyError, ProviderKey};
use crate::speech::transcribe::recognize::pocketsphinx::PocketSphinx;
use crate::speech::transcribe::recognize::pool::RecognizerPool;
use crate::speech::transcribe::recognize::server::{RecognizerServer, ServerConfig, ServerProtocol};
use crate::speech::transcribe::recognize::{RecognizerError, SpeechRecognizer};

/// The configured recognizer of the site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum RecognizerSettings {
    /// PocketSphinx, as a Python package.
    Pocketsphinx {
        /// A Python interpreter with that package.
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
        /// The number of concurrent pieces, each in a process, 1 to 64.
        #[serde(default = "default_concurrency")]
        processes: usize,
        /// The longest time for a piece, seconds, 1 to 600.
        #[serde(default = "default_seconds")]
        seconds: u32,
    },
    /// A server on this machine or in a private network.
    Server {
        /// The server's address; for `vosk` also with `ws` or `wss`.
        url: String,
        /// The protocol: `open_ai`, `whisper_cpp` or `vosk`.
        protocol: ServerProtocol,
        /// The model; `vosk` has its own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The file with its bearer token, relative to the site's folder, 0600.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key_file: Option<PathBuf>,
        /// The number of concurrent requests, 1 to 64.
        #[serde(default = "default_concurrency")]
        requests: usize,
        /// The longest wait for an answer, seconds, 1 to 600.
        #[serde(default = "default_seconds")]
        seconds: u32,
    },
    /// A model that a job trained, in this process, one piece at a time.
    Model(TrainedModel),
}

/// The reason for a missing recognizer.
#[derive(Debug, thiserror::Error)]
pub enum RecognizerSetupError {
    /// The recognizer does not start.
    #[error("transcription.recognizer: {0}")]
    Recognizer(#[from] RecognizerError),
    /// The key failed.
    #[error("transcription.recognizer: {0}")]
    Key(#[from] KeyError),
    /// The trained model failed.
    #[error("transcription.recognizer: {0}")]
    Model(#[from] TrainedModelError),
    /// There are no threads.
    #[error("cannot start a runtime for the recognizer")]
    Runtime(#[source] std::io::Error),
    /// The configured recognizer has no known kind.
    #[error("the recognizer is neither a program nor a server")]
    Neither,
}

impl RecognizerSettings {
    /// Starts the recognizer for speech in `language` (ISO 639-1). It blocks, so call it outside of a runtime's
    /// threads. `site` is the site's folder.
    ///
    /// # Errors
    /// [`RecognizerSetupError`] with the remedy.
    pub fn start_pool(&self, site: &Path, language: &str) -> Result<RecognizerPool, RecognizerSetupError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(RecognizerSetupError::Runtime)?;
        let recognizer: Box<dyn SpeechRecognizer> = if let Some((program, processes)) = self.program() {
            Box::new(program.start(processes)?)
        } else if let Some(model) = self.model() {
            Box::new(model.open(site)?)
        } else {
            let server = self.server(site, language)?.ok_or(RecognizerSetupError::Neither)?;
            Box::new(runtime.block_on(RecognizerServer::find(server))?)
        };
        Ok(RecognizerPool::new(runtime, recognizer, self.at_once()))
    }

    /// Returns the program and its number of processes for PocketSphinx; `None` for another kind.
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
            Self::Server { .. } | Self::Model(_) => None,
        }
    }

    /// Returns the trained model; `None` for another kind.
    pub const fn model(&self) -> Option<&TrainedModel> {
        match self {
            Self::Model(model) => Some(model),
            Self::Pocketsphinx { .. } | Self::Server { .. } => None,
        }
    }

    /// Returns the server for speech in `language`; `None` for another kind. The key is read from the site's folder.
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

    /// Returns the number of pieces that it recognizes at a time.
    pub const fn at_once(&self) -> usize {
        match self {
            Self::Pocketsphinx { processes, .. } => *processes,
            Self::Server { requests, .. } => *requests,
            Self::Model(_) => 1,
        }
    }
}

const fn default_concurrency() -> usize {
    2
}

const fn default_seconds() -> u32 {
    60
}
