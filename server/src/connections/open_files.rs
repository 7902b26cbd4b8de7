//! How many files and sockets the process may have open. Systems give a service a small number and let it ask for more: the server
//! asks at its start.

use std::io;

#[cfg(unix)]
use rlimit::Resource;

/// Files that are kept for the database, the object store and the log, whatever connections there are.
pub(crate) const RESERVED_FILES: usize = 256;
/// Listeners that share what is left.
const LISTENERS: usize = 2;

/// Raises the number of files that the process may open to the most that the system allows it, and returns that number; `None` where
/// the system has no such number.
///
/// # Errors
/// When the system refuses.
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

/// Returns how many files the process may have open now.
fn current_limit() -> Option<u64> {
    #[cfg(unix)]
    return Resource::NOFILE.get_soft().ok();
    #[cfg(not(unix))]
    return None;
}

/// Returns how many files the system lets the process open once it asks for them.
pub(crate) fn allowed_limit() -> Option<u64> {
    #[cfg(unix)]
    return Resource::NOFILE.get_hard().ok();
    #[cfg(not(unix))]
    return None;
}

/// Returns the most connections of one listener: what is configured, or less where the process may not open so many files.
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

#[cfg(all(test, unix))]
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
