//! Facts from the URL of a database, as the library parses it.

use std::net::IpAddr;
use std::path::PathBuf;

use sea_orm::sqlx::postgres::{PgConnectOptions, PgSslMode};
use sea_orm::sqlx::sqlite::SqliteConnectOptions;

/// The way a connection to PostgreSQL verifies its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerProof {
    /// The connection stays on this machine: a socket in the file system, or loopback.
    Local,
    /// A certificate of the host's name.
    Verified,
    /// No verification, but the connection is encrypted (`require`, `verify-ca`).
    Encrypted,
    /// No verification, and possibly no encryption (`prefer` falls back to that).
    Absent,
}

/// Returns the file of a SQLite URL.
pub fn sqlite_file(url: &str) -> Option<PathBuf> {
    let options: SqliteConnectOptions = url.starts_with("sqlite:").then(|| url.parse().ok())??;
    Some(options.get_filename().to_owned())
}

/// Returns the way a connection to a PostgreSQL URL verifies its peer; `None` if the URL is invalid.
pub(crate) fn peer_proof(url: &str) -> Option<PeerProof> {
    let options: PgConnectOptions = url.parse().ok()?;
    let host = options.get_host().trim_start_matches('[').trim_end_matches(']');
    let is_local = options.get_socket().is_some()
        || host.starts_with('/')
        || host == "localhost"
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    Some(match options.get_ssl_mode() {
        _ if is_local => PeerProof::Local,
        PgSslMode::VerifyFull => PeerProof::Verified,
        PgSslMode::Require | PgSslMode::VerifyCa => PeerProof::Encrypted,
        _ => PeerProof::Absent,
    })
}
