//! The identity of a worker and of its server: `config.toml`, written once at enrolment.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};
use undertone_api::id::{OrganizationId, WorkerId};
use undertone_api::signed::public_key;
use undertone_api::worker::EnrolmentToken;

use crate::dp::device::Compute;
use crate::site::folder::{Folder, FolderError, write_durably};
use crate::speech::sandbox::Programs;
pub use proxy::ProxyServer;
use queries::Queries;
use transcription::TranscriptionSettings;
pub use undertone_worker_queries::config as queries;
pub use undertone_worker_site::config::ConfigError;
use undertone_worker_site::config::{field, host, is_loopback};
use undertone_worker_site::ledger::anchor::LedgerAnchor;

pub mod check;
#[cfg(test)]
mod fuzz;
mod proxy;
pub mod transcription;

/// The prefix of every enrolment token.
pub const TOKEN_PREFIX: &str = "ute1.";

/// The server's address and identity: TLS with one pinned certificate, or plain text that never leaves this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEndpoint {
    /// The address: `https://host:port`, or `http://` on loopback.
    address: String,
    /// SHA-256 of the only accepted certificate (DER); `None` on loopback without TLS.
    certificate: Option<[u8; 32]>,
    /// The proxy between the worker and the server; `None` for a direct connection.
    proxy: Option<ProxyServer>,
}

impl ServerEndpoint {
    /// Parses an address and the fingerprint of its certificate.
    ///
    /// # Errors
    /// [`ConfigError::Field`] when the address is neither `https` nor on loopback, or fingerprint and address disagree.
    pub fn new(address: &str, certificate: Option<&str>) -> Result<Self, ConfigError> {
        let (scheme, rest) = address
            .split_once("://")
            .ok_or_else(|| field("server", format!("`{address}` has no scheme: write https://host:port")))?;
        let host = host(rest.trim_end_matches('/'))
            .ok_or_else(|| field("server", format!("`{address}` is not scheme://host:port")))?;
        let certificate = certificate.map(parse_fingerprint).transpose()?;
        match (scheme, &certificate) {
            ("https", Some(_)) | ("http", None) if scheme == "https" || is_loopback(host) => {}
            ("https", None) => {
                return Err(field(
                    "certificate",
                    "an https server requires the SHA-256 of its certificate: enrol with a token that contains it",
                ));
            }
            ("http", _) if !is_loopback(host) => {
                return Err(field(
                    "server",
                    format!(
                        "`{address}` is plain http to another machine, which would send gradients and sessions in the clear: use https"
                    ),
                ));
            }
            ("http", Some(_)) => {
                return Err(field(
                    "certificate",
                    "a certificate is pinned, but the address is plain http: write https",
                ));
            }
            _ => return Err(field("server", format!("`{scheme}` is neither https nor http"))),
        }
        Ok(Self { address: address.trim_end_matches('/').to_owned(), certificate, proxy: None })
    }

    /// Connects to the server through `proxy`; directly when it is `None`.
    #[must_use]
    pub fn with_proxy(self, proxy: Option<ProxyServer>) -> Self {
        Self { proxy, ..self }
    }

    /// Returns the proxy between the worker and the server.
    pub const fn proxy(&self) -> Option<&ProxyServer> {
        self.proxy.as_ref()
    }

    /// Returns the address.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns SHA-256 of the pinned certificate; `None` on loopback without TLS.
    pub const fn certificate(&self) -> Option<[u8; 32]> {
        self.certificate
    }
}

fn parse_fingerprint(text: &str) -> Result<[u8; 32], ConfigError> {
    let plain: String = text.chars().filter(|c| *c != ':').collect();
    hex::decode(plain)
        .ok()
        .and_then(|bytes| bytes.try_into().ok())
        .ok_or_else(|| field("certificate", "not a SHA-256 fingerprint: 64 hex digits"))
}

