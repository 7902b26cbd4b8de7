//! Recognition by a server of the site's own: whatever speaks the protocol of OpenAI's transcriptions (vLLM, LocalAI,
//! Speaches, servers around Vosk) or that of whisper.cpp's example server.
//!
//! It hears recordings as they are. So it must be on this machine or in a private network ([`Inside`]). Over a network it is
//! asked with TLS. To add a protocol: a variant of [`Protocol`], its request, and a captured answer as a test.

mod answer;

use std::time::Duration;

use async_trait::async_trait;
use reqwest::multipart::{Form, Part};
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

use super::{Recognizer, RecognizerError, believed, length};
use crate::speech::transcribe::inside::Inside;
use crate::speech::transcribe::piece::Heard;
use crate::speech::transcribe::wav;
use crate::speech::transcribe::web::{self, WebError};

/// Largest answer that is read, bytes: a minute of speech has a few thousand.
const LARGEST: usize = 4 << 20;
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
}

/// A server, not asked yet.
#[derive(Clone)]
pub struct Config {
    /// Its address, without the protocol's own path: `http://127.0.0.1:8080`, or `https://` in a private network.
    pub url: String,
    /// How it is asked.
    pub protocol: Protocol,
    /// The model, where it has several; `whisper-1` if absent and the protocol asks for one.
    pub model: Option<String>,
    /// The language spoken, as the server names it (`en`); absent, it finds out.
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
        let url = config.url.clone();
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
        };
        let places = Semaphore::new(config.requests);
        Ok(Self { name, http, place, config, places })
    }

    /// What it is sent besides its key.
    fn form(&self, audio: &[f32]) -> Result<Form, WebError> {
        let file = Part::bytes(wav::write(audio)).file_name("audio.wav").mime_str("audio/wav")?;
        let form = Form::new().part("file", file).text("response_format", "verbose_json").text("temperature", "0");
        let form = match (self.config.protocol, &self.config.model) {
            (Protocol::OpenAi, model) => {
                let model = model.clone().unwrap_or_else(|| "whisper-1".to_owned());
                form.text("model", model).text("timestamp_granularities[]", "word")
            }
            (Protocol::WhisperCpp, Some(model)) => form.text("model", model.clone()),
            (Protocol::WhisperCpp, None) => form,
        };
        Ok(match &self.config.language {
            Some(language) => form.text("language", language.clone()),
            None => form,
        })
    }

    async fn ask(&self, audio: &[f32]) -> Result<Vec<u8>, RecognizerError> {
        let path = match self.config.protocol {
            Protocol::OpenAi => "v1/audio/transcriptions",
            Protocol::WhisperCpp => "inference",
        };
        let web = |error| RecognizerError::Web(error);
        let mut request = self.http.post(self.place.address().at(path)).multipart(self.form(audio).map_err(web)?);
        if let Some(key) = &self.config.key {
            request = request.bearer_auth(key.as_str());
        }
        let answer = request.send().await.map_err(|error| web(error.into()))?;
        let status = answer.status().as_u16();
        let remedy = match status {
            200 => return web::body(answer, LARGEST).await.map_err(web),
            401 | 403 => "give its key as `key`",
            404 | 405 => "is `protocol` the one it speaks, and `url` its address without the path?",
            400 | 422 => "is `model` one it has, and `language` one it knows?",
            408 | 429 | 503 => "it is busy: lower `requests`, or try again",
            300..=399 => "it sends elsewhere, which is not followed: give that address as `url`",
            _ => "look at its own log",
        };
        Err(RecognizerError::Status { status, remedy })
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
        let heard = answer::read(&self.ask(audio).await?)?;
        believed(heard, seconds)
    }
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
mod tests;
