//! `enroll`: creates a site from a token.

use std::io::Write;
use std::path::Path;

use crate::config::{CheckedToken, Config, ConfigError, ProxyServer, parse_proxy};
use crate::dp::device::Compute;
use crate::gateway::{self, GatewayError};
use crate::site::folder::{Folder, FolderError, write_durably};
use crate::site::keys::{KeyError, SiteKey};
use crate::site::policy::TEMPLATE;
use crate::site::server_trust::{ServerTrust, ServerTrustError};
use crate::site::store::{Store, StoreError};

/// The reason for a failed enrolment.
#[derive(Debug, thiserror::Error)]
pub enum EnrollError {
    /// The token or the site's configuration failed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The folder failed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The key failed.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The stored keys of the server failed.
    #[error(transparent)]
    Trust(#[from] ServerTrustError),
    /// The server failed.
    #[error(
        "enrolment failed, and the site joined no consortium: if the token is used or expired, create a new one in the dashboard"
    )]
    Gateway(#[from] GatewayError),
    /// The text cannot be printed.
    #[error("cannot print")]
    Print(#[from] std::io::Error),
}

/// Enrols a site: makes its key, spends the token, writes configuration, policy and an empty ledger. A site that is
/// already enrolled does not change.
///
/// # Errors
/// [`EnrollError`]; the new key is kept for the next attempt.
pub async fn enroll(folder: &Folder, token: &str) -> Result<Config, EnrollError> {
    enroll_with_proxy(folder, token, None).await
}

/// As [`enroll`], by way of a proxy, which the configuration keeps.
///
/// # Errors
/// As [`enroll`].
pub(super) async fn enroll_with_proxy(
    folder: &Folder,
    token: &str,
    proxy: Option<ProxyServer>,
) -> Result<Config, EnrollError> {
    if folder.config().exists() {
        let existing = Config::load(folder)?;
        return Err(ConfigError::AlreadyEnrolled {
            folder: folder.root().to_owned(),
            name: existing.worker_name,
            server: existing.server.address().to_owned(),
        }
        .into());
    }
    let mut token = CheckedToken::parse(token)?;
    token.server = token.server.with_proxy(proxy);
    let _lock = folder.lock()?;
    let key = SiteKey::load_or_make(&folder.key())?;
    Store::create(&folder.ledger())?;
    if !folder.policy().exists() {
        write_durably(&folder.policy(), TEMPLATE.as_bytes())?;
    }
    if let Some(root) = &token.server_root {
        ServerTrust::pin(folder, &token.server_key, root)?;
    }
    let worker = gateway::enroll(&token, &key).await?;
    let config = Config {
        server: token.server,
        server_key: token.server_key,
        worker: worker.id,
        worker_name: worker.name,
        organization: worker.organization,
        organization_name: worker.organization_name,
        concurrent_runs: 4,
        rotate_key_days: 365,
        anchor: None,
        compute: Compute::default(),
        queries: crate::config::queries::Queries::default(),
        transcription: crate::config::transcription::TranscriptionSettings::default(),
        programs: crate::speech::sandbox::Programs::default(),
    };
    config.store(folder)?;
    Ok(config)
}

pub(super) fn run(
    folder: &Folder,
    token: &str,
    proxy: Option<&str>,
    proxy_ca: Option<&Path>,
    out: &mut dyn Write,
) -> Result<(), EnrollError> {
    let proxy = parse_proxy(proxy, proxy_ca.map(Path::to_owned))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let config = runtime.block_on(enroll_with_proxy(folder, token, proxy))?;
    writeln!(
        out,
        "Worker `{}` of {} is enrolled at {}.\n\
         Its key is {}: back it up, and keep it secret.\n\
         Read {} and adapt it to your rules. Pin the keys with which your stewards approve jobs:\n\n  \
         undertone-worker approval-keys add <line>\n\nThen:\n\n  undertone-worker --site {} run",
        config.worker_name,
        config.organization_name,
        config.server.address(),
        folder.key().display(),
        folder.policy().display(),
        folder.root().display(),
    )?;
    Ok(())
}
