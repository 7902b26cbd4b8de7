//! Deepgram, prerecorded: the file as the body of the request.

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use url::Url;

use super::{Illegible, Provider, heard, untimed};
use crate::speech::transcribe::piece::Heard;
use crate::speech::transcribe::provider::key::{Key, KeyError};
use crate::speech::transcribe::web::Address;

/// The endpoint, with what every request says.
#[derive(Debug)]
pub struct Deepgram {
    url: Url,
    key: Option<HeaderValue>,
}

impl Deepgram {
    /// The endpoint below `address`, for `model` and a language (a BCP 47 tag). It is asked not to keep what it hears for its own
    /// training (`mip_opt_out`); nobody here can see that it does not.
    ///
    /// # Errors
    /// [`KeyError`] when the key cannot stand in a header.
    pub fn new(address: &Address, key: Option<&Key>, model: &str, language: &str) -> Result<Self, KeyError> {
        let key = key.map(|key| key.header("Token ")).transpose()?;
        let mut url = address.at("v1/listen");
        url.query_pairs_mut()
            .append_pair("model", model)
            .append_pair("language", language)
            .append_pair("mip_opt_out", "true");
        Ok(Self { url, key })
    }
}

impl Provider for Deepgram {
    fn request(&self, http: &reqwest::Client, wav: &[u8]) -> reqwest::Result<reqwest::RequestBuilder> {
        let request = http.post(self.url.clone()).header(CONTENT_TYPE, "audio/wav").body(wav.to_vec());
        Ok(match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        })
    }

    fn heard(&self, answer: &[u8], seconds: f64) -> Result<Heard, Illegible> {
        #[derive(Deserialize)]
        struct Answer {
            results: Results,
        }
        #[derive(Deserialize)]
        struct Results {
            channels: Vec<Channel>,
        }
        #[derive(Deserialize)]
        struct Channel {
            #[serde(default)]
            alternatives: Vec<Alternative>,
        }
        #[derive(Deserialize)]
        struct Alternative {
            #[serde(default)]
            transcript: String,
            #[serde(default)]
            words: Vec<Timed>,
        }
        #[derive(Deserialize)]
        struct Timed {
            word: String,
            start: f64,
            end: f64,
            #[serde(default)]
            confidence: Option<f64>,
        }
        let answer: Answer = serde_json::from_slice(answer).map_err(|_| Illegible("a Deepgram transcription"))?;
        let best =
            answer.results.channels.into_iter().next().and_then(|channel| channel.alternatives.into_iter().next());
        let told = match best {
            None => Vec::new(),
            Some(best) if best.words.is_empty() => untimed(best.transcript),
            Some(best) => {
                best.words.into_iter().map(|word| (word.word, Some((word.start, word.end)), word.confidence)).collect()
            }
        };
        Ok(heard(told, seconds))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::{Deepgram, Provider as _};
    use crate::speech::transcribe::web::Address;

    fn provider() -> Deepgram {
        Deepgram::new(&Address::parse("https://speech.example").unwrap(), None, "nova-3", "en-US").unwrap()
    }

    #[test]
    fn the_first_channels_best_alternative_is_heard() {
        let answer = br#"{"metadata":{"channels":1},"results":{"channels":[{"alternatives":[{"transcript":"go on","confidence":0.99,
            "words":[{"word":"go","start":0.1,"end":0.3,"confidence":0.97,"punctuated_word":"Go"},
            {"word":"on","start":0.3,"end":0.6,"confidence":0.5}]}]}]}}"#;
        let words = provider().heard(answer, 1.0).unwrap().words;
        let told: Vec<_> = words.iter().map(|word| (word.text.as_str(), word.start, word.confidence)).collect();
        assert_eq!(told, [("go", 0.1, Some(0.97)), ("on", 0.3, Some(0.5))]);
    }

    #[test]
    fn silence_is_an_answer_and_an_error_is_none() {
        let silence = br#"{"results":{"channels":[{"alternatives":[{"transcript":"","words":[]}]}]}}"#;
        assert!(provider().heard(silence, 1.0).unwrap().words.is_empty());
        let error = provider().heard(br#"{"err_msg":"secret words"}"#, 1.0).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn settings_that_are_no_plain_words_cannot_change_the_address() {
        let address = Address::parse("https://speech.example").unwrap();
        let provider = Deepgram::new(&address, None, "a&callback=https://evil.example", "en").unwrap();
        assert_eq!(provider.url.host_str(), Some("speech.example"));
        assert_eq!(provider.url.query_pairs().filter(|(name, _)| name == "callback").count(), 0);
    }
}
