//! The server, the key and the certificates that the environment names.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::ClientError;
use super::address::ServerAddress;

/// The values of the variables. An empty variable counts as unset.
pub(crate) struct EnvironmentSettings {
    /// `UNDERTONE_URL`: the address of the server.
    pub(crate) url: Option<String>,
    /// `UNDERTONE_KEY`: an API key, which replaces the saved sign-in.
    pub(crate) key: Option<String>,
    /// `UNDERTONE_CA`: the file of the certificates by which the server is recognized instead of the system's.
    pub(crate) authorities: Option<PathBuf>,
}

/// The reason why a file of certificates cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthorityError {
    /// It cannot be read.
    #[error("cannot read the certificates of the server in {path}: check UNDERTONE_CA or --ca")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It has no certificate.
    #[error("{path} has no valid certificate: UNDERTONE_CA and --ca need a PEM file (-----BEGIN CERTIFICATE-----)")]
    Form {
        /// The file.
        path: PathBuf,
    },
}

/// Reads a file of certificates (PEM).
///
/// # Errors
/// [`AuthorityError`] with the path of the file.
pub(crate) fn read_authorities(path: &Path) -> Result<String, AuthorityError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| AuthorityError::File { path: path.to_owned(), source })?;
    match reqwest::Certificate::from_pem_bundle(text.as_bytes()) {
        Ok(certificates) if !certificates.is_empty() => Ok(text),
        _ => Err(AuthorityError::Form { path: path.to_owned() }),
    }
}

impl EnvironmentSettings {
    /// Reads the variables.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let value = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| value(name).map(|value| value.to_string_lossy().into_owned());
        let authorities = value("UNDERTONE_CA").map(PathBuf::from);
        Self { url: text("UNDERTONE_URL"), key: text("UNDERTONE_KEY"), authorities }
    }

    /// Checks that the address of the environment, if there is one, is that of the saved sign-in.
    ///
    /// # Errors
    /// [`ClientError::OtherServer`] with both addresses.
    pub(crate) fn check_address(&self, saved: &ServerAddress) -> Result<(), ClientError> {
        let Some(url) = &self.url else { return Ok(()) };
        let named = ServerAddress::parse(url)?;
        if named == *saved {
            return Ok(());
        }
        Err(ClientError::OtherServer { named: named.as_str().to_owned(), saved: saved.as_str().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::{AuthorityError, EnvironmentSettings, read_authorities};
    use crate::client::ClientError;
    use crate::client::address::ServerAddress;

    fn read(variables: &[(&str, &str)]) -> EnvironmentSettings {
        EnvironmentSettings::read(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(*value))
        })
    }

    #[test]
    fn empty_variable_counts_as_unset() {
        let settings = read(&[("UNDERTONE_URL", ""), ("UNDERTONE_KEY", ""), ("UNDERTONE_CA", "")]);
        assert_eq!((settings.url, settings.key, settings.authorities), (None, None, None));
    }

    #[test]
    fn file_without_a_certificate_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ca.pem");
        let missing = read_authorities(&path).expect_err("no file");
        assert!(matches!(missing, AuthorityError::File { .. }), "{missing}");
        for text in ["", "no certificate", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&path, text).expect("written");
            let error = read_authorities(&path).expect_err("no certificate");
            assert!(matches!(error, AuthorityError::Form { .. }), "{text}");
            assert!(error.to_string().contains("ca.pem has no valid certificate"), "{error}");
        }
    }

    #[test]
    fn other_server_than_the_saved_one_is_refused() {
        let saved = ServerAddress::parse("https://first.example").expect("an address");
        for same in ["", "https://first.example", "https://FIRST.example/", "https://first.example:443/api/v1"] {
            assert!(read(&[("UNDERTONE_URL", same)]).check_address(&saved).is_ok(), "{same}");
        }
        let error = read(&[("UNDERTONE_URL", "https://second.example")]).check_address(&saved).expect_err("another");
        assert!(matches!(error, ClientError::OtherServer { .. }));
        let message = error.to_string();
        for part in ["https://first.example", "https://second.example", "unset UNDERTONE_URL"] {
            assert!(message.contains(part), "{message}");
        }
        let error = read(&[("UNDERTONE_URL", "second")]).check_address(&saved).expect_err("no address");
        assert!(matches!(error, ClientError::Address(_)));
    }
}
