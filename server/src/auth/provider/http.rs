//! How a provider is asked: over TLS with the system's authorities, without following it elsewhere, for a short time, and
//! reading only so much.

use std::time::Duration;

use openidconnect::{HttpRequest, HttpResponse};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Largest answer that is read, in bytes: 1 MiB.
const LARGEST: usize = 1 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum AskError {
    /// The request cannot be sent, or nothing came back.
    #[error("no answer")]
    Transport(#[from] reqwest::Error),
    /// What came back is larger than anything that is expected.
    #[error("the answer is larger than {LARGEST} bytes")]
    Large,
    /// What came back has no form.
    #[error("the answer cannot be read")]
    Form(#[from] ::http::Error),
}

/// The client that asks.
pub(super) fn client() -> reqwest::Result<reqwest::Client> {
    // Following redirects would let a provider, or whoever took its place, reach what is beside this server.
    reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).timeout(PATIENCE).build()
}

/// Asks, and reads the answer.
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
