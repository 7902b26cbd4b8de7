//! Errors of a worker's configuration, and its addresses. The configuration itself is read by the crate above, which
//! contains the components that it configures.

use std::net::IpAddr;

use crate::folder::FolderError;

/// Reasons why a token or a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// No configuration exists yet.
    #[error(
        "there is no worker in {0}: enrol one with `undertone-worker enroll <token>`, or name its folder with --site"
    )]
    NotEnrolled(std::path::PathBuf),
    /// The folder already contains a worker.
    #[error("{folder} already holds worker `{name}`, enrolled at {server}: choose another --site for a second worker")]
    AlreadyEnrolled {
        /// The site's folder.
        folder: std::path::PathBuf,
        /// The worker's name.
        name: String,
        /// Its server.
        server: String,
    },
    /// The file is not a configuration.
    #[error("{path} cannot be read as a worker's configuration: mend it, or restore it from a backup")]
    Toml {
        /// The file.
        path: std::path::PathBuf,
        /// The problem, with its line.
        #[source]
        source: toml::de::Error,
    },
    /// The text is not a token.
    #[error("that is not an enrolment token ({0}): copy the whole of it, from `ute1.` on, out of the dashboard")]
    Token(&'static str),
    /// A field is invalid.
    #[error("{field}: {problem}")]
    Field {
        /// The field.
        field: &'static str,
        /// The problem and the correct form.
        problem: String,
    },
}

/// Makes the error of one field.
pub fn field(field: &'static str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Field { field, problem: problem.into() }
}

/// Returns the host of `host:port`, without brackets; `None` for any other text.
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

/// Returns whether `host` is this machine.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
