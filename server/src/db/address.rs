//! What the address of a database says of it, as the library reads it.

use std::net::IpAddr;
use std::path::PathBuf;

use sea_orm::sqlx::postgres::{PgConnectOptions, PgSslMode};
use sea_orm::sqlx::sqlite::SqliteConnectOptions;

/// How a connection to PostgreSQL knows whom it is connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerProof {
    /// It stays on this machine: a socket in the file system, or loopback.
    Local,
    /// By a certificate of the host's name.
    Verified,
    /// Not at all, but nobody else can listen (`require`, `verify-ca`).
    Encrypted,
    /// Not at all, and it may be in the clear (`prefer` falls back to that).
    Absent,
}

/// Returns the file of a SQLite address.
pub(crate) fn sqlite_file(url: &str) -> Option<PathBuf> {
    let options: SqliteConnectOptions = url.starts_with("sqlite:").then(|| url.parse().ok())??;
    Some(options.get_filename().to_owned())
}

/// Returns how a connection to a PostgreSQL address knows its peer; `None` when the address cannot be read.
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
