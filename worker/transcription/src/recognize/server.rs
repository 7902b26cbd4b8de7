//! Recognition by a server of the site's own. It may use the protocol of OpenAI's transcriptions (vLLM, LocalAI, Speaches),
//! that of whisper.cpp's example server, or that of vosk-server.
//!
//! The server receives unmodified recordings. So it must be on this machine or in a private network ([`PrivateHost`]); over a
//! network the client uses TLS. To add a protocol: add a variant of [`ServerProtocol`], its request, and a captured answer as
//! a test.

mod answer;
pub mod vosk;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::RequestBuilder;
use reqwest::multipart::{Form, Part};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::{RecognizerError, SpeechRecognizer, check_length, check_times};
use crate::piece::Recognition;
use crate::private_host::PrivateHost;
use crate::wav;
use crate::web::{self, WebError};

/// Largest accepted answer, in bytes: a minute of speech has a few thousand.
pub const LARGEST: usize = 4 << 20;
/// Permitted time limits of an answer, in seconds.
const SECONDS: std::ops::RangeInclusive<u32> = 1..=600;
/// Permitted number of concurrent requests.
const REQUESTS: std::ops::RangeInclusive<usize> = 1..=256;
/// Longest model name, language or key, in bytes.
const LONGEST_SETTING: usize = 4_096;

/// The protocol of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServerProtocol {
    /// `POST {url}/v1/audio/transcriptions`, `response_format=verbose_json` with the times of words.
    OpenAi,
    /// `POST {url}/inference`, as in the example server of whisper.cpp.
    WhisperCpp,
    /// A WebSocket at `{url}`, as in vosk-server: the sound is sent in messages.
    Vosk,
}

/// Configuration of a server.
#[derive(Clone)]
pub struct ServerConfig {
    /// The address, without the protocol's own path: `http://127.0.0.1:8080`, or `https://` in a private network. With
    /// [`ServerProtocol::Vosk`], `ws://` and `wss://` are the same.
    pub url: String,
    /// The protocol.
    pub protocol: ServerProtocol,
    /// The model, where the server has several; `whisper-1` if absent and required. Never with [`ServerProtocol::Vosk`].
    pub model: Option<String>,
    /// The spoken language, as the server names it (`en`); if absent, the server detects it. With [`ServerProtocol::Vosk`] the model determines it.
    pub language: Option<String>,
    /// Bearer token for the server.
    pub key: Option<Zeroizing<String>>,
    /// Time limit of an answer, in seconds, 1 to 600.
    pub seconds: u32,
    /// Concurrent requests, 1 to 256.
    pub requests: usize,
}

/// A server of the site's own.
pub struct RecognizerServer {
    name: String,
    http: reqwest::Client,
    place: PrivateHost,
    limit: Duration,
    config: ServerConfig,
    places: Semaphore,
}

impl RecognizerServer {
    /// Resolves the server's address, and accepts it if it is on this machine or in a private network. Sends nothing.
    ///
    /// # Errors
    /// [`RecognizerError::Setting`] with the field and its permitted values.
    pub async fn find(config: ServerConfig) -> Result<Self, RecognizerError> {
        check(&config)?;
        let url = match config.protocol {
            ServerProtocol::OpenAi | ServerProtocol::WhisperCpp => config.url.clone(),
            ServerProtocol::Vosk => vosk::http(&config.url),
        };
        let host = tokio::task::spawn_blocking(move || PrivateHost::find(&url)).await;
        let place = host
            .map_err(|_| RecognizerError::Failed("its name was not looked up".to_owned()))?
            .map_err(|error| RecognizerError::Setting { field: "url", reason: error.to_string() })?;
        let limit = Duration::from_secs(u64::from(config.seconds));
        let http = place.client(limit).map_err(RecognizerError::Web)?;
        let model = config.model.as_deref().unwrap_or("default model");
        let name = match config.protocol {
            ServerProtocol::OpenAi => format!("server of the site, OpenAI protocol, {model}"),
            ServerProtocol::WhisperCpp => format!("server of the site, whisper.cpp, {model}"),
            ServerProtocol::Vosk => "server of the site, vosk-server".to_owned(),
        };
        let places = Semaphore::new(config.requests);
        Ok(Self { name, http, place, limit, config, places })
    }

