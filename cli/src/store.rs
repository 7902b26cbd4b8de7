//! The saved sign-in: one file below the configuration folder of the user, which other users cannot read.
//!
//! A refresh token works once, so processes that renew one session at a time take turns by a lock file beside it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_api::session::TokenPair;

/// The mode of the file: its owner reads and writes it.
const FILE_MODE: u32 = 0o600;
/// The mode of the folder.
const FOLDER_MODE: u32 = 0o700;
/// The bits that let other users read or write.
const OTHERS: u32 = 0o077;

/// The permission with which requests are made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Credential {
    /// A member's API key.
    ApiKey {
        /// The key.
        key: String,
    },
    /// A session.
    Session {
        /// Its present tokens.
        tokens: TokenPair,
    },
}

impl Credential {
    /// Returns the token of a request.
    pub(crate) fn bearer(&self) -> &str {
        match self {
            Self::ApiKey { key } => key,
            Self::Session { tokens } => &tokens.access_token,
        }
    }
}

/// A sign-in at a server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedSignIn {
    /// The address of the server.
    pub(crate) url: String,
    /// The certificates (PEM) by which the server is recognized instead of the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authorities: Option<String>,
    /// The permission.
    pub(crate) credential: Credential,
}

/// The reason why a sign-in cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// There is no configuration folder.
    #[error("no folder for the sign-in: set HOME or XDG_CONFIG_HOME to an absolute path")]
    NoFolder,
    /// The file cannot be read or written.
    #[error("cannot use {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// Other users can read the file.
    #[error(
        "other users can read {path}: end the session at the server (Settings, Security), delete the file, and sign in again"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a sign-in.
    #[error("{path} is not a sign-in: delete it, and sign in again")]
    Form {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
}

/// The place of the sign-in.
#[derive(Debug, Clone)]
pub(crate) struct SignInStore {
    folder: PathBuf,
}

impl SignInStore {
    /// Finds the place by the XDG base directories: `$XDG_CONFIG_HOME/undertone`, or `~/.config/undertone`.
    ///
    /// # Errors
    /// [`StoreError::NoFolder`] when the environment names neither.
    pub(crate) fn find(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<Self, StoreError> {
        let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")));
        Ok(Self { folder: base.ok_or(StoreError::NoFolder)?.join("undertone") })
    }

    fn path(&self) -> PathBuf {
        self.folder.join("sign-in.json")
    }

    /// Reads the sign-in; `None` if there is none.
    ///
    /// # Errors
    /// [`StoreError`] when the file cannot be used, or other users can read it.
    pub(crate) fn load(&self) -> Result<Option<SavedSignIn>, StoreError> {
        let path = self.path();
        let in_file = |source| StoreError::File { path: path.clone(), source };
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(in_file)?,
        };
        if file.metadata().map_err(in_file)?.permissions().mode() & OTHERS != 0 {
            return Err(StoreError::Exposed { path });
        }
        let text = io::read_to_string(file).map_err(in_file)?;
        serde_json::from_str(&text).map(Some).map_err(|source| StoreError::Form { path, source })
    }

    /// Replaces the sign-in as a whole.
    ///
    /// # Errors
    /// [`StoreError::File`] when it cannot be written; the previous one then stays.
    pub(crate) fn save(&self, saved: &SavedSignIn) -> Result<(), StoreError> {
        let path = self.path();
        let in_file = |source| StoreError::File { path: path.clone(), source };
        let text = serde_json::to_string_pretty(saved).map_err(|error| in_file(error.into()))?;
        self.create_folder().map_err(in_file)?;
        // A new file beside it has its mode from the start.
        let permissions = fs::Permissions::from_mode(FILE_MODE);
        let mut file = tempfile::Builder::new().permissions(permissions).tempfile_in(&self.folder).map_err(in_file)?;
        file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(in_file)?;
        file.persist(&path).map_err(|error| in_file(error.error))?;
        Ok(())
    }

    /// Deletes the sign-in; returns whether there was one.
    ///
    /// # Errors
    /// [`StoreError::File`] when it cannot be deleted.
    pub(crate) fn delete(&self) -> Result<bool, StoreError> {
        match fs::remove_file(self.path()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(StoreError::File { path: self.path(), source }),
        }
    }

    /// Waits until no other process renews the session; the lock ends with the returned file.
    ///
    /// # Errors
    /// [`StoreError::File`] when the lock file cannot be used.
    pub(crate) fn lock(&self) -> Result<File, StoreError> {
        let path = self.folder.join("sign-in.lock");
        let lock = |path: &Path| {
            self.create_folder()?;
            let file = OpenOptions::new().write(true).create(true).truncate(false).mode(FILE_MODE).open(path)?;
            file.lock()?;
            Ok(file)
        };
        lock(&path).map_err(|source| StoreError::File { path, source })
    }

    fn create_folder(&self) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&self.folder)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::{Credential, SavedSignIn, SignInStore, StoreError};

    fn saved(key: &str) -> SavedSignIn {
        let credential = Credential::ApiKey { key: key.to_owned() };
        SavedSignIn { url: "https://undertone.example.org".to_owned(), authorities: None, credential }
    }

    #[test]
    fn sign_in_is_its_users_alone() {
        let home = tempfile::tempdir().expect("a folder");
        let config = home.path().join("config");
        let store =
            SignInStore::find(|name| (name == "XDG_CONFIG_HOME").then(|| config.clone().into())).expect("found");
        assert!(store.load().expect("read").is_none());
        store.save(&saved("first")).expect("saved");
        store.save(&saved("second")).expect("saved");
        let mode = |path: &str| fs::metadata(config.join(path)).expect("there").permissions().mode() & 0o777;
        assert_eq!((mode("undertone"), mode("undertone/sign-in.json")), (0o700, 0o600));
        assert!(store.load().expect("read") == Some(saved("second")));
        assert!(store.delete().expect("deleted") && !store.delete().expect("deleted"));
        assert_eq!(fs::read_dir(config.join("undertone")).expect("a folder").count(), 0, "no copy is left");
    }

    #[test]
    fn exposed_sign_in_is_refused() {
        let home = tempfile::tempdir().expect("a folder");
        let variable = |name: &str| (name == "HOME").then(|| OsString::from(home.path()));
        let store = SignInStore::find(variable).expect("found");
        store.save(&saved("key")).expect("saved");
        let path = home.path().join(".config/undertone/sign-in.json");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("changed");
        assert!(matches!(store.load(), Err(StoreError::Exposed { .. })));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
        fs::write(&path, "{}").expect("written");
        assert!(matches!(store.load(), Err(StoreError::Form { .. })));
    }

    #[test]
    fn relative_configuration_folder_is_ignored() {
        let variable = |name: &str| (name == "XDG_CONFIG_HOME").then(|| OsString::from("relative"));
        assert!(matches!(SignInStore::find(variable), Err(StoreError::NoFolder)));
    }

    #[test]
    fn renewals_take_turns() {
        let home = tempfile::tempdir().expect("a folder");
        let store = SignInStore::find(|_| Some(home.path().into())).expect("found");
        let first = store.lock().expect("locked");
        let other = fs::File::open(home.path().join("undertone/sign-in.lock")).expect("there");
        assert!(other.try_lock().is_err());
        drop(first);
        assert!(other.try_lock().is_ok());
    }
}
