//! Failures of the systems below the server: the disk, the database, the object store, the holder of its signing keys. They end without a change of the request,
//! so callers try again (`unavailable`); a worker pauses its job until then.
//!
//! To add a code: a row in [`SQLITE`] or [`POSTGRES`]. A failure that is in neither table is a defect (`internal`).

use std::error::Error as StdError;
use std::io;

use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::postgres::PgDatabaseError;
use sea_orm::sqlx::sqlite::SqliteError;
use sea_orm::{DbErr, RuntimeErr, sqlx};
use undertone_api::signed::SignedError;

/// A system below the server that currently does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    /// The database does not answer, or closes connections.
    Database,
    /// The database is busy for longer than a request waits.
    Busy,
    /// The disk of the database or of the objects is full.
    Full,
    /// The disk cannot be read or written.
    Disk,
    /// The object store does not answer, or refuses the server's keys.
    Store,
    /// No key may sign, or its holder does not answer.
    Signer,
}

/// SQLite's primary result codes that are outages (<https://www.sqlite.org/rescode.html>).
const SQLITE: &[(u32, Outage)] = &[
    // SQLITE_BUSY, SQLITE_LOCKED
    (5, Outage::Busy),
    (6, Outage::Busy),
    // SQLITE_NOMEM
    (7, Outage::Database),
    // SQLITE_IOERR
    (10, Outage::Disk),
    // SQLITE_FULL
    (13, Outage::Full),
    // SQLITE_CANTOPEN: also the answer when the process has no file descriptor left.
    (14, Outage::Disk),
    // SQLITE_PROTOCOL: the lock of the write-ahead log was not available.
    (15, Outage::Busy),
];

/// PostgreSQL's SQLSTATE codes that are outages, complete or by class (two characters); the first match applies
/// (<https://www.postgresql.org/docs/current/errcodes-appendix.html>).
const POSTGRES: &[(&str, Outage)] = &[
    // Connection exception
    ("08", Outage::Database),
    // serialization_failure, deadlock_detected: after the last retry
    ("40001", Outage::Busy),
    ("40P01", Outage::Busy),
    // disk_full
    ("53100", Outage::Full),
    // Insufficient resources: out_of_memory, too_many_connections
    ("53", Outage::Database),
    // lock_not_available: the writer's turn did not come
    ("55P03", Outage::Busy),
    // query_canceled: a time limit of the database
    ("57014", Outage::Busy),
    // Operator intervention: shutdown, crash, cannot_connect_now
    ("57", Outage::Database),
    // io_error and other errors of the system that PostgreSQL runs on
    ("58", Outage::Disk),
];

impl Outage {
    /// Returns the outage behind an error of the database, if any.
    pub(super) fn from_database(error: &DbErr) -> Option<Self> {
        match error {
            DbErr::Exec(RuntimeErr::SqlxError(cause))
            | DbErr::Query(RuntimeErr::SqlxError(cause))
            | DbErr::Conn(RuntimeErr::SqlxError(cause)) => {
                let connecting = matches!(error, DbErr::Conn(_)).then_some(Self::Database);
                Self::from_sqlx(cause).or(connecting)
            }
            DbErr::ConnectionAcquire(_) | DbErr::Conn(_) => Some(Self::Database),
            _ => None,
        }
    }

    fn from_sqlx(error: &sqlx::Error) -> Option<Self> {
        match error {
            sqlx::Error::Database(error) => Self::from_code(error.as_ref()),
            sqlx::Error::Io(error) => Some(Self::from_io(error).unwrap_or(Self::Database)),
            sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed
            | sqlx::Error::BeginFailed => Some(Self::Database),
            _ => None,
        }
    }

    fn from_code(error: &dyn DatabaseError) -> Option<Self> {
        if error.as_error().is::<SqliteError>() {
            return Self::from_sqlite(error.code()?.parse().ok()?);
        }
        if error.as_error().is::<PgDatabaseError>() {
            return Self::from_postgres(&error.code()?);
        }
        None
    }

    /// Returns the outage of an extended result code: its lowest byte is the primary one.
    fn from_sqlite(code: u32) -> Option<Self> {
        SQLITE.iter().find(|(primary, _)| *primary == code & 0xff).map(|(_, outage)| *outage)
    }

    fn from_postgres(code: &str) -> Option<Self> {
        POSTGRES.iter().find(|(prefix, _)| code.starts_with(prefix)).map(|(_, outage)| *outage)
    }

    /// Returns the outage behind a failure of the object store, of a file or of a signature, if one stands in the chain of causes.
    pub(super) fn from_chain(error: &(dyn StdError + 'static)) -> Option<Self> {
        let mut cause = Some(error);
        let mut outage = None;
        while let Some(error) = cause {
            if let Some(disk) = error.downcast_ref::<io::Error>().and_then(Self::from_io) {
                return Some(disk);
            }
            if let Some(store) = error.downcast_ref::<object_store::Error>() {
                outage = Self::from_store(store);
            }
            if let Some(SignedError::Unavailable(_)) = error.downcast_ref() {
                return Some(Self::Signer);
            }
            cause = error.source();
        }
        outage
    }

    /// Returns the outage of a store's error. A missing object is a defect, because a row refers to it. A malformed
    /// path is one too.
    const fn from_store(error: &object_store::Error) -> Option<Self> {
        match error {
            object_store::Error::Generic { .. }
            | object_store::Error::JoinError { .. }
            | object_store::Error::PermissionDenied { .. }
            | object_store::Error::Unauthenticated { .. } => Some(Self::Store),
            _ => None,
        }
    }

    /// Returns the outage of a file operation, if the disk is the cause.
    fn from_io(error: &io::Error) -> Option<Self> {
        /// EIO has no error kind.
        const INPUT_OUTPUT: i32 = 5;
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(Self::Full),
            io::ErrorKind::ReadOnlyFilesystem => Some(Self::Disk),
            _ if error.raw_os_error() == Some(INPUT_OUTPUT) => Some(Self::Disk),
            _ => None,
        }
    }

