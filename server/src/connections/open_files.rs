//! The limit of open files and sockets of the process. Systems set a low limit for a service and permit it to raise the
//! limit; the server does so at its start.

use std::io;

#[cfg(unix)]
use rlimit::Resource;

/// Files that are reserved for the database, the object store and the log.
pub(crate) const RESERVED_FILES: usize = 256;
/// The number of listeners that share the remaining files.
const LISTENERS: usize = 2;

/// Raises the limit of open files to the system's maximum and returns it; `None` if the system has no such limit.
///
/// # Errors
/// If the system refuses.
#[cfg(unix)]
pub(crate) fn raise_limit() -> io::Result<Option<u64>> {
    let (soft, hard) = Resource::NOFILE.get()?;
    if soft != hard {
        Resource::NOFILE.set(hard, hard)?;
    }
    Ok(Some(hard))
}

/// Does nothing where the system has no such limit.
///
/// # Errors
/// Never.
#[cfg(not(unix))]
pub(crate) fn raise_limit() -> io::Result<Option<u64>> {
    Ok(None)
}

/// Returns the current limit of open files.
fn current_limit() -> Option<u64> {
    #[cfg(unix)]
    return Resource::NOFILE.get_soft().ok();
    #[cfg(not(unix))]
    return None;
}

/// Returns the highest limit of open files that the system permits.
pub(crate) fn allowed_limit() -> Option<u64> {
    #[cfg(unix)]
    return Resource::NOFILE.get_hard().ok();
    #[cfg(not(unix))]
    return None;
}

/// Returns the highest number of connections of one listener: the configured one, or less if the limit of open files is
/// too low.
pub(crate) fn bounded_total(configured: usize) -> usize {
    bound(configured, current_limit())
}

fn bound(configured: usize, files: Option<u64>) -> usize {
    let Some(files) = files.and_then(|files| usize::try_from(files).ok()) else { return configured };
    let share = files.saturating_sub(RESERVED_FILES) / LISTENERS;
    configured.min(share.max(1))
}

/// Returns whether an error of `accept` means that the process or the system is out of files or memory.
pub(super) fn is_exhausted(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
    }
    #[cfg(not(unix))]
    {
        matches!(error.kind(), io::ErrorKind::OutOfMemory)
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::{RESERVED_FILES, bound, current_limit, raise_limit};

    #[test]
    fn limit_is_raised_to_the_most_that_is_allowed() {
        let allowed = raise_limit().expect("the system allows its own maximum");
        assert_eq!(current_limit(), allowed);
        assert_eq!(raise_limit().expect("nothing is left to do"), allowed);
    }

    #[test]
    fn few_files_leave_room_for_fewer_connections() {
        assert_eq!(bound(4096, None), 4096);
        assert_eq!(bound(4096, Some(65_536)), 4096);
        assert_eq!(bound(4096, Some(1024)), (1024 - RESERVED_FILES) / 2);
        assert_eq!(bound(4096, Some(10)), 1, "it still answers");
    }
}
