//! HTTP to other machines: the permitted addresses, and clients whose requests reveal nothing but their body.
//!
//! Clients follow no redirect, keep no cookie, and send no user agent and no referrer. Errors never contain an address, so a
//! logged error cannot hold a key. TLS trusts the system's authorities.

use std::fmt;
use std::time::Duration;

use reqwest::redirect::Policy;
use url::{Host, Url};

/// Limit for establishing a connection.
pub const CONNECT: Duration = Duration::from_secs(10);

/// Reasons that speech is not sent to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The text is not an address.
    #[error("not an address: write https://host/")]
    Malformed,
    /// Plain HTTP to another machine.
    #[error("plain http to another machine: speech and keys would travel in the clear; use https")]
    Plain,
    /// The address holds credentials, a query or a fragment.
    #[error("an address has no user, no query and no fragment: keys are given by key_file or key_variable")]
    Extra,
    /// The name cannot be resolved.
    #[error("its name is not known here: check the spelling and this machine's name server")]
    Unknown,
    /// Resolving the name took too long.
    #[error("its name was not found in time: check this machine's name server")]
    Slow,
    /// The machine is not the site's own.
    #[error(
        "it leads outside: what is sent there is as it is, so it must be on this machine (127.0.0.1, ::1) or in a private \
         network (10/8, 172.16/12, 192.168/16, 169.254/16, fc00::/7, fe80::/10)"
    )]
    Outside,
}

/// Reasons that there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WebError {
    /// The connection failed.
    #[error("cannot be reached")]
    Unreachable(#[source] reqwest::Error),
    /// The answer took too long.
    #[error("no whole answer in time")]
    Late(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer exceeds its size limit.
    #[error("the answer is larger than {0} bytes")]
    Large(usize),
    /// The runtime cannot start threads.
    #[error("this machine cannot make connections")]
    Runtime(#[source] std::io::Error),
    /// The system has no certificate authorities.
    #[error("this machine has no certificate authorities: install the package ca-certificates")]
    Authorities(#[source] reqwest::Error),
}

impl From<reqwest::Error> for WebError {
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_timeout() { Self::Late(error.into()) } else { Self::Unreachable(error) }
    }
}

/// An address to which speech may be sent: HTTPS, or this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebAddress(Url);

impl WebAddress {
    /// Parses an address.
    ///
    /// # Errors
    /// [`AddressError`] when it is malformed, leads to another machine in plain HTTP, or holds more than an address.
    pub fn parse(text: &str) -> Result<Self, AddressError> {
        let url = Url::parse(text).map_err(|_| AddressError::Malformed)?;
        let host = url.host().ok_or(AddressError::Malformed)?;
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&host) => {}
            "http" => return Err(AddressError::Plain),
            _ => return Err(AddressError::Malformed),
        }
        let extra =
            !url.username().is_empty() || url.password().is_some() || url.query().is_some() || url.fragment().is_some();
        if extra { Err(AddressError::Extra) } else { Ok(Self(url)) }
    }

    /// Returns the address as a URL.
    pub fn url(&self) -> Url {
        self.0.clone()
    }

    /// Returns the address extended by `path`, which begins without a slash.
    pub fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        let below = format!("{}/{path}", self.0.path().trim_end_matches('/'));
        url.set_path(&below);
        url
    }

    /// Returns whether the address is on this machine.
    pub fn is_loopback(&self) -> bool {
        self.0.host().is_some_and(|host| is_loopback(&host))
    }
}

impl fmt::Display for WebAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// Returns a client for the machine at `address`, with `limit` for a complete answer.
///
/// # Errors
/// [`WebError`] when the system has no certificate authorities.
pub fn client(address: &WebAddress, limit: Duration) -> Result<reqwest::Client, WebError> {
    // The library asks for a process-wide provider even for plain HTTP; a second installation fails harmlessly.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder =
        reqwest::Client::builder().redirect(Policy::none()).referer(false).connect_timeout(CONNECT).timeout(limit);
    // A proxy may be needed to reach other machines, never this one.
    let builder = if address.is_loopback() { builder.no_proxy() } else { builder };
    builder.build().map_err(WebError::Authorities)
}

/// Reads the body of an answer, of at most `most` bytes.
///
/// # Errors
/// [`WebError`] when the body is larger or does not arrive.
pub async fn body(mut response: reqwest::Response, most: usize) -> Result<Vec<u8>, WebError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > most {
            return Err(WebError::Large(most));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::{AddressError, WebAddress, WebError, body, client};

    #[test]
    fn addresses_need_tls_or_loopback() {
        for (text, expected) in [
            ("http://speech.example/", AddressError::Plain),
            ("http://127.0.0.1.example/", AddressError::Plain),
            ("http://10.0.0.7:8000", AddressError::Plain),
            ("ftp://speech.example", AddressError::Malformed),
            ("speech.example", AddressError::Malformed),
            ("https://user:word@speech.example/", AddressError::Extra),
            ("https://speech.example/?key=1", AddressError::Extra),
            ("https://speech.example/#1", AddressError::Extra),
        ] {
            assert_eq!(WebAddress::parse(text), Err(expected), "{text}");
        }
        for text in ["https://speech.example", "http://127.0.0.1:8080/base/", "http://[::1]:80", "http://localhost:1"] {
            assert!(WebAddress::parse(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn joined_path_is_below_its_address() {
        let at = |base: &str| WebAddress::parse(base).unwrap().join("v1/listen").to_string();
        assert_eq!(at("https://speech.example"), "https://speech.example/v1/listen");
        assert_eq!(at("https://speech.example/gateway/"), "https://speech.example/gateway/v1/listen");
        assert_eq!(at("https://speech.example/v1/speech:x"), "https://speech.example/v1/speech:x/v1/listen");
    }

    /// Serves one answer with a body of `bytes` bytes, and reads it.
    async fn fetch_body(bytes: usize, most: usize) -> Result<Vec<u8>, WebError> {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = WebAddress::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4_096];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n{}", "a".repeat(bytes));
            // The client hangs up once it has read enough.
            drop(stream.write_all(answer.as_bytes()).await);
            stream
        };
        let asking = async {
            let response = client(&address, Duration::from_mins(1)).unwrap().get(address.url()).send().await?;
            body(response, most).await
        };
        tokio::join!(serving, asking).1
    }

    #[tokio::test]
    async fn answer_over_its_limit_is_refused() {
        for most in [0, 5, 1 << 20] {
            assert_eq!(fetch_body(most, most).await.unwrap().len(), most);
            assert!(matches!(fetch_body(most + 1, most).await, Err(WebError::Large(of)) if of == most), "{most}");
        }
    }

    #[tokio::test]
    async fn error_contains_no_address() {
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr()).unwrap();
        let address = WebAddress::parse(&format!("http://{free}/secret-path")).unwrap();
        let outcome = client(&address, Duration::from_secs(5)).unwrap().get(address.url()).send().await;
        let error = super::WebError::from(outcome.unwrap_err());
        assert!(!format!("{error:?} {error}").contains("secret-path"), "{error:?}");
    }
}
