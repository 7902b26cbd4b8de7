//! A speech engine that is a server of the site's own with OpenAI's protocol: it receives text as JSON and answers with WAV.

use std::time::Duration;

use serde_json::json;
use url::Url;
use zeroize::Zeroizing;

use super::program::whole_header;
use super::{MOST_BYTES, SpeakError, USUAL_RATE};
use crate::private_host::PrivateHost;
use crate::wav;
use crate::web::{self, WebError};

/// A server with the parameters of its requests.
pub(super) struct HttpEngine {
    place: PrivateHost,
    model: String,
    voice: String,
    key: Option<Zeroizing<String>>,
    client: reqwest::Client,
}

impl HttpEngine {
    pub(super) fn new(
        url: &str,
        model: &str,
        voice: &str,
        key: Option<Zeroizing<String>>,
        providers: &[Url],
        limit: Duration,
    ) -> Result<Self, SpeakError> {
        let place = PrivateHost::find(url)?;
        let own = place.address().url();
        let same = |other: &Url| {
            other.host_str() == own.host_str() && other.port_or_known_default() == own.port_or_known_default()
        };
        if providers.iter().any(same) {
            let reason = "a provider's own: it would know which of its pieces are dummies; use another engine";
            return Err(SpeakError::Setting { field: "url", reason });
        }
        let client = place.client(limit)?;
        Ok(Self { place, model: model.to_owned(), voice: voice.to_owned(), key, client })
    }

    pub(super) fn name(&self) -> String {
        format!("{} with voice {} at {}", self.model, self.voice, self.place.address())
    }

    pub(super) fn speak(&self, text: &str, rate: f64) -> Result<Vec<f32>, SpeakError> {
        let body = json!({
            "model": self.model, "voice": self.voice, "input": text, "response_format": "wav", "speed": rate / USUAL_RATE,
        });
        let mut request = self.client.post(self.place.address().join("v1/audio/speech")).json(&body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.as_str());
        }
        // A runtime for one answer: the caller blocks anyway, on a thread outside the runtime.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(WebError::Runtime)?;
        let mut answer = runtime.block_on(async {
            let response = request.send().await.map_err(WebError::from)?;
            if !response.status().is_success() {
                return Err(SpeakError::Refused(response.status().as_u16()));
            }
            Ok(web::body(response, MOST_BYTES).await?)
        })?;
        whole_header(&mut answer);
        Ok(wav::read(&answer)?)
    }
}