    async fn request_words(&self, audio: &[f32]) -> Result<Recognition, RecognizerError> {
        let model = self.config.model.clone();
        match self.config.protocol {
            ServerProtocol::OpenAi => {
                let form = self.form(audio).map_err(RecognizerError::Web)?;
                let model = model.unwrap_or_else(|| "whisper-1".to_owned());
                let form = form.text("model", model).text("timestamp_granularities[]", "word");
                answer::read(&self.post("v1/audio/transcriptions", form).await?)
            }
            ServerProtocol::WhisperCpp => {
                let form = self.form(audio).map_err(RecognizerError::Web)?;
                let form = match model {
                    Some(model) => form.text("model", model),
                    None => form,
                };
                answer::read(&self.post("inference", form).await?)
            }
            ServerProtocol::Vosk => {
                let request = self.keyed(self.http.get(self.place.address().url()));
                let outcome = tokio::time::timeout(self.limit, vosk::transcribe(request, audio)).await;
                outcome.map_err(|late| RecognizerError::Web(WebError::Late(late.into())))?
            }
        }
    }

    /// Returns the form that all servers receive.
    fn form(&self, audio: &[f32]) -> Result<Form, WebError> {
        let file = Part::bytes(wav::write(audio)).file_name("audio.wav").mime_str("audio/wav")?;
        let form = Form::new().part("file", file).text("response_format", "verbose_json").text("temperature", "0");
        Ok(match &self.config.language {
            Some(language) => form.text("language", language.clone()),
            None => form,
        })
    }

    fn keyed(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.config.key {
            Some(key) => request.bearer_auth(key.as_str()),
            None => request,
        }
    }

    async fn post(&self, path: &str, form: Form) -> Result<Vec<u8>, RecognizerError> {
        let web = |error| RecognizerError::Web(error);
        let request = self.keyed(self.http.post(self.place.address().join(path)).multipart(form));
        let answer = request.send().await.map_err(|error| web(error.into()))?;
        match answer.status().as_u16() {
            200 => web::body(answer, LARGEST).await.map_err(web),
            status => Err(refused(status)),
        }
    }
}

#[async_trait]
impl SpeechRecognizer for RecognizerServer {
    fn name(&self) -> &str {
        &self.name
    }

    async fn transcribe(&self, audio: &[f32]) -> Result<Recognition, RecognizerError> {
        let seconds = check_length(audio)?;
        let closed = |_| RecognizerError::Failed("the recognizer was stopped".to_owned());
        let _place = self.places.acquire().await.map_err(closed)?;
        check_times(self.request_words(audio).await?, seconds)
    }
}

/// Returns the error for a status other than success.
fn refused(status: u16) -> RecognizerError {
    let remedy = match status {
        401 | 403 => "give its key as `key`",
        101 | 200 | 404 | 405 | 426 => "is `protocol` the one it speaks, and `url` its address without the path?",
        400 | 422 => "is `model` one it has, and `language` one it knows?",
        408 | 429 | 503 => "it is busy: lower `requests`, or try again",
        300..=399 => "it sends elsewhere, which is not followed: give that address as `url`",
        _ => "look at its own log",
    };
    RecognizerError::Status { status, remedy }
}

fn check(config: &ServerConfig) -> Result<(), RecognizerError> {
    let wrong = |field, reason: String| Err(RecognizerError::Setting { field, reason });
    if !SECONDS.contains(&config.seconds) {
        return wrong(
            "seconds",
            format!("{}: choose between {} and {}", config.seconds, SECONDS.start(), SECONDS.end()),
        );
    }
    if !REQUESTS.contains(&config.requests) {
        let (least, most) = (REQUESTS.start(), REQUESTS.end());
        return wrong("requests", format!("{}: choose between {least} and {most}", config.requests));
    }
    if config.protocol == ServerProtocol::Vosk && config.model.is_some() {
        return wrong("model", "vosk-server has the one that it was started with: leave it out".to_owned());
    }
    let texts = [
        ("model", config.model.as_deref()),
        ("language", config.language.as_deref()),
        ("key", config.key.as_ref().map(|key| key.as_str())),
    ];
    for (field, text) in texts {
        let odd =
            |text: &str| text.is_empty() || text.len() > LONGEST_SETTING || !text.chars().all(|c| c.is_ascii_graphic());
        if text.is_some_and(odd) {
            return wrong(
                field,
                format!("write 1 to {LONGEST_SETTING} visible ASCII characters without spaces, or leave it out"),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
