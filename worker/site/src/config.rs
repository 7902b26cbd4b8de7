//! Errors of a worker's configuration, and addresses in it. The configuration itself is read above this crate, where everything is
//! that it configures.

use std::net::IpAddr;

use crate::folder::FolderError;

/// Why a token or a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// No configuration yet.
    #[error(
        "there is no worker in {0}: enrol one with `undertone-worker enroll <token>`, or name its folder with --site"
    )]
    NotEnrolled(std::path::PathBuf),
    /// A worker is here already.
    #[error("{folder} already holds worker `{name}`, enrolled at {server}: choose another --site for a second worker")]
    AlreadyEnrolled {
        /// The site's folder.
        folder: std::path::PathBuf,
        /// The worker's name.
        name: String,
        /// Its server.
        server: String,
    },
    /// Not a configuration.
    #[error("{path} cannot be read as a worker's configuration: mend it, or restore it from a backup")]
    Toml {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong, with the line.
        #[source]
        source: toml::de::Error,
    },
    /// Not a token.
    #[error("that is not an enrolment token ({0}): copy the whole of it, from `ute1.` on, out of the dashboard")]
    Token(&'static str),
    /// A field of it is wrong.
    #[error("{field}: {problem}")]
    Field {
        /// The field.
        field: &'static str,
        /// What is wrong with it and what would be right.
        problem: String,
    },
}

/// The error of one field.
pub fn field(field: &'static str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Field { field, problem: problem.into() }
}

/// The host of `host:port`, without brackets; nothing else may stand there.
pub fn host(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':'))
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let port_fits = port.is_none_or(|port| port.parse::<u16>().is_ok());
    let host_fits = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':'));
    (port_fits && host_fits).then_some(host)
}

/// Whether `host` is this machine.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