/// A parsed enrolment token: its contents were checked and not used yet.
#[derive(Debug, Clone)]
pub struct CheckedToken {
    /// The server.
    pub server: ServerEndpoint,
    /// Its first key.
    pub server_key: VerifyingKey,
    /// The root of the server's signing keys, if there is one.
    pub server_root: Option<VerifyingKey>,
    /// The one-time secret, hex.
    pub secret: String,
}

impl CheckedToken {
    /// Parses a token in the form of the dashboard.
    ///
    /// # Errors
    /// [`ConfigError::Token`] for text of another form, [`ConfigError::Field`] for contents that cannot be trusted.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let body =
            text.trim().strip_prefix(TOKEN_PREFIX).ok_or(ConfigError::Token("it does not begin with `ute1.`"))?;
        let json = URL_SAFE_NO_PAD.decode(body).map_err(|_| ConfigError::Token("it is not base64url"))?;
        let token: EnrolmentToken =
            serde_json::from_slice(&json).map_err(|_| ConfigError::Token("its content is not a token"))?;
        let server = ServerEndpoint::new(&token.server, token.certificate.as_deref())?;
        let server_key = public_key(&token.server_key).map_err(|_| field("server_key", "not an Ed25519 key"))?;
        let server_root = token.server_root.as_deref().map(public_key).transpose();
        let server_root = server_root.map_err(|_| field("server_root", "not an Ed25519 key"))?;
        if hex::decode(&token.secret).is_ok_and(|secret| secret.len() >= 16) {
            Ok(Self { server, server_key, server_root, secret: token.secret })
        } else {
            Err(field("secret", "not a one-time secret"))
        }
    }
}

/// A worker's configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// The worker's server.
    pub server: ServerEndpoint,
    /// The key with which the server signs manifests.
    pub server_key: VerifyingKey,
    /// The worker's id.
    pub worker: WorkerId,
    /// The worker's name.
    pub worker_name: String,
    /// The id of the worker's organization.
    pub organization: OrganizationId,
    /// The organization's name.
    pub organization_name: String,
    /// The highest number of jobs (datasets in jobs) that run at a time: at least 1.
    pub concurrent_runs: usize,
    /// Days after which the site's key is replaced automatically, between jobs; 0 for never.
    pub rotate_key_days: u32,
    /// The file outside of the site's folder with the number of the ledger's newest receipt; `None` for no anchor.
    pub anchor: Option<PathBuf>,
    /// The device for training.
    pub compute: Compute,
    /// The engine for counting query logs.
    pub queries: Queries,
    /// The settings for transcribing recordings.
    pub transcription: TranscriptionSettings,
    /// The rights of the programs that the worker starts.
    pub programs: Programs,
}

/// The fields of the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredConfig {
    server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proxy: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proxy_ca: Option<PathBuf>,
    server_key: String,
    worker: WorkerId,
    worker_name: String,
    organization: OrganizationId,
    organization_name: String,
    #[serde(default = "default_runs")]
    concurrent_runs: usize,
    #[serde(default = "default_key_days")]
    rotate_key_days: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    anchor: Option<PathBuf>,
    // Tables come after all plain values.
    #[serde(default)]
    compute: Compute,
    #[serde(default)]
    queries: Queries,
    #[serde(default, skip_serializing_if = "TranscriptionSettings::is_default")]
    transcription: TranscriptionSettings,
    #[serde(default, skip_serializing_if = "Programs::is_default")]
    programs: Programs,
}

/// Reads a proxy with the file of its certificates.
///
/// # Errors
/// [`ConfigError::Field`] when the address is no proxy's, or there is a file without an `https` proxy.
pub fn parse_proxy(address: Option<&str>, authorities: Option<PathBuf>) -> Result<Option<ProxyServer>, ConfigError> {
    match (address, authorities) {
        (Some(address), authorities) => ProxyServer::parse(address)?.with_authorities(authorities).map(Some),
        (None, Some(_)) => Err(field("proxy_ca", "no proxy is set: set `proxy` to https://host:port")),
        (None, None) => Ok(None),
    }
}

const fn default_runs() -> usize {
    4
}

