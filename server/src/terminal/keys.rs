//! The command line of keys: `undertone-server keys list`, `rotate` and `prune` for the server's own secrets,
//! `create-root`, `request`, `sign` and `install` for the keys that sign.
//!
//! The commands write only the key files of the data folder. They work while the server runs, which reads the files
//! again every 15 seconds, and `online.key` before the first signature after its change. Servers that do not share the
//! folder need manual copies of the files before the new key becomes active.

mod certified;
mod secrets;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use clap::Subcommand;

use undertone_server_core::config::Config;
use undertone_server_core::ctx::{Clock, Random};
use undertone_server_core::error::Error;
use undertone_server_core::keys::ceremony::CeremonyError;
use undertone_server_core::keys::ring::RingError;

pub use certified::{InstallOptions, RequestOptions, RootFile, SignOptions};
pub use secrets::{PruneOptions, RotateOptions, SecretKind};

/// The commands.
#[derive(Subcommand)]
pub enum KeysCommand {
    /// List the ids of the token keys and second factor keys. Secrets are not shown.
    List,
    /// Add a new key to a key file. It becomes active after an hour, or after `--after` minutes.
    Rotate(RotateOptions),
    /// Remove keys that are no longer needed from a key file.
    Prune(PruneOptions),
    /// Create a root key in an encrypted file, on an offline machine.
    CreateRoot(RootFile),
    /// Create online keys on the server, or use the key of its external signer, and write a certificate request for them.
    Request(RequestOptions),
    /// Sign a certificate request with the root key, on the root's machine.
    Sign(SignOptions),
    /// Install signed certificates in the server's data folder.
    Install(InstallOptions),
}

/// A reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file does not exist.
    #[error("{} does not exist: set the server's data folder with `--config` or UNDERTONE_DATA_DIR", .0.display())]
    Missing(PathBuf),
    /// The keys do not form a ring.
    #[error("{path}: {source}", path = path.display())]
    Ring {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: RingError,
    },
    /// The option applies to another file.
    #[error(
        "`--stolen` applies to `token`: second factors must be encrypted again before their old key is removed, so use `--after 0`"
    )]
    Stolen,
    /// A step of the certification failed.
    #[error(transparent)]
    Ceremony(#[from] CeremonyError),
    /// The database, or an operation, failed.
    #[error("{0}")]
    Failed(String),
}

impl From<Error> for KeysError {
    fn from(error: Error) -> Self {
        Self::Failed(error.into_problem().detail)
    }
}

/// Runs a command; returns its text for the terminal.
///
/// # Errors
/// [`KeysError`]; in that case nothing changes.
pub async fn run(config: &Config, command: &KeysCommand) -> Result<String, KeysError> {
    execute(config, command, &Clock::system(), &Random::system()).await
}

/// Runs a command with this clock and this source of randomness.
///
/// # Errors
/// As [`run`].
pub(crate) async fn execute(
    config: &Config,
    command: &KeysCommand,
    clock: &Clock,
    random: &Random,
) -> Result<String, KeysError> {
    match command {
        KeysCommand::List => secrets::list(config, clock.now()),
        KeysCommand::Rotate(options) => secrets::rotate(config, options, clock.now(), random),
        KeysCommand::Prune(options) => secrets::prune(config, options.kind, clock.now()).await,
        KeysCommand::CreateRoot(options) => certified::create_root(options, random),
        KeysCommand::Request(options) => certified::request(config, options, clock.now(), random).await,
        KeysCommand::Sign(options) => certified::sign(options, clock.now()),
        KeysCommand::Install(options) => certified::install(config, options, clock.now()),
    }
}
