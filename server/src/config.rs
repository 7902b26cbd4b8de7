//! Configuration: a TOML file and the environment (`UNDERTONE_*`), read once, here and nowhere else.
//!
//! A later source wins: built-in values, then the file, then the environment. Nested keys take two underscores:
//! `UNDERTONE_TLS__MODE=on`. To add a key: a field below with its default.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the browser and REST clients connect; port 0 takes a free one.
    pub http: SocketAddr,
    /// Where workers connect (gRPC); port 0 takes a free one.
    pub grpc: SocketAddr,
    /// The address by which people reach the server, as it stands in links: `https://undertone.example.org`. Made from
    /// `http` when absent.
    pub public_url: Option<String>,
    /// The address by which workers reach it: `https://undertone.example.org:8421`. Made from `grpc` when absent.
    pub public_grpc: Option<String>,
    /// `sqlite://path` or `postgres://...`; a SQLite file in `data_dir` when absent.
    pub database_url: Option<String>,
    /// Keys, certificates, the SQLite file and stored objects; made when it does not exist.
    pub data_dir: PathBuf,
    /// The dashboard's files as `make` bundles them; without it there is no dashboard, only REST and gRPC.
    pub dist: Option<PathBuf>,
    /// Whether something before the server sets `X-Forwarded-For`; its last address is then the caller's. Leave it off
    /// otherwise: anybody could claim any address.
    pub behind_proxy: bool,
    /// Transport security.
    pub tls: TlsConfig,
    /// Minutes for which an access token holds: 1 to 60.
    pub access_minutes: u32,
    /// Days for which a session holds without use: 1 to 90.
    pub session_days: u32,
    /// What is logged and how.
    pub log: LogConfig,
}

/// Transport security of both faces.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// When there is TLS.
    pub mode: TlsMode,
    /// The certificate chain, PEM; generated and self-signed when absent.
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM.
    pub key: Option<PathBuf>,
    /// Further host names and addresses for a generated certificate.
    pub names: Vec<String>,
}

/// When there is TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsMode {
    /// Unless both addresses are loopback.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: something in front of the server does it.
    Off,
}

/// What is logged and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// `tracing` directives: `info,undertone_server=debug`.
    pub filter: String,
    /// One JSON object a line instead of text.
    pub json: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { filter: "info,sqlx=warn,sea_orm=warn,sea_orm_migration=warn".to_owned(), json: false }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            http: SocketAddr::from(([127, 0, 0, 1], 8420)),
            grpc: SocketAddr::from(([127, 0, 0, 1], 8421)),
            public_url: None,
            public_grpc: None,
            database_url: None,
            data_dir: PathBuf::from("undertone-data"),
            dist: None,
            behind_proxy: false,
            tls: TlsConfig::default(),
            access_minutes: 15,
            session_days: 30,
            log: LogConfig::default(),
        }
    }
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A source cannot be read, or a value is not what its key takes.
    #[error("the configuration cannot be read: {0}")]
    Read(#[from] config::ConfigError),
    /// A value is outside its range.
    #[error("{key}: {remedy}")]
    Value {
        /// The key.
        key: &'static str,
        /// What would be right.
        remedy: &'static str,
    },
}

impl Config {
    /// Reads built-in values, then `file` when one is named, then the environment.
    ///
    /// # Errors
    /// [`ConfigError`] names the key and what would be right.
    pub fn read(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::default().overlaid(file)
    }

