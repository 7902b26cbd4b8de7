//! Recognition by a server of the site's own: whatever speaks the protocol of OpenAI's transcriptions (vLLM, LocalAI,
//! Speaches), that of whisper.cpp's example server, or that of vosk-server.
//!
//! It hears recordings as they are. So it must be on this machine or in a private network ([`Inside`]). Over a network it is
//! asked with TLS. To add a protocol: a variant of [`Protocol`], its request, and a captured answer as a test.

mod answer;
pub(crate) mod vosk;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::RequestBuilder;
use reqwest::multipart::{Form, Part};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::{Recognizer, RecognizerError, believed, length};
use crate::speech::transcribe::inside::Inside;
use crate::speech::transcribe::piece::Heard;
use crate::speech::transcribe::wav;
use crate::speech::transcribe::web::{self, WebError};

/// Largest answer that is read, bytes: a minute of speech has a few thousand.
pub(crate) const LARGEST: usize = 4 << 20;
/// Seconds that an answer may take.
const SECONDS: std::ops::RangeInclusive<u32> = 1..=600;
/// Requests at a time.
const REQUESTS: std::ops::RangeInclusive<usize> = 1..=256;
/// The longest model name, language or key, bytes.
const LONGEST_SETTING: usize = 4_096;

/// How a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// `POST {url}/v1/audio/transcriptions`, `response_format=verbose_json` with the times of words.
    OpenAi,
    /// `POST {url}/inference`, as the example server of whisper.cpp has it.
    WhisperCpp,
    /// A websocket at `{url}`, as vosk-server has it: the sound goes over it in pieces.
    Vosk,
}

/// A server, not asked yet.
#[derive(Clone)]
pub struct Config {
    /// Its address, without the protocol's own path: `http://127.0.0.1:8080`, or `https://` in a private network. With
    /// [`Protocol::Vosk`], `ws://` and `wss://` are the same.
    pub url: String,
    /// How it is asked.
    pub protocol: Protocol,
    /// The model, where it has several; `whisper-1` if absent and the protocol asks for one. Never with [`Protocol::Vosk`].
    pub model: Option<String>,
    /// The language spoken, as the server names it (`en`); absent, it finds out. That of [`Protocol::Vosk`] is its model's.
    pub language: Option<String>,
    /// What it wants as a bearer token.
    pub key: Option<Zeroizing<String>>,
    /// Seconds that an answer may take, 1 to 600.
    pub seconds: u32,
    /// Requests at a time, 1 to 256.
    pub requests: usize,
}

/// A server of the site's own.
pub struct Server {
    name: String,
    http: reqwest::Client,
    place: Inside,
    limit: Duration,
    config: Config,
    places: Semaphore,
}

impl Server {
    /// Looks up where it is, and believes it if that is on this machine or in a private network. Sends nothing yet.
    ///
    /// # Errors
    /// [`RecognizerError::Setting`] with the field and what it should be.
    pub async fn find(config: Config) -> Result<Self, RecognizerError> {
        check(&config)?;
        let url = match config.protocol {
            Protocol::OpenAi | Protocol::WhisperCpp => config.url.clone(),
            Protocol::Vosk => vosk::http(&config.url),
        };
        let found = tokio::task::spawn_blocking(move || Inside::find(&url)).await;
        let place = found
            .map_err(|_| RecognizerError::Failed("its name was not looked up".to_owned()))?
            .map_err(|error| RecognizerError::Setting { field: "url", reason: error.to_string() })?;
        let limit = Duration::from_secs(u64::from(config.seconds));
        let http = place.client(limit).map_err(RecognizerError::Web)?;
        let model = config.model.as_deref().unwrap_or("default model");
        let name = match config.protocol {
            Protocol::OpenAi => format!("server of the site, OpenAI protocol, {model}"),
            Protocol::WhisperCpp => format!("server of the site, whisper.cpp, {model}"),
            Protocol::Vosk => "server of the site, vosk-server".to_owned(),
        };
        let places = Semaphore::new(config.requests);
        Ok(Self { name, http, place, limit, config, places })
    }

    async fn heard(&self, audio: &[f32]) -> Result<Heard, RecognizerError> {
        let model = self.config.model.clone();
        match self.config.protocol {
            Protocol::OpenAi => {
                let form = self.form(audio).map_err(RecognizerError::Web)?;
                let model = model.unwrap_or_else(|| "whisper-1".to_owned());
                let form = form.text("model", model).text("timestamp_granularities[]", "word");
                answer::read(&self.post("v1/audio/transcriptions", form).await?)
            }
            Protocol::WhisperCpp => {
                let form = self.form(audio).map_err(RecognizerError::Web)?;
                let form = match model {
                    Some(model) => form.text("model", model),
                    None => form,
                };
                answer::read(&self.post("inference", form).await?)
            }
            Protocol::Vosk => {
                let request = self.keyed(self.http.get(self.place.address().url()));
                let heard = tokio::time::timeout(self.limit, vosk::hear(request, audio)).await;
                heard.map_err(|late| RecognizerError::Web(WebError::Late(late.into())))?
            }
        }
    }

    /// What every server of a form is sent.
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
        let request = self.keyed(self.http.post(self.place.address().at(path)).multipart(form));
        let answer = request.send().await.map_err(|error| web(error.into()))?;
        match answer.status().as_u16() {
            200 => web::body(answer, LARGEST).await.map_err(web),
            status => Err(refused(status)),
        }
    }
}

#[async_trait]
impl Recognizer for Server {
    fn name(&self) -> &str {
        &self.name
    }

    async fn hear(&self, audio: &[f32]) -> Result<Heard, RecognizerError> {
        let seconds = length(audio)?;
        let gone = |_| RecognizerError::Failed("the recognizer was given up".to_owned());
        let _place = self.places.acquire().await.map_err(gone)?;
        believed(self.heard(audio).await?, seconds)
    }
}

/// A status that is not the one of an answer.
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

fn check(config: &Config) -> Result<(), RecognizerError> {
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
    if config.protocol == Protocol::Vosk && config.model.is_some() {
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
