//! Ensures that one server at a time uses a SQLite file, by a lock next to it. The system releases the lock when the
//! process ends, even after a crash.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::PathBuf;

use undertone_server_core::config::Config;
use undertone_server_core::db::sqlite_file;

/// The lock of the server that uses a SQLite file.
#[derive(Debug)]
pub struct ServingLock {
    file: Option<File>,
}

/// A reason why this server may not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// Another server is serving.
    #[error(
        "{holder} already uses the SQLite file (lock {path}): stop it first, or set another `data_dir`; several \
         servers need PostgreSQL",
        path = path.display()
    )]
    Held {
        /// The lock's file.
        path: PathBuf,
        /// The other server's description of itself.
        holder: String,
    },
    /// The lock's file cannot be used.
    #[error("the lock {path}: {source}", path = path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl ServingLock {
    /// Takes the lock of the configuration's SQLite file; PostgreSQL needs none.
    ///
    /// # Errors
    /// [`ServingError::Held`] with the other server's process and address, [`ServingError::File`].
    pub fn take(config: &Config) -> Result<Self, ServingError> {
        let Some(path) = lock_path(config) else { return Ok(Self { file: None }) };
        let failed = |source| ServingError::File { path: path.clone(), source };
        if let Some(folder) = path.parent() {
            let mut folders = std::fs::DirBuilder::new();
            folders.recursive(true);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
            folders.create(folder).map_err(failed)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {
                let mut lock = Self { file: Some(file) };
                lock.describe(&config.http.to_string()).map_err(failed)?;
                Ok(lock)
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(failed)?;
                let holder = if holder.is_empty() { "another server".to_owned() } else { holder.trim().to_owned() };
                Err(ServingError::Held { path, holder })
            }
            Err(TryLockError::Error(source)) => Err(failed(source)),
        }
    }

    /// Writes the process and the address into the lock's file, for the message of a second server.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn describe(&mut self, address: &str) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "process {} at {address}", std::process::id())
    }
}

fn lock_path(config: &Config) -> Option<PathBuf> {
    let mut name = sqlite_file(&config.database())?.into_os_string();
    name.push(".lock");
    Some(name.into())
}

#[cfg(test)]
mod tests {
    use super::{ServingError, ServingLock};
    use undertone_server_core::config::Config;

    #[test]
    fn second_server_on_one_sqlite_file_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = Config { data_dir: dir.path().join("data"), ..Config::default() };
        let mut first = ServingLock::take(&config).expect("nobody else serves");
        first.describe("http://127.0.0.1:8420").expect("written");
        let refused = ServingLock::take(&config).expect_err("the first serves");
        assert!(matches!(refused, ServingError::Held { .. }));
        let text = refused.to_string();
        let process = format!("process {} at http://127.0.0.1:8420", std::process::id());
        assert!(text.contains(&process) && text.contains("undertone.sqlite.lock"), "{text}");
        drop(first);
        ServingLock::take(&config).expect("the first has ended");
    }

    #[test]
    fn servers_on_postgresql_need_no_lock() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let url = "postgres://u@127.0.0.1/x".to_owned();
        let config = Config { data_dir: dir.path().to_owned(), database_url: Some(url), ..Config::default() };
        let locks = [ServingLock::take(&config), ServingLock::take(&config)];
        assert!(locks.iter().all(Result::is_ok));
    }
}