    /// Returns the message for the caller: the system, and when to retry.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Database => "the server cannot reach its database just now; try again in a moment",
            Self::Busy => "the server's database is busy just now; try again in a moment",
            Self::Full => "the server's disk is full; try again when its operator has made room",
            Self::Disk => "the server's disk does not work just now; try again in a moment",
            Self::Store => "the server cannot reach its object store just now; try again in a moment",
            Self::Signer => "the server cannot sign just now; try again in a moment",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use sea_orm::{ConnAcquireErr, DbErr, RuntimeErr, sqlx};
    use undertone_api::problem::Code;
    use undertone_api::signed::SignedError;

    use super::Outage;
    use crate::error::Error;
    use crate::exchange::object::ObjectError;

    #[test]
    fn sqlite_codes_map_to_their_outage() {
        for (code, outage) in [
            (5, Some(Outage::Busy)),
            // SQLITE_BUSY_RECOVERY, SQLITE_BUSY_SNAPSHOT
            (261, Some(Outage::Busy)),
            (517, Some(Outage::Busy)),
            (6, Some(Outage::Busy)),
            (7, Some(Outage::Database)),
            (10, Some(Outage::Disk)),
            // SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC
            (778, Some(Outage::Disk)),
            (1034, Some(Outage::Disk)),
            (13, Some(Outage::Full)),
            (14, Some(Outage::Disk)),
            (15, Some(Outage::Busy)),
            // SQLITE_ERROR, SQLITE_READONLY, SQLITE_CORRUPT, SQLITE_CONSTRAINT_UNIQUE, SQLITE_NOTADB
            (1, None),
            (8, None),
            (11, None),
            (2067, None),
            (26, None),
        ] {
            assert_eq!(Outage::from_sqlite(code), outage, "{code}");
        }
    }

    #[test]
    fn postgres_codes_map_to_their_outage() {
        for (code, outage) in [
            ("08006", Some(Outage::Database)),
            ("40001", Some(Outage::Busy)),
            ("40P01", Some(Outage::Busy)),
            ("53100", Some(Outage::Full)),
            ("53200", Some(Outage::Database)),
            ("53300", Some(Outage::Database)),
            ("55P03", Some(Outage::Busy)),
            ("57014", Some(Outage::Busy)),
            ("57P01", Some(Outage::Database)),
            ("57P03", Some(Outage::Database)),
            ("58030", Some(Outage::Disk)),
            // unique_violation, undefined_table, read_only_sql_transaction, invalid_password
            ("23505", None),
            ("42P01", None),
            ("25006", None),
            ("28P01", None),
        ] {
            assert_eq!(Outage::from_postgres(code), outage, "{code}");
        }
    }

    #[test]
    fn connections_that_fail_are_outages() {
        let wrapped = |error: sqlx::Error| RuntimeErr::SqlxError(Arc::new(error));
        let refused = || sqlx::Error::Io(io::Error::from(io::ErrorKind::ConnectionRefused));
        for error in [
            DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
            DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed),
            DbErr::Conn(wrapped(refused())),
            DbErr::Exec(wrapped(refused())),
            DbErr::Query(wrapped(sqlx::Error::WorkerCrashed)),
        ] {
            let text = error.to_string();
            assert_eq!(Error::from(error).code(), Code::Unavailable, "{text}");
        }
        assert_eq!(Error::from(DbErr::Query(wrapped(sqlx::Error::RowNotFound))).code(), Code::Internal);
    }

    #[test]
    fn failures_of_store_and_signer_are_outages() {
        let stored = |error: object_store::Error| Error::internal("keeping an object", ObjectError::Store(error));
        let failed =
            |source: io::Error| object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(source) };
        for (error, detail) in [
            (failed(io::Error::from(io::ErrorKind::StorageFull)), Outage::Full.detail()),
            (failed(io::Error::from_raw_os_error(5)), Outage::Disk.detail()),
            (failed(io::Error::from(io::ErrorKind::TimedOut)), Outage::Store.detail()),
        ] {
            let problem = stored(error).into_problem();
            assert_eq!((problem.code, problem.detail.as_str()), (Code::Unavailable, detail));
        }
        let unsigned = SignedError::Unavailable("the signing program does not answer".to_owned());
        let problem = Error::internal("signing a head", unsigned).into_problem();
        assert_eq!((problem.code, problem.detail.as_str()), (Code::Unavailable, Outage::Signer.detail()));
        assert_eq!(Error::internal("signing a head", SignedError::Malformed).code(), Code::Internal);
        let missing = object_store::Error::NotFound { path: "averages/1".to_owned(), source: "none".into() };
        assert_eq!(stored(missing).code(), Code::Internal);
    }
}
