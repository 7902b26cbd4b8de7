//! Copies the tables into one file with the database's own tools: SQLite copies itself, PostgreSQL provides programs.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::{BackupError, file_error};
use undertone_server_core::config::Config;
use undertone_server_core::db::Db;

/// The database of the configuration.
pub(super) enum DatabaseKind {
    /// A SQLite file.
    Sqlite(PathBuf),
    /// PostgreSQL, at this address.
    Postgres(String),
}

impl DatabaseKind {
    /// Returns the configured database.
    pub(super) fn from_config(config: &Config) -> Self {
        let url = config.database();
        match url.strip_prefix("sqlite:") {
            Some(rest) => {
                let path = rest.trim_start_matches("//").split('?').next().unwrap_or_default();
                Self::Sqlite(PathBuf::from(path))
            }
            None => Self::Postgres(url),
        }
    }

    /// Returns its name in a backup.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }

    /// Copies all tables in their current state into a new file. The copy is not encrypted, so only its owner can read
    /// it.
    pub(super) async fn copy(&self, to: &Path) -> Result<(), BackupError> {
        // The file is created first, with its mode; the database's tools would create it with the default mode.
        drop(private(to).map_err(file_error(to))?);
        match self {
            Self::Sqlite(path) => {
                let db = Db::connect(&format!("sqlite://{}?mode=rw", path.display())).await?;
                let copied = db.copy_into(to).await;
                db.close().await?;
                Ok(copied?)
            }
            Self::Postgres(url) => {
                let mut command = program("pg_dump", url)?;
                command.args(["--format=custom", "--compress=0", "--no-owner", "--no-privileges", "--file"]).arg(to);
                run("pg_dump", command).await
            }
        }
    }

    /// Returns whether the database is empty.
    pub(super) async fn is_empty(&self) -> Result<bool, BackupError> {
        match self {
            Self::Sqlite(path) => Ok(!path.exists()),
            Self::Postgres(url) => {
                let db = Db::inspect(url).await?;
                let empty = db.has_no_tables().await?;
                db.close().await?;
                Ok(empty)
            }
        }
    }

    /// Restores a copy for verification, and returns its address: SQLite's copy stays at its place, PostgreSQL's goes
    /// into the configured database.
    pub(super) async fn stage(&self, copy: &Path) -> Result<String, BackupError> {
        match self {
            Self::Sqlite(_) => Ok(format!("sqlite://{}?mode=rw", copy.display())),
            Self::Postgres(url) => {
                let mut command = program("pg_restore", url)?;
                command.args(["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]).arg(copy);
                run("pg_restore", command).await?;
                Ok(url.clone())
            }
        }
    }

    /// Puts a verified copy in place.
    pub(super) fn place(&self, copy: &Path) -> Result<(), BackupError> {
        match self {
            Self::Sqlite(path) => {
                if let Some(folder) = path.parent() {
                    std::fs::create_dir_all(folder).map_err(file_error(folder))?;
                }
                // The part that was not written back when the copy was closed; usually there is none.
                let beside = |path: &Path| PathBuf::from(format!("{}-wal", path.display()));
                if beside(copy).exists() {
                    std::fs::rename(beside(copy), beside(path)).map_err(file_error(path))?;
                }
                std::fs::rename(copy, path).map_err(file_error(path))
            }
            Self::Postgres(_) => Ok(()),
        }
    }
}

/// Creates a new file that only its owner can read; fails if the file exists.
fn private(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Makes the command of a PostgreSQL program for the database at an address. The password is not an argument, because
/// every user of the machine could read it.
fn program(name: &'static str, url: &str) -> Result<Command, BackupError> {
    let wrong = |why: String| BackupError::Program { program: name, why };
    let mut address = url::Url::parse(url).map_err(|error| wrong(format!("database_url cannot be read: {error}")))?;
    let password = address.password().map(decoded);
    let _ = address.set_password(None);
    let mut command = Command::new(find_program(name));
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    command.args(["--no-password", "--dbname"]).arg(address.as_str());
    Ok(command)
}

/// Decodes the percent escapes of a part of a URL.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        if let Some(byte) = escaped.and_then(|digits| hex::decode(digits).ok()) {
            plain.extend(byte);
            at += 3;
        } else {
            plain.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Returns the path of the newest version in Debian's folders, which are not in `PATH`; otherwise the bare name.
fn find_program(name: &str) -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut all: Vec<(u32, PathBuf)> = versions
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin").join(name))))
        .filter(|(_, path)| path.is_file())
        .collect();
    all.sort();
    all.pop().map_or_else(|| PathBuf::from(name), |(_, path)| path)
}

async fn run(name: &'static str, mut command: Command) -> Result<(), BackupError> {
    let failed = |why: String| BackupError::Program { program: name, why };
    let output = command
        .output()
        .await
        .map_err(|error| failed(format!("{error}; install PostgreSQL's client, of the database's version or later")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn a_password_is_read_as_it_was_meant() {
        assert_eq!(decoded("a%40b%2Fc%"), "a@b/c%");
        assert_eq!(decoded("plain"), "plain");
    }
}
