//! Writes a server's complete state to one encrypted file, and restores a server from such a file: the tables, the keys
//! and certificates of the data folder, the objects of the store.
//!
//! The file is an age file (age-encryption.org/v1, with a passphrase) of a zstd stream of a tar archive: `backup.json`,
//! `database`, `keys/...`, `objects/...`, `end.json`. The database's own tools (`VACUUM INTO`, `pg_dump`) copy the
//! tables in one consistent state while the server runs. Tables are copied before objects, because an object exists
//! before the rows that refer to it.
//!
//! The restore verifies the ledger like `undertone-server verify`, against the sites' heads if given, before it puts
//! the keys in place. It also checks the other secrets: the key of second factors must decrypt every stored one. This
//! module cannot know whether a backup is the newest. Every site does, and sends nothing to a server that has lost one
//! of the site's charges. To back up one more thing: a file in the data folder, or a step in [`write`](mod@write) and
//! [`read`](mod@read).

pub mod command;
mod database;
pub mod read;
#[cfg(test)]
mod restoration_tests;
#[cfg(test)]
mod tests;
mod tree;
pub mod write;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::signed::Signed;

/// The format name in a backup's first member.
pub const FORMAT: &str = "undertone-backup";
/// The version of the format.
pub const VERSION: u32 = 1;
/// The shortest passphrase, characters.
pub const SHORTEST_PASSPHRASE: usize = 12;

/// The first member: a description of the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackupContents {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The program's version that wrote it.
    pub program: String,
    /// The time of the backup.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// `sqlite` or `postgres`: a backup can be restored into the same kind only.
    pub database: String,
    /// Migrations of the tables.
    pub migrations: Vec<String>,
    /// The newest head of the ledger's log, if it has entries.
    pub head: Option<Signed>,
}

/// The last member: without it a backup is incomplete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupEnd {
    /// The number of files of the data folder.
    pub keys: u64,
    /// The number of objects.
    pub objects: u64,
    /// The bytes of the objects.
    pub bytes: u64,
    /// Objects that were removed during the backup because a round had closed and no longer needed its submissions.
    pub gone: u64,
}

/// A reason why a backup or a restore failed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The passphrase is too short.
    #[error(
        "the passphrase needs at least {SHORTEST_PASSPHRASE} characters: set it with --passphrase-file or UNDERTONE_BACKUP_PASSPHRASE"
    )]
    Passphrase,
    /// The passphrase is wrong, or the file was modified.
    #[error("cannot open {path}: {why}")]
    Sealed {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// The file is not a backup that this program can restore.
    #[error("cannot restore {path}: {why}")]
    Contents {
        /// The file.
        path: PathBuf,
        /// The cause.
        why: String,
    },
    /// A server already exists there.
    #[error(
        "{place} is not empty: restore into an empty data folder, database and object store, or move the existing data away"
    )]
    Occupied {
        /// The place that is not empty.
        place: String,
    },
    /// A program of PostgreSQL cannot be run, or failed.
    #[error("{program} failed: {why}")]
    Program {
        /// The program.
        program: &'static str,
        /// The program's own message.
        why: String,
    },
    /// The database cannot be reached.
    #[error("cannot use the database: {0}")]
    Database(#[from] sea_orm::DbErr),
    /// The tables cannot be read.
    #[error("cannot read the tables: {0}")]
    Read(#[source] undertone_server_core::error::Error),
    /// The object store does not work.
    #[error("cannot use the object store: {0}")]
    Store(#[from] object_store::Error),
}

/// Returns a function that adds the path to an I/O error.
fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> BackupError + '_ {
    move |source| BackupError::File { path: path.to_owned(), source }
}
