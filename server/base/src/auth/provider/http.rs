//! Requests to a provider: over TLS with the system's authorities, without redirects, with limits on time and response
//! size.

use std::time::Duration;

use openidconnect::{HttpRequest, HttpResponse};

/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The largest accepted response, bytes: 1 MiB.
const LARGEST: usize = 1 << 20;

/// A reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// The request cannot be sent, or has no response.
    #[error("no answer")]
    Transport(#[from] reqwest::Error),
    /// The response is too large.
    #[error("the answer is larger than {LARGEST} bytes")]
    Large,
    /// The response is malformed.
    #[error("the answer cannot be read")]
    Form(#[from] ::http::Error),
}

/// Makes the HTTP client.
pub(super) fn client() -> reqwest::Result<reqwest::Client> {
    // With redirects, a malicious provider could direct requests to the server's internal network.
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE).build()
}

/// Sends a request and reads the response.
pub(super) async fn ask(client: reqwest::Client, request: HttpRequest) -> Result<HttpResponse, AskError> {
    let request = reqwest::Request::try_from(request)?;
    let mut answer = client.execute(request).await?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > LARGEST {
            return Err(AskError::Large);
        }
        body.extend_from_slice(&chunk);
    }
    let mut response = ::http::Response::builder().status(answer.status());
    for (name, value) in answer.headers() {
        response = response.header(name, value);
    }
    Ok(response.body(body)?)
}
