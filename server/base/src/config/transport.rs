//! Connections to other machines. The database's password and every row cross the network, so the remote host must
//! prove its name.

use super::{Config, ConfigError, is_loopback};
use crate::db::{PeerProof, peer_proof};

impl Config {
    /// Checks that the connection to the database verifies the host's name, or stays on this machine.
    pub(super) fn check_database(&self) -> Result<(), ConfigError> {
        let wrong = |remedy| Err(ConfigError::Value { key: "database_url", remedy });
        let Some(url) = &self.database_url else { return Ok(()) };
        if url.starts_with("sqlite:") {
            return Ok(());
        }
        if !is_postgres(url) {
            return wrong("use sqlite://path or postgres://user:password@host/database");
        }
        match peer_proof(url) {
            None => wrong("give an address as postgres://user:password@host/database?sslmode=verify-full"),
            Some(PeerProof::Absent) if !self.database_insecure => wrong(
                "add `?sslmode=verify-full` (and `&sslrootcert=FILE` for an authority of your own), or set \
                 `database_insecure = true` where the network between is yours alone",
            ),
            Some(_) => Ok(()),
        }
    }

    /// Returns a warning for each permitted connection that does not verify the remote host's name.
    pub fn warnings(&self) -> Vec<&'static str> {
        let mut warnings = Vec::new();
        let database = self.database_url.as_deref().filter(|url| is_postgres(url)).and_then(peer_proof);
        if matches!(database, Some(PeerProof::Encrypted | PeerProof::Absent)) {
            warnings.push(
                "`database_url` does not verify the name of the database's host: whoever is on the way can read and change \
                 every row; use `sslmode=verify-full`",
            );
        }
        if self.store.endpoint.as_ref().is_some_and(|url| url.starts_with("http://") && !is_loopback(url)) {
            warnings.push("`store.endpoint` has no TLS: whoever is on the way can read and change vectors and models");
        }
        warnings
    }
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, ConfigError};

    fn checked(url: &str, database_insecure: bool) -> (Result<(), ConfigError>, usize) {
        let config = Config { database_url: Some(url.to_owned()), database_insecure, ..Config::default() };
        (config.check_database(), config.warnings().len())
    }

    #[test]
    fn database_beyond_the_machine_needs_verified_tls() {
        for (url, accepted, warnings) in [
            ("sqlite://file.db", true, 0),
            ("postgres://u@127.0.0.1/x", true, 0),
            ("postgres://u@[::1]/x", true, 0),
            ("postgres://u@localhost/x?sslmode=disable", true, 0),
            ("postgres:///x?host=/run/postgresql&user=u", true, 0),
            ("postgres://u:p@db.example/x?sslmode=verify-full", true, 0),
            ("postgres://u:p@db.example/x?sslmode=verify-ca", true, 1),
            ("postgres://u:p@db.example/x?sslmode=require", true, 1),
            ("postgresql://u:p@db.example/x?sslmode=prefer", false, 1),
            ("postgres://u:p@db.example/x?sslmode=disable", false, 1),
            ("postgres://u:p@db.example/x", false, 1),
            ("postgres://u:p@127.0.0.1.db.example/x", false, 1),
            ("mysql://db.example/x", false, 0),
        ] {
            let (result, count) = checked(url, false);
            assert_eq!((result.is_ok(), count), (accepted, warnings), "{url}");
        }
        let refused = checked("postgres://u:hidden@db.example/x", false).0.expect_err("refused").to_string();
        assert!(refused.contains("database_url") && refused.contains("sslmode=verify-full"), "{refused}");
        assert!(!refused.contains("hidden"), "{refused}");
        assert!(checked("postgres://u@db.example/x", true).0.is_ok(), "the operator said so");
    }

    #[test]
    fn store_beyond_the_machine_needs_tls() {
        for (endpoint, insecure, accepted) in [
            ("https://s3.example", false, true),
            ("http://127.0.0.1:9000", false, true),
            ("http://s3.example", false, false),
            ("http://s3.example", true, true),
            ("s3.example", true, false),
        ] {
            let mut config = Config::default();
            config.store.endpoint = Some(endpoint.to_owned());
            config.store.insecure = insecure;
            assert_eq!(config.store.check().is_ok(), accepted, "{endpoint} {insecure}");
        }
    }
}
