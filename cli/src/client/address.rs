//! The address of a server. Passwords and keys never travel in clear over a network.

use url::{Host, Url};

/// The path of REST.
const API: &str = "/api/v1";

/// The reason why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    /// It is no address of a server.
    #[error("{0:?} is no address of a server: expected https://undertone.example.org")]
    Form(String),
    /// It is in clear.
    #[error("{0:?} would send your password or key in clear: use https, or http to this machine")]
    Clear(String),
}

/// The address of a server, without the path of REST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerAddress(String);

impl ServerAddress {
    /// Reads an address; the path of REST may follow.
    ///
    /// # Errors
    /// [`AddressError`] for other schemes, user names in it, and `http` to another machine.
    pub(crate) fn parse(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form(text.to_owned());
        let url = Url::parse(text).map_err(|_| form())?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let has_rest = url.query().is_some() || url.fragment().is_some();
        let is_this_machine = match url.host().ok_or_else(form)? {
            Host::Domain(name) => name == "localhost",
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        if !matches!(url.scheme(), "http" | "https") || !is_plain || has_rest {
            return Err(form());
        }
        if url.scheme() == "http" && !is_this_machine {
            return Err(AddressError::Clear(text.to_owned()));
        }
        let address = url.as_str().trim_end_matches('/');
        Ok(Self(address.strip_suffix(API).unwrap_or(address).to_owned()))
    }

    /// Returns the address without a slash at its end.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the address of a path of REST.
    pub(crate) fn join(&self, path: &str) -> String {
        format!("{}{API}{path}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressError, ServerAddress};

    #[test]
    fn path_of_rest_may_follow() {
        for text in ["https://a.example", "https://a.example/", "https://a.example/api/v1", "https://a.example/api/v1/"]
        {
            let address = ServerAddress::parse(text).expect("an address");
            assert_eq!((address.as_str(), &*address.join("/me")), ("https://a.example", "https://a.example/api/v1/me"));
        }
        assert_eq!(ServerAddress::parse("http://[::1]:8420").expect("local").as_str(), "http://[::1]:8420");
    }

    #[test]
    fn password_is_never_sent_in_clear() {
        for text in ["http://a.example", "http://192.0.2.1:8420", "http://localhost.example"] {
            assert_eq!(ServerAddress::parse(text), Err(AddressError::Clear(text.to_owned())));
        }
        for text in ["http://127.0.0.1:8420", "http://localhost"] {
            assert!(ServerAddress::parse(text).is_ok());
        }
    }

    #[test]
    fn other_texts_are_no_addresses() {
        for text in ["", "a.example", "ftp://a.example", "https://me:secret@a.example", "https://a.example/?x=1"] {
            assert_eq!(ServerAddress::parse(text), Err(AddressError::Form(text.to_owned())), "{text}");
        }
    }
}
