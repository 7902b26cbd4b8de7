//! The reasons why the daemon does not start, or ends.

use crate::config::ConfigError;
use crate::gateway::GatewayError;
use crate::site::datasets::DatasetsError;
use crate::site::folder::FolderError;
use crate::site::keys::KeyError;
use crate::site::ledger::LedgerError;
use crate::site::policy::PolicyError;
use crate::site::rotation::ChangeError;
use crate::site::store::StoreError;

/// The reason why the daemon does not start, or ends.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration failed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The policy failed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger is inconsistent.
    #[error("the site's ledger cannot be used, so nothing can be released: see `undertone-worker ledger verify`")]
    Ledger(#[from] LedgerError),
    /// The datasets failed.
    #[error(transparent)]
    Datasets(#[from] DatasetsError),
    /// The change to the site's next key failed.
    #[error("cannot change the site's key")]
    Change(#[from] ChangeError),
    /// The server does not accept this worker.
    #[error("the server does not accept this worker")]
    Gateway(#[from] GatewayError),
}
