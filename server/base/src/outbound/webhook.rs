//! Posts notices to a webhook, signed by the rules of Standard Webhooks: `webhook-id`, `webhook-timestamp`, and
//! `webhook-signature` with `v1,` and the base64 of HMAC-SHA-256 over id, timestamp and body, separated by full stops.
//! The key is the bytes of the secret.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::header::CONTENT_TYPE;
use serde_json::json;
use sha2::Sha256;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use url::Url;

use super::resolver::PublicResolver;
use super::{OutboundError, OutboundNotice};
use crate::address::is_public;
use crate::config::WebhookConfig;

/// The timeout of a response.
const PATIENCE: Duration = Duration::from_secs(10);

/// A webhook.
pub struct Webhook {
    client: reqwest::Client,
    url: Url,
    secret: String,
    is_private: bool,
}

impl Webhook {
    /// Makes the webhook of a configuration, if there is one. It opens no connection.
    ///
    /// # Errors
    /// [`OutboundError::Unusable`] names the key.
    pub fn new(config: &WebhookConfig) -> Result<Option<Self>, OutboundError> {
        let (Some(url), Some(secret)) = (&config.url, &config.secret) else { return Ok(None) };
        let url = Url::parse(url).map_err(|_| OutboundError::Unusable("webhook.url"))?;
        // A redirect, or a proxy of the environment, could lead to a private network.
        let mut client =
            reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().timeout(PATIENCE);
        if !config.private_network {
            client = client.dns_resolver(PublicResolver);
        }
        let client = client.build().map_err(|_| OutboundError::Unusable("webhook.url"))?;
        Ok(Some(Self { client, url, secret: secret.clone(), is_private: config.private_network }))
    }

    /// Connects to the address that notices are posted to, and sends nothing.
    ///
    /// # Errors
    /// [`OutboundError`] when the name has no usable address, or the address accepts no connection.
    pub async fn examine(&self) -> Result<(), OutboundError> {
        let unreachable = OutboundError::Unreachable("webhook");
        let (Some(host), Some(port)) = (self.url.host_str(), self.url.port_or_known_default()) else {
            return Err(OutboundError::Unusable("webhook.url"));
        };
        let connect = async {
            // Of IPv6 without the brackets that an address has in a URL.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            for address in tokio::net::lookup_host((host, port)).await.ok()? {
                let is_allowed = self.is_private || is_public(address.ip());
                if is_allowed && tokio::net::TcpStream::connect(address).await.is_ok() {
                    return Some(());
                }
            }
            None
        };
        tokio::time::timeout(PATIENCE, connect).await.ok().flatten().ok_or(unreachable)
    }

    /// Posts a notice.
    ///
    /// # Errors
    /// [`OutboundError`] unless the response is a success (2xx).
    pub async fn send(&self, notice: &OutboundNotice, now: OffsetDateTime) -> Result<(), OutboundError> {
        let body = json!({
            "id": notice.id,
            "kind": notice.kind,
            "member": notice.member,
            "text": notice.text,
            "at": notice.at.format(&Rfc3339).map_err(|_| OutboundError::Unusable("the time"))?,
        })
        .to_string();
        let id = notice.id.to_string();
        let timestamp = now.unix_timestamp().to_string();
        let signature = sign(&self.secret, &id, &timestamp, &body)?;
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header("webhook-id", id)
            .header("webhook-timestamp", timestamp)
            .header("webhook-signature", signature)
            .body(body);
        let answer = request.send().await.map_err(|_| OutboundError::Unreachable("webhook"))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        Err(OutboundError::Refused { channel: "webhook", status: status.as_u16() })
    }
}

/// Returns the value of `webhook-signature`.
///
/// # Errors
/// When the secret cannot be used as a key.
pub fn sign(secret: &str, id: &str, timestamp: &str, body: &str) -> Result<String, OutboundError> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| OutboundError::Unusable("webhook.secret"))?;
    mac.update(format!("{id}.{timestamp}.{body}").as_bytes());
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::sign;

    #[test]
    fn signature_covers_id_time_and_body() {
        let own = sign("a secret of thirty-two characters", "1", "2", "{}").expect("signed");
        assert!(own.starts_with("v1,"));
        for other in [
            sign("another secret of 32 characters..", "1", "2", "{}"),
            sign("a secret of thirty-two characters", "3", "2", "{}"),
            sign("a secret of thirty-two characters", "1", "3", "{}"),
            sign("a secret of thirty-two characters", "1", "2", "[]"),
        ] {
            assert_ne!(other.expect("signed"), own);
        }
    }
}
