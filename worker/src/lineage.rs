//! Lineages of this worker's kinds of datasets: see [`undertone_worker_site::lineage`].

use std::path::Path;

use age::secrecy::SecretString;
use time::OffsetDateTime;
use undertone_worker_site::lineage;
pub use undertone_worker_site::lineage::{
    COMPARED, DataOverlap, ExchangeError, FingerprintCollector, ImportedLineages, KnownDataset, LineageError,
    LineageIntake, LineageMarker, LineageOwner, LineageSummary, SharedLineages, dataset_lineages, find_recordings,
    has_sources, note_registered, summarize, warnings,
};

use crate::config::{Config, ConfigError};
use crate::datasets::DatasetMeta;
use crate::site::folder::Folder;

fn owner(folder: &Folder) -> Result<LineageOwner, ConfigError> {
    let config = Config::load(folder)?;
    Ok(LineageOwner { worker: config.worker_name, organization: config.organization })
}

/// Writes the organization's keys and the lineages that are not public to `file`, sealed. Returns the number of
/// lineages.
///
/// # Errors
/// [`ExchangeError`]; there is no new file then.
pub fn export(
    folder: &Folder,
    file: &Path,
    passphrase: SecretString,
    now: OffsetDateTime,
) -> Result<usize, ExchangeError> {
    lineage::export::<DatasetMeta>(&owner(folder)?, folder, file, passphrase, now)
}

/// Imports the lineages of another worker of the organization.
///
/// # Errors
/// [`ExchangeError`]; nothing was imported then.
pub fn import(
    folder: &Folder,
    file: &Path,
    passphrase: SecretString,
    now: OffsetDateTime,
) -> Result<ImportedLineages, ExchangeError> {
    lineage::import::<DatasetMeta>(&owner(folder)?, folder, file, passphrase, now)
}
