//! Deepgram, prerecorded: the request body is the file.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use url::Url;

use super::{SpeechProvider, UnreadableAnswer, place_words, untimed};
use crate::piece::Recognition;
use crate::provider::key::{KeyError, ProviderKey};
use crate::web::WebAddress;

/// The endpoint, with the parts common to all requests.
#[derive(Debug)]
pub struct DeepgramProvider {
    url: Url,
    key: Option<HeaderValue>,
}

impl DeepgramProvider {
    /// Returns the endpoint below `address`, for `model` and a language (a BCP 47 tag). Requests ask Deepgram not to use the sound
    /// for its own training (`mip_opt_out`); the site cannot verify that.
    ///
    /// # Errors
    /// [`KeyError`] when the key is no valid header value.
    pub fn new(address: &WebAddress, key: Option<&ProviderKey>, model: &str, language: &str) -> Result<Self, KeyError> {
        let key = key.map(|key| key.header("Token ")).transpose()?;
        let mut url = address.join("v1/listen");
        url.query_pairs_mut()
            .append_pair("model", model)
            .append_pair("language", language)
            .append_pair("mip_opt_out", "true");
        Ok(Self { url, key })
    }
}

impl SpeechProvider for DeepgramProvider {
    fn request(&self, http: &reqwest::Client, wav: &[u8]) -> reqwest::Result<reqwest::RequestBuilder> {
        let request = http.post(self.url.clone()).header(CONTENT_TYPE, "audio/wav").body(wav.to_vec());
        Ok(match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        })
    }

    fn parse_answer(&self, answer: &[u8], seconds: f64) -> Result<Recognition, UnreadableAnswer> {
        #[derive(Deserialize)]
        struct DeepgramAnswer {
            results: DeepgramResults,
        }
        #[derive(Deserialize)]
        struct DeepgramResults {
            channels: Vec<DeepgramChannel>,
        }
        #[derive(Deserialize)]
        struct DeepgramChannel {
            #[serde(default)]
            alternatives: Vec<DeepgramAlternative>,
        }
        #[derive(Deserialize)]
        struct DeepgramAlternative {
            #[serde(default)]
            transcript: String,
            #[serde(default)]
            words: Vec<DeepgramWord>,
        }
        #[derive(Deserialize)]
        struct DeepgramWord {
            word: String,
            start: f64,
            end: f64,
            #[serde(default)]
            confidence: Option<f64>,
        }
        let answer: DeepgramAnswer =
            serde_json::from_slice(answer).map_err(|_| UnreadableAnswer("a Deepgram transcription"))?;
        let best =
            answer.results.channels.into_iter().next().and_then(|channel| channel.alternatives.into_iter().next());
        let raw_words = match best {
            None => Vec::new(),
            Some(best) if best.words.is_empty() => untimed(best.transcript),
            Some(best) => {
                best.words.into_iter().map(|word| (word.word, Some((word.start, word.end)), word.confidence)).collect()
            }
        };
        Ok(place_words(raw_words, seconds))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::{DeepgramProvider, SpeechProvider as _};
    use crate::web::WebAddress;

    fn provider() -> DeepgramProvider {
        DeepgramProvider::new(&WebAddress::parse("https://speech.example").unwrap(), None, "nova-3", "en-US").unwrap()
    }

    #[test]
    fn best_alternative_of_first_channel_is_parsed() {
        let answer = br#"{"metadata":{"channels":1},"results":{"channels":[{"alternatives":[{"transcript":"go on","confidence":0.99,
            "words":[{"word":"go","start":0.1,"end":0.3,"confidence":0.97,"punctuated_word":"Go"},
            {"word":"on","start":0.3,"end":0.6,"confidence":0.5}]}]}]}}"#;
        let words = provider().parse_answer(answer, 1.0).unwrap().words;
        let parsed: Vec<_> = words.iter().map(|word| (word.text.as_str(), word.start, word.confidence)).collect();
        assert_eq!(parsed, [("go", 0.1, Some(0.97)), ("on", 0.3, Some(0.5))]);
    }

    #[test]
    fn silence_is_parsed_and_an_error_is_refused() {
        let silence = br#"{"results":{"channels":[{"alternatives":[{"transcript":"","words":[]}]}]}}"#;
        assert!(provider().parse_answer(silence, 1.0).unwrap().words.is_empty());
        let error = provider().parse_answer(br#"{"err_msg":"secret words"}"#, 1.0).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn settings_cannot_change_the_address() {
        let address = WebAddress::parse("https://speech.example").unwrap();
        let provider = DeepgramProvider::new(&address, None, "a&callback=https://evil.example", "en").unwrap();
        assert_eq!(provider.url.host_str(), Some("speech.example"));
        assert_eq!(provider.url.query_pairs().filter(|(name, _)| name == "callback").count(), 0);
    }
}
