//! Disk failures, anywhere in a chain of error sources.

use std::error::Error;
use std::io;

use rusqlite::ErrorCode;

/// Returns whether an error was caused by a full or failing disk. The failed operation may then be retried after a
/// repair.
pub fn is_disk_failure(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let is_file = error.downcast_ref::<io::Error>().is_some_and(is_io_failure);
        let is_database = error.downcast_ref::<rusqlite::Error>().is_some_and(is_database_failure);
        if is_file || is_database {
            return true;
        }
        cause = error.source();
    }
    false
}

fn is_io_failure(error: &io::Error) -> bool {
    /// EIO, which has no `ErrorKind` of its own.
    const INPUT_OUTPUT: i32 = 5;
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem
    ) || error.raw_os_error() == Some(INPUT_OUTPUT)
}

fn is_database_failure(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen))
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use rusqlite::ffi;

    use super::is_disk_failure;
    use crate::folder::FolderError;
    use crate::store::StoreError;

    fn database(code: i32) -> StoreError {
        StoreError::sqlite("commit")(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
    }

    #[test]
    fn disk_failures_are_distinguished_from_other_errors() {
        for (code, fails) in [
            (ffi::SQLITE_FULL, true),
            (ffi::SQLITE_IOERR_FSYNC, true),
            (ffi::SQLITE_CANTOPEN, true),
            (ffi::SQLITE_CONSTRAINT, false),
            (ffi::SQLITE_CORRUPT, false),
        ] {
            assert_eq!(is_disk_failure(&database(code)), fails, "{code}");
        }
        let file = |error: io::Error| StoreError::from(FolderError::io("write", Path::new("x"))(error));
        for (error, fails) in [
            (io::Error::from(io::ErrorKind::StorageFull), true),
            (io::Error::from(io::ErrorKind::QuotaExceeded), true),
            (io::Error::from_raw_os_error(5), true),
            (io::Error::from(io::ErrorKind::NotFound), false),
            (io::Error::from(io::ErrorKind::PermissionDenied), false),
        ] {
            let text = error.to_string();
            assert_eq!(is_disk_failure(&file(error)), fails, "{text}");
        }
    }
}
