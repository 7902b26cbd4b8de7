//! The site's keys for providers: read from the site's stores, never printed, never written.
//!
//! There are two stores: a file that only its owner can read, or a variable of the worker's environment, in which service
//! managers pass credentials. The configuration names the store and never holds a key.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

/// Longest key, in bytes.
pub const LONGEST: usize = 4_096;

/// Reasons that there is no key. No variant holds any part of a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("key_file: {path} cannot be read")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// Other users can read the file.
    #[error(
        "key_file: {path} can be read by others (mode {mode:o}): `chmod 600` it, and ask the provider for a new key"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The variable is not set.
    #[error("key_variable: {0} is not set in the worker's environment")]
    Unset(String),
    /// The content is not a key.
    #[error("the content of {0} is not a key: write one line of 1 to 4096 printable ASCII characters without spaces")]
    Malformed(String),
    /// Both stores are configured.
    #[error("key_file and key_variable: give one of them")]
    Both,
}

/// A provider's key. It is wiped when dropped; `Debug` does not print it.
#[derive(Clone)]
pub struct ProviderKey(Zeroizing<String>);

impl std::fmt::Debug for ProviderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ProviderKey(not shown)")
    }
}

impl ProviderKey {
    /// Reads the key from a file.
    ///
    /// # Errors
    /// [`KeyError`] when the file cannot be read, can be read by other users, or holds no key.
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::File { path: path.to_owned(), source };
        let mode = mode(path).map_err(io)?;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
        let text = Zeroizing::new(std::fs::read_to_string(path).map_err(io)?);
        Self::checked(text.trim(), || path.display().to_string())
    }

    /// Reads the key from a variable of `environment`.
    ///
    /// # Errors
    /// [`KeyError`] when the variable is not set or holds no key.
    pub fn from_variable(name: &str, environment: impl Fn(&str) -> Option<OsString>) -> Result<Self, KeyError> {
        let text = environment(name).ok_or_else(|| KeyError::Unset(name.to_owned()))?;
        let text = text.into_string().map(Zeroizing::new).map_err(|_| KeyError::Malformed(name.to_owned()))?;
        Self::checked(text.trim(), || name.to_owned())
    }

    fn checked(text: &str, place: impl Fn() -> String) -> Result<Self, KeyError> {
        let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(Zeroizing::new(text.to_owned()))) } else { Err(KeyError::Malformed(place())) }
    }

    /// Returns the key itself, for a client that builds its own header; it is wiped when dropped.
    pub fn into_secret(self) -> Zeroizing<String> {
        self.0
    }

    /// Returns the key after `prefix`, as a header value that is never printed.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] when the key is no valid header value.
    pub(super) fn header(&self, prefix: &str) -> Result<HeaderValue, KeyError> {
        let text = Zeroizing::new(format!("{prefix}{}", *self.0));
        let mut value = HeaderValue::from_str(&text).map_err(|_| KeyError::Malformed("the store".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Returns a key for tests of protocols.
    #[cfg(any(test, feature = "testing"))]
    pub fn in_test(text: &str) -> Self {
        Self(Zeroizing::new(text.to_owned()))
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> std::io::Result<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(std::fs::metadata(path)?.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn mode(path: &Path) -> std::io::Result<u32> {
    std::fs::metadata(path).map(|_| 0o600)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::ffi::OsString;

    use super::{KeyError, LONGEST, ProviderKey};

    const SECRET: &str = "sk-0123456789-secret";

    #[test]
    fn key_is_not_printed() {
        let key = ProviderKey::from_variable("A_KEY", |_| Some(OsString::from(SECRET))).unwrap();
        let header = key.header("Bearer ").unwrap();
        assert!(!format!("{key:?} {header:?}").contains("secret"));
        assert_eq!(header, format!("Bearer {SECRET}"));
        for broken in
            [format!("{SECRET} and more"), format!("{SECRET}\u{e9}"), format!("{SECRET}\nX-Other: 1"), String::new()]
        {
            let error = ProviderKey::from_variable("A_KEY", |_| Some(OsString::from(&broken))).unwrap_err();
            assert!(matches!(&error, KeyError::Malformed(place) if place == "A_KEY"), "{error}");
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        assert!(matches!(ProviderKey::from_variable("A_KEY", |_| None), Err(KeyError::Unset(name)) if name == "A_KEY"));
    }

    #[test]
    fn key_over_its_limit_is_refused() {
        let of = |length: usize| ProviderKey::from_variable("A_KEY", |_| Some(OsString::from("k".repeat(length))));
        assert!(of(1).is_ok() && of(LONGEST).is_ok());
        for wrong in [0, LONGEST + 1] {
            assert!(matches!(of(wrong), Err(KeyError::Malformed(_))), "{wrong} bytes");
        }
    }

    #[cfg(unix)]
    #[test]
    fn file_readable_by_others_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        let error = ProviderKey::from_file(&path).unwrap_err();
        assert!(matches!(error, KeyError::Exposed { mode: 0o640, .. }) && !error.to_string().contains("secret"));
        mode(0o600);
        assert_eq!(ProviderKey::from_file(&path).unwrap().header("").unwrap(), SECRET);
        assert!(matches!(ProviderKey::from_file(&folder.path().join("none")), Err(KeyError::File { .. })));
    }
}