    /// As [`Self::read`], with these values in the place of the built-in ones.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn overlaid(&self, file: Option<&Path>) -> Result<Self, ConfigError> {
        self.read_with(file, config::Environment::with_prefix("UNDERTONE"))
    }

    fn read_with(&self, file: Option<&Path>, environment: config::Environment) -> Result<Self, ConfigError> {
        let mut sources = config::Config::builder().add_source(config::Config::try_from(self)?);
        if let Some(path) = file {
            sources = sources.add_source(config::File::from(path).format(config::FileFormat::Toml));
        }
        let environment = environment.prefix_separator("_").separator("__").try_parsing(true);
        let read = sources.add_source(Known::of(&environment)?).build()?;
        read.try_deserialize::<Self>()?.checked()
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        if !(1..=60).contains(&self.access_minutes) {
            return wrong("access_minutes", "use 1 to 60");
        }
        if !(1..=90).contains(&self.session_days) {
            return wrong("session_days", "use 1 to 90");
        }
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return wrong("tls.certificate, tls.key", "give both paths, or neither");
        }
        for (key, url) in [("public_url", &self.public_url), ("public_grpc", &self.public_grpc)] {
            if url.as_ref().is_some_and(|url| !url.starts_with("https://") && !url.starts_with("http://")) {
                return wrong(key, "begin with https:// or http://");
            }
        }
        Ok(self)
    }

    /// Whether both faces speak TLS themselves.
    pub const fn speaks_tls(&self) -> bool {
        match self.tls.mode {
            TlsMode::On => true,
            TlsMode::Off => false,
            TlsMode::Auto => !(self.http.ip().is_loopback() && self.grpc.ip().is_loopback()),
        }
    }

    /// The database in force.
    pub fn database(&self) -> String {
        self.database_url
            .clone()
            .unwrap_or_else(|| format!("sqlite://{}?mode=rwc", self.data_dir.join("undertone.sqlite").display()))
    }
}

/// The part of the environment that names a key of ours: other programs of the project have `UNDERTONE_*` variables too.
#[derive(Debug, Clone)]
struct Known(config::Map<String, config::Value>);

impl Known {
    fn of(environment: &config::Environment) -> Result<Self, config::ConfigError> {
        const KEYS: [&str; 12] = [
            "http",
            "grpc",
            "public_url",
            "public_grpc",
            "database_url",
            "data_dir",
            "dist",
            "behind_proxy",
            "tls",
            "access_minutes",
            "session_days",
            "log",
        ];
        let all = config::Source::collect(environment)?;
        Ok(Self(all.into_iter().filter(|(key, _)| KEYS.contains(&key.split('.').next().unwrap_or(key))).collect()))
    }
}

impl config::Source for Known {
    fn clone_into_box(&self) -> Box<dyn config::Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<config::Map<String, config::Value>, config::ConfigError> {
        Ok(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, TlsMode};

    fn environment(pairs: &[(&str, &str)]) -> config::Environment {
        let source = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        config::Environment::with_prefix("UNDERTONE").source(Some(source))
    }

    #[test]
    fn the_environment_wins_over_the_file_and_the_file_over_what_is_built_in() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("server.toml");
        std::fs::write(&file, "http = \"127.0.0.1:1\"\naccess_minutes = 5\n[tls]\nmode = \"on\"\n").expect("written");
        let config =
            Config::default().read_with(Some(&file), environment(&[("UNDERTONE_HTTP", "127.0.0.1:2")])).expect("read");
        assert_eq!((config.http.port(), config.access_minutes, config.session_days), (2, 5, 30));
        assert_eq!(config.tls.mode, TlsMode::On);
    }

    #[test]
    fn what_is_built_in_for_a_purpose_gives_way_to_what_is_set() {
        let quiet = Config { log: super::LogConfig { filter: "warn".to_owned(), json: false }, ..Config::default() };
        let read = |pairs: &[(&str, &str)]| quiet.read_with(None, environment(pairs)).expect("read").log.filter;
        assert_eq!(read(&[]), "warn");
        assert_eq!(read(&[("UNDERTONE_LOG__FILTER", "debug")]), "debug");
    }

    #[test]
    fn variables_of_other_programs_are_left_alone() {
        let config = Config::default()
            .read_with(None, environment(&[("UNDERTONE_VECTORS", "x"), ("UNDERTONE_TLS__MODE", "off")]));
        assert_eq!(config.expect("read").tls.mode, TlsMode::Off);
    }

    #[test]
    fn a_misspelt_key_in_the_file_is_refused() {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let file = dir.path().join("server.toml");
        std::fs::write(&file, "htpp = \"127.0.0.1:1\"\n").expect("written");
        assert!(
            Config::default()
                .read_with(Some(&file), environment(&[]))
                .is_err_and(|error| error.to_string().contains("htpp"))
        );
    }

    #[test]
    fn tls_is_on_as_soon_as_an_address_leaves_the_machine() {
        let mut config = Config::default();
        assert!(!config.speaks_tls());
        config.grpc = ([0, 0, 0, 0], 8421).into();
        assert!(config.speaks_tls());
    }
}
