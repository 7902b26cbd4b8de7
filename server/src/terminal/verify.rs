//! The command line of the verification: `undertone-server verify` and `undertone-server ledger export`.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use ed25519_dalek::VerifyingKey;
use undertone_api::signed::{Signed, public_key};

use undertone_server_core::config::Config;
use undertone_server_core::ctx::Clock;
use undertone_server_core::db::Db;
use undertone_server_core::keys;
use undertone_server_core::service::bundle;
use undertone_server_core::verify::{Pins, Report, file};

/// The options of `verify`.
#[derive(Debug, Clone, Default, Args)]
pub struct VerifyOptions {
    /// Verify this bundle instead of the configured database; needs neither database nor keys.
    #[arg(long, value_name = "FILE")]
    pub bundle: Option<PathBuf>,
    /// A signed head from a site (JSON: `payload` and `signature`) that the log must continue. Without a head, a truncation of the
    /// newest rows together with their heads is not detected.
    #[arg(long, value_name = "FILE")]
    pub head: Option<PathBuf>,
    /// The server's public key, as pinned by the sites (64 hex digits). By default, a database is verified with the key in the data
    /// folder, and a bundle with the key that it contains.
    #[arg(long, value_name = "HEX")]
    pub server_key: Option<String>,
}

/// A reason why nothing could be verified.
#[derive(Debug, thiserror::Error)]
pub enum LedgerCommandError {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The given key is invalid.
    #[error("--server-key is not an Ed25519 public key: expected 64 hex digits, as in a site's configuration")]
    Key,
    /// The key for the verification is unknown.
    #[error("the data folder {0} has no signing.key: set --server-key, or configure the data folder of this database")]
    NoKey(PathBuf),
    /// The given head is invalid.
    #[error("{path} is not a signed head: {source}")]
    Head {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The database cannot be reached.
    #[error("cannot use the database: {0}")]
    Connect(#[from] sea_orm::DbErr),
    /// The database does not answer correctly.
    #[error("cannot read the ledger: {0}")]
    Read(#[source] undertone_server_core::error::Error),
}

/// Verifies the ledger that the options select.
///
/// # Errors
/// [`LedgerCommandError`] if nothing can be verified. The report contains the failed checks.
pub async fn verify(config: &Config, options: &VerifyOptions) -> Result<Report, LedgerCommandError> {
    let server_key =
        options.server_key.as_deref().map(|text| public_key(text).map_err(|_| LedgerCommandError::Key)).transpose()?;
    let pins = Pins { server_key, head: options.head.as_deref().map(head).transpose()? };
    if let Some(path) = &options.bundle {
        let in_file = |source| LedgerCommandError::File { path: path.clone(), source };
        return file::examine(BufReader::new(File::open(path).map_err(in_file)?), pins).map_err(in_file);
    }
    let key = match server_key {
        Some(key) => key,
        None => own_key(config)?,
    };
    let db = Db::inspect(&config.database()).await?;
    let report = bundle::examine(&db, &key, pins, Clock::system().now()).await.map_err(LedgerCommandError::Read)?;
    db.close().await?;
    Ok(report)
}

/// Writes a complete bundle, or none. Returns the number of its rows that differ from the original ones.
///
/// # Errors
/// [`LedgerCommandError`] if it cannot be written.
pub async fn export(config: &Config, to: &Path) -> Result<u64, LedgerCommandError> {
    let key = own_key(config)?;
    let db = Db::inspect(&config.database()).await?;
    let in_file = |source| LedgerCommandError::File { path: to.to_owned(), source };
    let part = to.with_extension("part");
    let mut file = BufWriter::new(File::create(&part).map_err(in_file)?);
    let changed_rows = bundle::export(&db, &key, Clock::system().now(), |bytes| file.write_all(bytes)).await;
    let changed_rows = changed_rows.map_err(LedgerCommandError::Read)?;
    let file = file.into_inner().map_err(|error| in_file(error.into_error()))?;
    file.sync_all().and_then(|()| std::fs::rename(&part, to)).map_err(in_file)?;
    db.close().await?;
    Ok(changed_rows)
}

fn own_key(config: &Config) -> Result<VerifyingKey, LedgerCommandError> {
    let in_folder = |source| LedgerCommandError::File { path: config.data_dir.join("signing.key"), source };
    let key = keys::verifying_key(&config.data_dir).map_err(in_folder)?;
    key.ok_or_else(|| LedgerCommandError::NoKey(config.data_dir.clone()))
}

pub(crate) fn head(path: &Path) -> Result<Signed, LedgerCommandError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| LedgerCommandError::File { path: path.to_owned(), source })?;
    serde_json::from_str(&text).map_err(|source| LedgerCommandError::Head { path: path.to_owned(), source })
}
