//! Restores backups of a site, with its configuration: see [`undertone_worker_site::restore`].

use std::path::Path;

use age::secrecy::SecretString;
use time::OffsetDateTime;
pub use undertone_worker_site::restore::{
    BackupSummary, RestoreError, backup, list_recoveries, mark_restored, pending_restore,
};

use crate::config::Config;
use crate::site::folder::Folder;

/// Restores a backup: into an empty folder, or, with `replace`, over a site, which is moved aside. The ledger and the
/// configuration are checked first, and the ledger is marked: nothing leaves until the worker has compared it with the
/// server's receipts.
///
/// # Errors
/// [`RestoreError`]; the existing site is unchanged then.
pub fn restore(
    folder: &Folder,
    file: &Path,
    passphrase: Option<SecretString>,
    replace: bool,
    now: OffsetDateTime,
) -> Result<BackupSummary, RestoreError> {
    undertone_worker_site::restore::restore(folder, file, passphrase, replace, now, |staged| {
        Config::load(staged).map(drop)
    })
}

#[cfg(test)]
mod tests;