/// Returns the default number of days of a key.
const fn default_key_days() -> u32 {
    365
}

impl Config {
    /// Reads the configuration of the site.
    ///
    /// # Errors
    /// [`ConfigError::NotEnrolled`] without a file, otherwise the problem in it.
    pub fn load(folder: &Folder) -> Result<Self, ConfigError> {
        let path = folder.config();
        if !path.exists() {
            return Err(ConfigError::NotEnrolled(folder.root().to_owned()));
        }
        let text = fs::read_to_string(&path).map_err(FolderError::io("read", &path))?;
        Self::parse(&text, &path)
    }

    /// Parses the text of a configuration; errors name `path`.
    ///
    /// # Errors
    /// [`ConfigError`] with the problem in the text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let stored: StoredConfig =
            toml::from_str(text).map_err(|source| ConfigError::Toml { path: path.to_owned(), source })?;
        let runs = stored.concurrent_runs as i64;
        if !(1..=check::MOST_RUNS).contains(&runs) {
            return Err(field("concurrent_runs", format!("must be 1 to {}, not {runs}", check::MOST_RUNS)));
        }
        let days = i64::from(stored.rotate_key_days);
        if days != 0 && !check::KEY_DAYS.contains(&days) {
            let (least, most) = check::KEY_DAYS.into_inner();
            return Err(field(
                "rotate_key_days",
                format!("must be {least} to {most} days, or 0 for never, not {days}"),
            ));
        }
        stored.queries.check()?;
        stored.transcription.check()?;
        Ok(Self {
            server: ServerEndpoint::new(&stored.server, stored.certificate.as_deref())?
                .with_proxy(parse_proxy(stored.proxy.as_deref(), stored.proxy_ca)?),
            server_key: public_key(&stored.server_key).map_err(|_| field("server_key", "not an Ed25519 key, hex"))?,
            worker: stored.worker,
            worker_name: stored.worker_name,
            organization: stored.organization,
            organization_name: stored.organization_name,
            concurrent_runs: stored.concurrent_runs,
            rotate_key_days: stored.rotate_key_days,
            anchor: stored.anchor.map(|anchor| check::check_anchor_path(&anchor, path)).transpose()?,
            compute: stored.compute,
            queries: stored.queries,
            transcription: stored.transcription,
            programs: stored.programs,
        })
    }

    /// Returns the anchor of the site's ledger, if one is configured.
    pub fn ledger_anchor(&self) -> Option<LedgerAnchor> {
        self.anchor.clone().map(|path| LedgerAnchor::new(path, self.worker))
    }

    /// Writes the configuration durably.
    ///
    /// # Errors
    /// [`ConfigError::Folder`] when the file system refuses.
    pub fn store(&self, folder: &Folder) -> Result<(), ConfigError> {
        let stored = StoredConfig {
            server: self.server.address().to_owned(),
            certificate: self.server.certificate().map(hex::encode),
            proxy: self.server.proxy().map(|proxy| proxy.url().to_owned()),
            proxy_ca: self.server.proxy().and_then(ProxyServer::authorities).map(Path::to_owned),
            server_key: hex::encode(self.server_key.to_bytes()),
            worker: self.worker,
            worker_name: self.worker_name.clone(),
            organization: self.organization,
            organization_name: self.organization_name.clone(),
            concurrent_runs: self.concurrent_runs,
            rotate_key_days: self.rotate_key_days,
            anchor: self.anchor.clone(),
            compute: self.compute,
            queries: self.queries.clone(),
            transcription: self.transcription.clone(),
            programs: self.programs.clone(),
        };
        let body = toml::to_string(&stored).map_err(|error| field("config.toml", error.to_string()))?;
        let text = format!(
            "# Written by `undertone-worker enroll`. The worker trusts only this server: by this key, this certificate, and the\n\
             # certificates that the key has signed since (pins.json). The site's rules are in policy.toml.\n\n{body}"
        );
        Ok(write_durably(&folder.config(), text.as_bytes())?)
    }
}

#[cfg(test)]
mod tests;
