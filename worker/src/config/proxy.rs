//! An HTTP or HTTPS proxy on the way to the server.
//!
//! The worker asks the proxy for a tunnel (`CONNECT`, RFC 9110, section 9.3.6) and speaks TLS with the server inside
//! it, so the proxy sees the server's address and the times and sizes of messages, and nothing else. To an `https`
//! proxy the request for the tunnel, with its credentials, travels in TLS as well.

use std::fmt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use super::{ConfigError, field};

/// An HTTP or HTTPS proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyServer {
    /// The configured URL, with credentials.
    url: Url,
    /// The certificates (PEM) by which an `https` proxy is recognized; `None` for those of the system.
    authorities: Option<PathBuf>,
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyServer").field(&self.address()).finish()
    }
}

impl ProxyServer {
    /// Reads `http://host:port` or `https://host:port`, with `user:password@` before the host; a password is
    /// percent-encoded.
    ///
    /// # Errors
    /// [`ConfigError::Field`] for another scheme, or an address with a path.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let wrong = |problem: &str| field("proxy", format!("{problem}: write http://host:port or https://host:port"));
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(wrong("the scheme must be http or https"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("the host is missing"));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("a proxy's address must not have a path"));
        }
        Ok(Self { url, authorities: None })
    }

    /// Recognizes the proxy by the certificates in the file `authorities` (PEM), and not by those of the system.
    ///
    /// # Errors
    /// [`ConfigError::Field`] for a file beside a proxy without TLS.
    pub fn with_authorities(self, authorities: Option<PathBuf>) -> Result<Self, ConfigError> {
        if authorities.is_some() && !self.is_https() {
            return Err(field("proxy_ca", "a plain http proxy has no certificate: set `proxy` to https://host:port"));
        }
        Ok(Self { authorities, ..self })
    }

    /// Returns true if the worker speaks TLS with the proxy itself.
    pub fn is_https(&self) -> bool {
        self.url.scheme() == "https"
    }

    /// Returns the file of the certificates by which an `https` proxy is recognized; `None` for those of the system.
    pub fn authorities(&self) -> Option<&Path> {
        self.authorities.as_deref()
    }

    /// Returns the address without credentials: `scheme://host:port`.
    pub fn address(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        format!("{}://{host}:{}", self.url.scheme(), self.url.port_or_known_default().unwrap_or(80))
    }

    /// Returns the address as it is configured, with credentials.
    pub fn url(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the value of `Proxy-Authorization` (Basic, RFC 7617); `None` without credentials.
    pub fn authorization(&self) -> Option<String> {
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = self.url.username();
        let password = self.url.password();
        let credentials = format!("{}:{}", decode(user), decode(password.unwrap_or_default()));
        (!user.is_empty() || password.is_some()).then(|| format!("Basic {}", STANDARD.encode(credentials)))
    }
}

#[cfg(test)]
mod tests {
    use super::ProxyServer;

    #[test]
    fn address_and_credentials_are_read() {
        let plain = ProxyServer::parse("http://proxy.example:3128").expect("a proxy");
        assert_eq!((plain.address().as_str(), plain.authorization()), ("http://proxy.example:3128", None));
        let proxy = ProxyServer::parse("http://ward:p%40ss%3Aword@[::1]").expect("a proxy");
        assert_eq!(proxy.address(), "http://[::1]:80");
        // "ward:p@ss:word"
        assert_eq!(proxy.authorization().as_deref(), Some("Basic d2FyZDpwQHNzOndvcmQ="));
        assert!(!format!("{proxy:?}").contains("word"), "{proxy:?}");
    }

    #[test]
    fn invalid_addresses_are_refused_with_the_field() {
        for wrong in ["proxy.example:3128", "socks5://proxy.example", "http://proxy.example/x"] {
            let error = ProxyServer::parse(wrong).expect_err("no such proxy").to_string();
            assert!(error.starts_with("proxy: ") && error.ends_with("or https://host:port"), "{wrong}: {error}");
        }
    }

    #[test]
    fn authorities_belong_to_an_https_proxy() {
        let https = ProxyServer::parse("https://ward:secret@proxy.example").expect("a proxy");
        assert_eq!((https.address().as_str(), https.is_https()), ("https://proxy.example:443", true));
        let https = https.with_authorities(Some("/etc/proxy.pem".into())).expect("it has a certificate");
        assert_eq!(https.authorities(), Some(std::path::Path::new("/etc/proxy.pem")));
        let plain = ProxyServer::parse("http://proxy.example").expect("a proxy");
        let refused = plain.with_authorities(Some("/etc/proxy.pem".into())).expect_err("no certificate").to_string();
        assert!(refused.starts_with("proxy_ca: "), "{refused}");
    }
}
