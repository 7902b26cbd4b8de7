//! OpenAI's transcription endpoint, and compatible servers (vLLM, LocalAI, whisper.cpp's server, ...).

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::multipart::{Form, Part};
use serde::Deserialize;
use url::Url;

use super::{FILE_NAME, SpeechProvider, UnreadableAnswer, place_words, untimed};
use crate::piece::Recognition;
use crate::provider::key::{KeyError, ProviderKey};
use crate::web::WebAddress;

/// The endpoint, with the parts common to all requests.
#[derive(Debug)]
pub struct OpenAiProvider {
    url: Url,
    key: Option<HeaderValue>,
    model: String,
    language: String,
}

impl OpenAiProvider {
    /// Returns the endpoint below `address`, for `model` and `language` (a BCP 47 tag, of which the endpoint takes the first
    /// part). A server of the site's own may need no key.
    ///
    /// # Errors
    /// [`KeyError`] when the key is no valid header value.
    pub fn new(address: &WebAddress, key: Option<&ProviderKey>, model: &str, language: &str) -> Result<Self, KeyError> {
        let key = key.map(|key| key.header("Bearer ")).transpose()?;
        let language = language.split('-').next().unwrap_or_default().to_ascii_lowercase();
        Ok(Self { url: address.join("v1/audio/transcriptions"), key, model: model.to_owned(), language })
    }
}

impl SpeechProvider for OpenAiProvider {
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

    fn parse_answer(&self, answer: &[u8], seconds: f64) -> Result<Recognition, UnreadableAnswer> {
        #[derive(Deserialize)]
        struct OpenAiAnswer {
            text: String,
            #[serde(default)]
            words: Option<Vec<OpenAiWord>>,
        }
        #[derive(Deserialize)]
        struct OpenAiWord {
            word: String,
            start: f64,
            end: f64,
        }
        let answer: OpenAiAnswer =
            serde_json::from_slice(answer).map_err(|_| UnreadableAnswer("an OpenAI transcription"))?;
        let raw_words = match answer.words {
            Some(words) if !words.is_empty() => {
                words.into_iter().map(|word| (word.word, Some((word.start, word.end)), None)).collect()
            }
            _ => untimed(answer.text),
        };
        Ok(place_words(raw_words, seconds))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::{OpenAiProvider, SpeechProvider as _};
    use crate::web::WebAddress;

    fn provider() -> OpenAiProvider {
        OpenAiProvider::new(&WebAddress::parse("https://speech.example").unwrap(), None, "whisper-1", "en-US").unwrap()
    }

    #[test]
    fn words_have_times_where_the_answer_has_them() {
        let answer =
            br#"{"task":"transcribe","duration":1.0,"text":"Go on.","words":[{"word":"Go","start":0.1,"end":0.3},
            {"word":"on","start":0.3,"end":0.6}],"segments":[]}"#;
        let words = provider().parse_answer(answer, 1.0).unwrap().words;
        assert_eq!(
            words.iter().map(|word| (word.text.as_str(), word.start, word.end)).collect::<Vec<_>>(),
            [("Go", 0.1, 0.3), ("on", 0.3, 0.6)]
        );
        let without = provider().parse_answer(br#"{"text":"Go on."}"#, 1.0).unwrap();
        assert_eq!((without.text().as_str(), without.words[1].start), ("Go on.", 0.5));
        assert!(provider().parse_answer(br#"{"text":"","words":null}"#, 1.0).unwrap().words.is_empty());
    }

    #[test]
    fn other_answer_is_refused_and_not_repeated() {
        let error = provider().parse_answer(br#"{"error":"secret words"}"#, 1.0).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"), "{error:?}");
    }
}
