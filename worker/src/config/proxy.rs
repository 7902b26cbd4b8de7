//! An HTTP proxy between the worker and the server.
//!
//! The worker asks the proxy for a tunnel (`CONNECT`, RFC 9110, section 9.3.6) and uses TLS with the server inside it.
//! The proxy sees only the server's address and the times and sizes of messages.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use url::Url;

use super::{ConfigError, field};

/// An HTTP proxy.
#[derive(Clone, PartialEq, Eq)]
pub struct ProxyServer {
    /// The configured URL, with credentials.
    url: Url,
}

impl fmt::Debug for ProxyServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProxyServer").field(&self.address()).finish()
    }
}

impl ProxyServer {
    /// Parses `http://host:port` or `http://user:password@host:port`; a password is percent-encoded.
    ///
    /// # Errors
    /// [`ConfigError::Field`] for another scheme, or an address with a path.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let wrong = |problem: &str| field("proxy", format!("{problem}: write http://host:port"));
        let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
        if url.scheme() != "http" {
            return Err(wrong("the worker reaches proxies by plain http and speaks TLS inside the tunnel"));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(wrong("there is no host"));
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(wrong("a proxy's address has no path"));
        }
        Ok(Self { url })
    }

    /// Returns the address without credentials: `http://host:port`.
    pub fn address(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        format!("http://{host}:{}", self.url.port_or_known_default().unwrap_or(80))
    }

    /// Returns the address as it is configured, with credentials.
    pub fn configured(&self) -> &str {
        self.url.as_str()
    }

    /// Returns the value of `Proxy-Authorization` (Basic, RFC 7617); `None` without credentials.
    pub fn authorization(&self) -> Option<String> {
        let decode = |text: &str| percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (user, password) = (self.url.username(), self.url.password());
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
        let named = ProxyServer::parse("http://ward:p%40ss%3Aword@[::1]").expect("a proxy");
        assert_eq!(named.address(), "http://[::1]:80");
        // "ward:p@ss:word"
        assert_eq!(named.authorization().as_deref(), Some("Basic d2FyZDpwQHNzOndvcmQ="));
        assert!(!format!("{named:?}").contains("word"), "{named:?}");
    }

    #[test]
    fn other_addresses_are_refused_with_the_field() {
        for wrong in ["proxy.example:3128", "https://proxy.example", "socks5://proxy.example", "http://proxy.example/x"]
        {
            let error = ProxyServer::parse(wrong).expect_err("no such proxy").to_string();
            assert!(error.starts_with("proxy: ") && error.ends_with("write http://host:port"), "{wrong}: {error}");
        }
    }
}
