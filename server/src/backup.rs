//! Everything that a server consists of in one sealed file, and a server made of such a file again: the tables, the keys and
//! certificates of the data folder, the objects of the store.
//!
//! The file is an age file (age-encryption.org/v1, with a passphrase) of a zstd stream of a tar archive: `backup.json`, `database`,
//! `keys/...`, `objects/...`, `end.json`. Tables are taken by the database's own means (`VACUUM INTO`, `pg_dump`) in one
//! consistent state while the server runs, and before the objects, which are there before the rows that name them.
//!
//! A restored ledger is examined as `undertone-server verify` does, against heads that sites kept where they are given, before its
//! keys are put in place; so are the other secrets: that of second factors has to open every one that is stored. Whether it is the newest nobody here can know: every site does, and lets nothing out to a server that
//! forgot what the site paid. To keep one more thing: a file in the data folder, or a step in [`write`](mod@write) and [`read`](mod@read).

pub mod command;
mod database;
pub mod read;
#[cfg(test)]
mod tests;
mod tree;
pub mod write;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_api::signed::Signed;

/// What is in a backup's first member.
pub const FORMAT: &str = "undertone-backup";
/// The version of the format.
pub const VERSION: u32 = 1;
/// Fewest characters of a passphrase.
pub const SHORTEST_PASSPHRASE: usize = 12;

/// The first member: what the others are.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Contents {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// The program that wrote it.
    pub program: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
    /// `sqlite` or `postgres`: it can be restored into the same only.
    pub database: String,
    /// Migrations of the tables.
    pub migrations: Vec<String>,
    /// The newest head of the ledger's log, when it has begun.
    pub head: Option<Signed>,
}

/// The last member: without it a backup is not whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Files of the data folder.
    pub keys: u64,
    /// Objects.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that were removed while the backup was made: a round had closed, its submissions were no longer needed.
    pub gone: u64,
}

/// Why there is no backup, or none was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The passphrase is too short.
    #[error(
        "the passphrase needs at least {SHORTEST_PASSPHRASE} characters: give it by --passphrase-file, or in UNDERTONE_BACKUP_PASSPHRASE"
    )]
    Passphrase,
    /// The file cannot be opened with this passphrase, or was changed.
    #[error("{path} cannot be opened: {why}")]
    Sealed {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// What is in the file is no backup of ours.
    #[error("{path} is no backup that this program can restore: {why}")]
    Contents {
        /// The file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// There is a server already.
    #[error("{place} is not empty: restore into an empty data folder, database and store; move away what is there")]
    Occupied {
        /// What is not empty.
        place: String,
    },
    /// A program of PostgreSQL's cannot be run, or failed.
    #[error("{program} did not do its work: {why}")]
    Program {
        /// Which.
        program: &'static str,
        /// Why, in its own words.
        why: String,
    },
    /// The database cannot be reached.
    #[error("the database cannot be used: {0}")]
    Database(#[from] sea_orm::DbErr),
    /// The tables cannot be read.
    #[error("the tables cannot be read: {0}")]
    Read(#[source] crate::error::Error),
    /// The object store does not work.
    #[error("the object store cannot be used: {0}")]
    Store(#[from] object_store::Error),
}

/// A failure at a file.
fn at(path: &Path) -> impl FnOnce(std::io::Error) -> BackupError + '_ {
    move |source| BackupError::File { path: path.to_owned(), source }
}
