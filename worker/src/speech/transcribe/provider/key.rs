//! The keys by which providers know the site: read from where the site keeps them, never shown, never written.
//!
//! Two stores: a file that its owner alone can read, or a variable of the worker's environment, as service managers hand
//! credentials over. The configuration names the store and never holds a key.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

/// Longest key, bytes.
pub(crate) const LONGEST: usize = 4_096;

/// Why there is no key. No variant holds any part of one.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("key_file: {path} cannot be read")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Others can read it.
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
    /// Not a key.
    #[error("the key in {0} is none: one line of 1 to 4096 printable ASCII characters without spaces")]
    Malformed(String),
    /// Two stores.
    #[error("key_file and key_variable: give one of them")]
    Both,
}

/// A provider's key. Wiped when dropped; its `Debug` form shows nothing of it.
#[derive(Clone)]
pub struct Key(Zeroizing<String>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key(not shown)")
    }
}

impl Key {
    /// The key in a file.
    ///
    /// # Errors
    /// [`KeyError`] when it cannot be read, can be read by others, or is none.
    pub fn from_file(path: &Path) -> Result<Self, KeyError> {
        let io = |source| KeyError::File { path: path.to_owned(), source };
        let mode = mode(path).map_err(io)?;
        if mode & 0o077 != 0 {
            return Err(KeyError::Exposed { path: path.to_owned(), mode });
        }
        let text = Zeroizing::new(std::fs::read_to_string(path).map_err(io)?);
        Self::checked(text.trim(), || path.display().to_string())
    }

    /// The key in a variable, as `environment` has it.
    ///
    /// # Errors
    /// [`KeyError`] when it is not set or is none.
    pub fn from_variable(name: &str, environment: impl Fn(&str) -> Option<OsString>) -> Result<Self, KeyError> {
        let text = environment(name).ok_or_else(|| KeyError::Unset(name.to_owned()))?;
        let text = text.into_string().map(Zeroizing::new).map_err(|_| KeyError::Malformed(name.to_owned()))?;
        Self::checked(text.trim(), || name.to_owned())
    }

    fn checked(text: &str, place: impl Fn() -> String) -> Result<Self, KeyError> {
        let fits = (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if fits { Ok(Self(Zeroizing::new(text.to_owned()))) } else { Err(KeyError::Malformed(place())) }
    }

    /// The key itself, for a client that makes its own header of it; wiped when that is dropped.
    pub(crate) fn into_secret(self) -> Zeroizing<String> {
        self.0
    }

    /// The key behind `prefix`, for a header that is never printed.
    ///
    /// # Errors
    /// [`KeyError::Malformed`] when it cannot stand in a header.
    pub(super) fn header(&self, prefix: &str) -> Result<HeaderValue, KeyError> {
        let text = Zeroizing::new(format!("{prefix}{}", *self.0));
        let mut value = HeaderValue::from_str(&text).map_err(|_| KeyError::Malformed("the store".to_owned()))?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// A key for tests of protocols.
    #[cfg(test)]
    pub(crate) fn in_test(text: &str) -> Self {
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

    use super::{Key, KeyError, LONGEST};

    const SECRET: &str = "sk-0123456789-secret";

    #[test]
    fn a_key_is_shown_nowhere() {
        let key = Key::from_variable("A_KEY", |_| Some(OsString::from(SECRET))).unwrap();
        let header = key.header("Bearer ").unwrap();
        assert!(!format!("{key:?} {header:?}").contains("secret"));
        assert_eq!(header, format!("Bearer {SECRET}"));
        for broken in
            [format!("{SECRET} and more"), format!("{SECRET}\u{e9}"), format!("{SECRET}\nX-Other: 1"), String::new()]
        {
            let error = Key::from_variable("A_KEY", |_| Some(OsString::from(&broken))).unwrap_err();
            assert!(matches!(&error, KeyError::Malformed(place) if place == "A_KEY"), "{error}");
            assert!(!format!("{error} {error:?}").contains("secret"));
        }
        assert!(matches!(Key::from_variable("A_KEY", |_| None), Err(KeyError::Unset(name)) if name == "A_KEY"));
    }

    #[test]
    fn a_key_has_its_length_and_no_more() {
        let of = |length: usize| Key::from_variable("A_KEY", |_| Some(OsString::from("k".repeat(length))));
        assert!(of(1).is_ok() && of(LONGEST).is_ok());
        for wrong in [0, LONGEST + 1] {
            assert!(matches!(of(wrong), Err(KeyError::Malformed(_))), "{wrong} bytes");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        std::fs::write(&path, format!("{SECRET}\n")).unwrap();
        let mode = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o640);
        let error = Key::from_file(&path).unwrap_err();
        assert!(matches!(error, KeyError::Exposed { mode: 0o640, .. }) && !error.to_string().contains("secret"));
        mode(0o600);
        assert_eq!(Key::from_file(&path).unwrap().header("").unwrap(), SECRET);
        assert!(matches!(Key::from_file(&folder.path().join("none")), Err(KeyError::File { .. })));
    }
}
