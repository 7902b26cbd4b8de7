//! Backups of a site and their way back, with its configuration: see [`undertone_worker_site::restore`].

use std::path::Path;

use age::secrecy::SecretString;
use time::OffsetDateTime;
pub use undertone_worker_site::restore::{Kept, RestoreError, backup, recovered, restored, waits};

use crate::config::Config;
use crate::site::folder::Folder;

/// Puts a backup in place: into an empty folder, or, with `replace`, where a site is, which is moved aside. The ledger and the
/// configuration are checked first, and the ledger is marked: nothing leaves until the worker has compared it with what the server has.
///
/// # Errors
/// [`RestoreError`]; what was here is here still.
pub fn restore(
    folder: &Folder,
    file: &Path,
    passphrase: Option<SecretString>,
    replace: bool,
    now: OffsetDateTime,
) -> Result<Kept, RestoreError> {
    undertone_worker_site::restore::restore(folder, file, passphrase, replace, now, |staged| {
        Config::load(staged).map(drop)
    })
}

#[cfg(test)]
mod tests;
