//! Google Cloud Speech-to-Text, version 1, synchronous: for pieces of less than a minute.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use url::Url;

use super::{RawWord, SpeechProvider, UnreadableAnswer, place_words, untimed};
use crate::piece::Recognition;
use crate::provider::key::{KeyError, ProviderKey};
use crate::wav::HEADER;
use crate::web::WebAddress;
use undertone_worker_speech::audio::RATE;

/// Header of the key. The query (`?key=`) would work too, but proxies log it.
const KEY: HeaderName = HeaderName::from_static("x-goog-api-key");

/// The endpoint, with the parts common to all requests.
#[derive(Debug)]
pub struct GoogleProvider {
    url: Url,
    key: Option<HeaderValue>,
    model: Option<String>,
    language: String,
}

impl GoogleProvider {
    /// Returns the endpoint below `address`, for a `model` (`latest_short`, ...; `None` for the provider's default) and a language
    /// (a BCP 47 tag).
    ///
    /// # Errors
    /// [`KeyError`] when the key is no valid header value.
    pub fn new(
        address: &WebAddress,
        key: Option<&ProviderKey>,
        model: Option<&str>,
        language: &str,
    ) -> Result<Self, KeyError> {
        let key = key.map(|key| key.header("")).transpose()?;
        let url = address.join("v1/speech:recognize");
        Ok(Self { url, key, model: model.map(str::to_owned), language: language.to_owned() })
    }
}

impl SpeechProvider for GoogleProvider {
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

    fn parse_answer(&self, answer: &[u8], seconds: f64) -> Result<Recognition, UnreadableAnswer> {
        #[derive(Deserialize)]
        struct GoogleAnswer {
            #[serde(default)]
            results: Vec<GoogleResult>,
            #[serde(default)]
            error: Option<IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct GoogleResult {
            #[serde(default)]
            alternatives: Vec<GoogleAlternative>,
        }
        #[derive(Deserialize)]
        struct GoogleAlternative {
            #[serde(default)]
            transcript: String,
            #[serde(default)]
            words: Vec<GoogleWord>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct GoogleWord {
            word: String,
            #[serde(default)]
            start_time: Option<String>,
            #[serde(default)]
            end_time: Option<String>,
            #[serde(default)]
            confidence: Option<f64>,
        }
        // A time of zero is omitted, often at the start of the first word.
        let time = |text: Option<&str>| text.map_or(Some(0.0), duration);
        let illegible = UnreadableAnswer("a Google speech recognition");
        let answer: GoogleAnswer = serde_json::from_slice(answer).map_err(|_| illegible)?;
        if answer.error.is_some() {
            return Err(illegible);
        }
        let best = answer.results.into_iter().filter_map(|part| part.alternatives.into_iter().next());
        let raw_words: Vec<RawWord> = best
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
        Ok(place_words(raw_words, seconds))
    }
}

/// Parses the seconds of a duration in the JSON form of protocol buffers: `1.300s`.
fn duration(text: &str) -> Option<f64> {
    text.strip_suffix('s')?.parse().ok().filter(|seconds: &f64| seconds.is_finite() && *seconds >= 0.0)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use super::{GoogleProvider, SpeechProvider as _, duration};
    use crate::web::WebAddress;

    fn provider() -> GoogleProvider {
        GoogleProvider::new(&WebAddress::parse("https://speech.example").unwrap(), None, Some("latest_short"), "en-US")
            .unwrap()
    }

    #[test]
    fn best_alternative_of_each_result_is_parsed() {
        let answer = br#"{"results":[{"alternatives":[{"transcript":"go on","confidence":0.9,"words":[
            {"endTime":"0.300s","word":"go"},{"startTime":"0.300s","endTime":"0.600s","word":"on","confidence":0.8}]},
            {"transcript":"goon"}],"resultEndTime":"0.700s","languageCode":"en-us"}],"totalBilledTime":"1s","requestId":"7"}"#;
        let words = provider().parse_answer(answer, 1.0).unwrap().words;
        let parsed: Vec<_> =
            words.iter().map(|word| (word.text.as_str(), word.start, word.end, word.confidence)).collect();
        assert_eq!(parsed, [("go", 0.0, 0.3, None), ("on", 0.3, 0.6, Some(0.8))]);
    }

    #[test]
    fn silence_is_parsed_and_an_error_is_refused() {
        assert!(provider().parse_answer(b"{}", 1.0).unwrap().words.is_empty());
        let error = provider().parse_answer(br#"{"error":{"code":400,"message":"secret words"}}"#, 1.0).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn times_are_protobuf_durations() {
        for (text, seconds) in [("1.300s", Some(1.3)), ("0s", Some(0.0)), ("1.3", None), ("-1s", None), ("infs", None)]
        {
            assert_eq!(duration(text), seconds, "{text}");
        }
    }

    #[test]
    fn key_is_not_in_the_address() {
        let key = crate::provider::key::ProviderKey::in_test("a-secret-key");
        let address = WebAddress::parse("https://speech.example").unwrap();
        let provider = GoogleProvider::new(&address, Some(&key), None, "en-US").unwrap();
        let request = provider.request(&reqwest_client(), &[0; 48]).unwrap().build().unwrap();
        assert!(request.url().query().is_none() && !format!("{provider:?} {request:?}").contains("a-secret-key"));
        assert_eq!(request.headers()["x-goog-api-key"], "a-secret-key");
    }

    fn reqwest_client() -> reqwest::Client {
        let address = WebAddress::parse("http://127.0.0.1").unwrap();
        crate::web::client(&address, std::time::Duration::from_secs(1)).unwrap()
    }
}
