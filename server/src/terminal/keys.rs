//! The command line of keys: `undertone-server keys list`, `rotate` and `prune` for the secrets that the server shares with itself,
//! `create-root`, `request`, `sign` and `install` for the keys that sign.
//!
//! The commands write the key files of the data folder and nothing else; they work while the server runs, which reads the files again
//! every 15 seconds. Servers that do not share the folder get the files by hand, before the new key is in force.

mod certified;
mod secrets;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;

use clap::Subcommand;

use crate::config::Config;
use crate::ctx::{Clock, Random};
use crate::error::Error;
use crate::keys::ceremony::CeremonyError;
use crate::keys::ring::RingError;

pub use certified::{InstallOptions, RequestOptions, RootFile, SignOptions};
pub use secrets::{PruneOptions, RotateOptions, SecretKind};

/// The commands.
#[derive(Subcommand)]
pub enum KeysCommand {
    /// List the keys of tokens and of second factors by their ids. No secret is shown.
    List,
    /// Add a new key to a file: it is in force an hour later, or as `--after` has it.
    Rotate(RotateOptions),
    /// Remove the keys of a file that nothing needs any more.
    Prune(PruneOptions),
    /// Make a root key in a sealed file, on a machine that stays offline.
    CreateRoot(RootFile),
    /// Make new online keys at the server, or name the key of its external signer, and make the request for their certificates.
    Request(RequestOptions),
    /// Sign a request with the root, on its machine.
    Sign(SignOptions),
    /// Put signed certificates into the server's data folder.
    Install(InstallOptions),
}

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// A file cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no such file.
    #[error("{} does not exist: name the server's data folder by `--config` or UNDERTONE_DATA_DIR", .0.display())]
    Missing(PathBuf),
    /// The keys do not make a ring.
    #[error("{path}: {source}", path = path.display())]
    Ring {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: RingError,
    },
    /// The option is for another file.
    #[error(
        "`--stolen` is for `token`: second factors must be sealed again before their old key can go, so use `--after 0`"
    )]
    Stolen,
    /// A step of certifying keys failed.
    #[error(transparent)]
    Ceremony(#[from] CeremonyError),
    /// The database, or a rule, failed.
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
/// [`KeysError`]; then nothing was changed.
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
