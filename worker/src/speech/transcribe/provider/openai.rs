//! The transcription endpoint that OpenAI made common: its own, and whoever speaks it (vLLM, LocalAI, whisper.cpp's server, ...).

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use url::Url;

use super::{FILE_NAME, Illegible, Provider, heard, untimed};
use crate::speech::transcribe::piece::Heard;
use crate::speech::transcribe::provider::key::{Key, KeyError};
use crate::speech::transcribe::web::Address;

/// The endpoint, with what every request says.
#[derive(Debug)]
pub struct OpenAi {
    url: Url,
    key: Option<HeaderValue>,
    model: String,
    language: String,
}

impl OpenAi {
    /// The endpoint below `address`, for `model` and the language of `language` (a BCP 47 tag, of which the endpoint takes the first
    /// part). A server of one's own may need no key.
    ///
    /// # Errors
    /// [`KeyError`] when the key cannot stand in a header.
    pub fn new(address: &Address, key: Option<&Key>, model: &str, language: &str) -> Result<Self, KeyError> {
        let key = key.map(|key| key.header("Bearer ")).transpose()?;
        let language = language.split('-').next().unwrap_or_default().to_ascii_lowercase();
        Ok(Self { url: address.at("v1/audio/transcriptions"), key, model: model.to_owned(), language })
    }
}

impl Provider for OpenAi {
    fn request(&self, http: &reqwest::Client, wav: &[u8]) -> reqwest::Result<reqwest::RequestBuilder> {
        let file = Part::bytes(wav.to_vec()).file_name(FILE_NAME).mime_str("audio/wav")?;
        let form = Form::new()
            .text("model", self.model.clone())
            .text("language", self.language.clone())
            .text("response_format", "verbose_json")
            .text("timestamp_granularities[]", "word")
            .text("temperature", "0")
            .part("file", file);
        let request = http.post(self.url.clone()).multipart(form);
        Ok(match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        })
    }

    fn heard(&self, answer: &[u8], seconds: f64) -> Result<Heard, Illegible> {
        #[derive(Deserialize)]
        struct Answer {
            text: String,
            #[serde(default)]
            words: Option<Vec<Timed>>,
        }
        #[derive(Deserialize)]
        struct Timed {
            word: String,
            start: f64,
            end: f64,
        }
        let answer: Answer = serde_json::from_slice(answer).map_err(|_| Illegible("an OpenAI transcription"))?;
        let told = match answer.words {
            Some(words) if !words.is_empty() => {
                words.into_iter().map(|word| (word.word, Some((word.start, word.end)), None)).collect()
            }
            _ => untimed(answer.text),
        };
        Ok(heard(told, seconds))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::{OpenAi, Provider as _};
    use crate::speech::transcribe::web::Address;

    fn provider() -> OpenAi {
        OpenAi::new(&Address::parse("https://speech.example").unwrap(), None, "whisper-1", "en-US").unwrap()
    }

    #[test]
    fn words_come_with_their_times_where_the_server_tells_them() {
        let answer =
            br#"{"task":"transcribe","duration":1.0,"text":"Go on.","words":[{"word":"Go","start":0.1,"end":0.3},
            {"word":"on","start":0.3,"end":0.6}],"segments":[]}"#;
        let words = provider().heard(answer, 1.0).unwrap().words;
        assert_eq!(
            words.iter().map(|word| (word.text.as_str(), word.start, word.end)).collect::<Vec<_>>(),
            [("Go", 0.1, 0.3), ("on", 0.3, 0.6)]
        );
        let without = provider().heard(br#"{"text":"Go on."}"#, 1.0).unwrap();
        assert_eq!((without.text().as_str(), without.words[1].start), ("Go on.", 0.5));
        assert!(provider().heard(br#"{"text":"","words":null}"#, 1.0).unwrap().words.is_empty());
    }

    #[test]
    fn another_answer_is_illegible_and_not_repeated() {
        let error = provider().heard(br#"{"error":"secret words"}"#, 1.0).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}
