//! Google Cloud Speech-to-Text, version 1, synchronous: for pieces of less than a minute.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use url::Url;

use super::{Illegible, Provider, Told, heard, untimed};
use crate::speech::audio::RATE;
use crate::speech::transcribe::piece::Heard;
use crate::speech::transcribe::provider::key::{Key, KeyError};
use crate::speech::transcribe::wav::HEADER;
use crate::speech::transcribe::web::Address;

/// The header in which the key travels. It may stand in the address too (`?key=`), where every proxy on the way writes it down.
const KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The endpoint, with what every request says.
#[derive(Debug)]
pub struct Google {
    url: Url,
    key: Option<HeaderValue>,
    model: Option<String>,
    language: String,
}

impl Google {
    /// The endpoint below `address`, for a `model` (`latest_short`, ...; absent for the provider's own choice) and a language (a BCP 47
    /// tag).
    ///
    /// # Errors
    /// [`KeyError`] when the key cannot stand in a header.
    pub fn new(address: &Address, key: Option<&Key>, model: Option<&str>, language: &str) -> Result<Self, KeyError> {
        let key = key.map(|key| key.header("")).transpose()?;
        let url = address.at("v1/speech:recognize");
        Ok(Self { url, key, model: model.map(str::to_owned), language: language.to_owned() })
    }
}

impl Provider for Google {
    fn request(&self, http: &reqwest::Client, wav: &[u8]) -> reqwest::Result<reqwest::RequestBuilder> {
        let mut config = json!({
            "encoding": "LINEAR16",
            "sampleRateHertz": RATE,
            "languageCode": self.language,
            "enableWordTimeOffsets": true,
        });
        if let Some(model) = &self.model {
            config["model"] = json!(model);
        }
        // LINEAR16 is the samples without a header.
        let samples = STANDARD.encode(wav.get(HEADER..).unwrap_or_default());
        let request = http.post(self.url.clone()).json(&json!({ "config": config, "audio": { "content": samples } }));
        Ok(match &self.key {
            Some(key) => request.header(KEY, key.clone()),
            None => request,
        })
    }

    fn heard(&self, answer: &[u8], seconds: f64) -> Result<Heard, Illegible> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(default)]
            results: Vec<Part>,
            #[serde(default)]
            error: Option<IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Part {
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
        #[serde(rename_all = "camelCase")]
        struct Timed {
            word: String,
            #[serde(default)]
            start_time: Option<String>,
            #[serde(default)]
            end_time: Option<String>,
            #[serde(default)]
            confidence: Option<f64>,
        }
        // A time of nothing is left out, as the beginning of the first word often is.
        let time = |text: Option<&str>| text.map_or(Some(0.0), duration);
        let illegible = Illegible("a Google speech recognition");
        let answer: Answer = serde_json::from_slice(answer).map_err(|_| illegible)?;
        if answer.error.is_some() {
            return Err(illegible);
        }
        let best = answer.results.into_iter().filter_map(|part| part.alternatives.into_iter().next());
        let told: Vec<Told> = best
            .flat_map(|best| match best.words {
                words if words.is_empty() => untimed(best.transcript),
                words => words
                    .into_iter()
                    .map(|word| {
                        let times = time(word.start_time.as_deref()).zip(time(word.end_time.as_deref()));
                        (word.word, times, word.confidence.filter(|sure| *sure > 0.0))
                    })
                    .collect(),
            })
            .collect();
        Ok(heard(told, seconds))
    }
}

/// Seconds of a duration as protocol buffers write it in JSON: `1.300s`.
fn duration(text: &str) -> Option<f64> {
    text.strip_suffix('s')?.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::{Google, Provider as _, duration};
    use crate::speech::transcribe::web::Address;

    fn provider() -> Google {
        Google::new(&Address::parse("https://speech.example").unwrap(), None, Some("latest_short"), "en-US").unwrap()
    }

    #[test]
    fn the_best_alternative_of_each_part_is_heard() {
        let answer = br#"{"results":[{"alternatives":[{"transcript":"go on","confidence":0.9,"words":[
            {"endTime":"0.300s","word":"go"},{"startTime":"0.300s","endTime":"0.600s","word":"on","confidence":0.8}]},
            {"transcript":"goon"}],"resultEndTime":"0.700s","languageCode":"en-us"}],"totalBilledTime":"1s","requestId":"7"}"#;
        let words = provider().heard(answer, 1.0).unwrap().words;
        let told: Vec<_> =
            words.iter().map(|word| (word.text.as_str(), word.start, word.end, word.confidence)).collect();
        assert_eq!(told, [("go", 0.0, 0.3, None), ("on", 0.3, 0.6, Some(0.8))]);
    }

    #[test]
    fn silence_is_an_answer_and_an_error_is_none() {
        assert!(provider().heard(b"{}", 1.0).unwrap().words.is_empty());
        let error = provider().heard(br#"{"error":{"code":400,"message":"secret words"}}"#, 1.0).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn times_are_durations_of_protocol_buffers() {
        for (text, seconds) in [("1.300s", Some(1.3)), ("0s", Some(0.0)), ("1.3", None), ("-1s", None), ("infs", None)]
        {
            assert_eq!(duration(text), seconds, "{text}");
        }
    }

    #[test]
    fn the_key_is_in_no_address() {
        let key = crate::speech::transcribe::provider::key::Key::in_test("a-secret-key");
        let address = Address::parse("https://speech.example").unwrap();
        let provider = Google::new(&address, Some(&key), None, "en-US").unwrap();
        let request = provider.request(&reqwest_client(), &[0; 48]).unwrap().build().unwrap();
        assert!(request.url().query().is_none() && !format!("{provider:?} {request:?}").contains("a-secret-key"));
        assert_eq!(request.headers()["x-goog-api-key"], "a-secret-key");
    }

    fn reqwest_client() -> reqwest::Client {
        let address = Address::parse("http://127.0.0.1").unwrap();
        crate::speech::transcribe::web::client(&address, std::time::Duration::from_secs(1)).unwrap()
    }
}
