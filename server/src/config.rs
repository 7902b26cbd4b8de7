//! Configuration: a TOML file and the environment (`UNDERTONE_*`), read once, here and nowhere else.
//!
//! A later source wins: built-in values, then the file, then the environment. Nested keys take two underscores:
//! `UNDERTONE_TLS__MODE=on`. To add a key: a field below with its default and a comment, which becomes its row in
//! `OPERATION.md` (`undertone-server config --table`); a key that must not be shown, a line in [`keys::SECRET`] as well.

#[cfg(test)]
mod fuzz;
pub mod keys;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use keys::{Setting, Source};

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where the browser and REST clients connect; port 0 takes a free one.
    #[schema(value_type = String)]
    pub http: SocketAddr,
    /// Where workers connect (gRPC); port 0 takes a free one.
    #[schema(value_type = String)]
    pub grpc: SocketAddr,
    /// Where Prometheus reads `/metrics`, without TLS and without a sign-in: an address that only it can reach. Off when absent.
    #[schema(value_type = Option<String>)]
    pub metrics: Option<SocketAddr>,
    /// The address by which people reach the server, as it stands in links: `https://undertone.example.org`. Made from
    /// `http` when absent.
    pub public_url: Option<String>,
    /// The address by which workers reach it: `https://undertone.example.org:8421`. Made from `grpc` when absent.
    pub public_grpc: Option<String>,
    /// `sqlite://path` or `postgres://...`; a SQLite file in `data_dir` when absent.
    pub database_url: Option<String>,
    /// Keys, certificates, the SQLite file and stored objects; made when it does not exist. Replicas of one server share it, or
    /// have the same keys in their own.
    #[schema(value_type = String)]
    pub data_dir: PathBuf,
    /// The dashboard's files as `make` bundles them; without it there is no dashboard, only REST and gRPC.
    #[schema(value_type = Option<String>)]
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
    /// Days within which every owner answers a proposed job, or it is refused: 1 to 28. Jobs that are proposed already keep
    /// their day.
    pub answer_days: u32,
    /// Whether everybody needs a second factor: who has none can set one up and do nothing else, and neither can their keys.
    pub require_two_factor: bool,
    /// Signing in at a provider by OpenID Connect, beside passwords.
    pub oidc: OidcConfig,
    /// Where vectors and files are kept.
    pub store: StoreConfig,
    /// How many requests are answered.
    pub rates: RateConfig,
    /// What is logged and how.
    pub log: LogConfig,
}

/// Signing in at a provider by OpenID Connect. It is to send browsers back to `/oidc/callback` of `public_url`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OidcConfig {
    /// The provider's address, `https://accounts.example.org`, exactly as it calls itself; without it there is no such sign-in.
    pub issuer: Option<String>,
    /// The name that the provider has given this server.
    pub client_id: String,
    /// The secret that goes with it, when there is one. Set it in the environment rather than in the file.
    pub client_secret: Option<String>,
    /// What people call the provider, as it stands on the button: 1 to 40 characters.
    pub name: String,
    /// What is asked for besides the identity itself, with blanks between.
    pub scopes: String,
    /// Whether somebody whom nobody has invited may become a member, without any role. Otherwise a first sign-in takes an
    /// account with the same e-mail, verified by the provider, or an invitation.
    pub allow_signup: bool,
}

impl std::fmt::Debug for OidcConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OidcConfig").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Default for OidcConfig {
    fn default() -> Self {
        Self {
            issuer: None,
            client_id: String::new(),
            client_secret: None,
            name: "your organization".to_owned(),
            scopes: "openid email profile".to_owned(),
            allow_signup: false,
        }
    }
}

/// Where vectors and files are kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `s3://bucket/prefix` for an S3-compatible store, which several replicas need unless they share a disk; the folder
    /// `objects` of `data_dir` when absent.
    pub url: Option<String>,
    /// The store's address, `https://s3.example.org`; made from the region when absent.
    pub endpoint: Option<String>,
    /// The store's region; `us-east-1` when absent.
    pub region: Option<String>,
    /// The key's id.
    pub access_key_id: Option<String>,
    /// The key. Set it in the environment rather than in the file.
    pub secret_access_key: Option<String>,
}

/// How many requests and calls are answered; what is more gets 429, or `RESOURCE_EXHAUSTED`, and is told when to come again. Counted by
/// each face of each replica for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RateConfig {
    /// Requests and calls a minute for each session, key or, without one, address: 0 for as many as come, or 60 to 1000000.
    pub by_caller: u32,
    /// Requests and calls a minute for each address, whoever they are from but workers that have signed in: 0 for as many as come, or
    /// 60 to 1000000.
    pub by_address: u32,
    /// Calls a minute for each worker that has signed in, whatever its address: 0 for as many as come, or 60 to 1000000.
    pub by_worker: u32,
}

impl Default for RateConfig {
    fn default() -> Self {
        Self { by_caller: 3_000, by_address: 12_000, by_worker: 60_000 }
    }
}

/// Transport security of both faces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsConfig {
    /// `auto` for TLS unless both addresses are loopback, `on`, or `off` where something before the server does it.
    pub mode: TlsMode,
    /// The certificate chain, PEM; generated and self-signed when absent. Read again when it changes, and at SIGHUP.
    #[schema(value_type = Option<String>)]
    pub certificate: Option<PathBuf>,
    /// Its private key, PEM.
    #[schema(value_type = Option<String>)]
    pub key: Option<PathBuf>,
    /// The certificate that will follow `certificate`, PEM: sites are told of it before it is put in place.
    #[schema(value_type = Option<String>)]
    pub next_certificate: Option<PathBuf>,
    /// Days after which a generated certificate is followed by the next, of which sites are told 30 days before: 60 to 3650.
    pub rotate_days: u32,
    /// Further host names and addresses for a generated certificate.
    pub names: Vec<String>,
}

impl Default for TlsConfig {
    fn default() -> Self {
        Self {
            mode: TlsMode::Auto,
            certificate: None,
            key: None,
            next_certificate: None,
            rotate_days: 365,
            names: Vec::new(),
        }
    }
}

/// When there is TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
            metrics: None,
            public_url: None,
            public_grpc: None,
            database_url: None,
            data_dir: PathBuf::from("undertone-data"),
            dist: None,
            behind_proxy: false,
            tls: TlsConfig::default(),
            access_minutes: 15,
            session_days: 30,
            answer_days: 14,
            require_two_factor: false,
            oidc: OidcConfig::default(),
            store: StoreConfig::default(),
            rates: RateConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// Whether an address without TLS stays on this machine.
fn is_loopback(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|address| match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    })
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A source cannot be read, or a value is not what its key takes.
    #[error("the configuration cannot be read: {0}")]
    Read(#[from] config::ConfigError),
    /// A key is none of ours.
    #[error("{place}: there is no key {unknown}")]
    Unknown {
        /// The file, or the environment.
        place: String,
        /// The key, and the one that it is nearest to.
        unknown: String,
    },
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
        self.read_with(file, &config::Environment::with_prefix("UNDERTONE"))
    }

    fn read_with(&self, file: Option<&Path>, environment: &config::Environment) -> Result<Self, ConfigError> {
        let mut sources = config::Config::builder().add_source(config::Config::try_from(self)?);
        if let Some(path) = file {
            let file = config::File::from(path).format(config::FileFormat::Toml);
            if let Some(unknown) = keys::unknown(&config::Source::collect(&file)?) {
                return Err(ConfigError::Unknown { place: path.display().to_string(), unknown });
            }
            sources = sources.add_source(file);
        }
        let read = sources.add_source(keys::known(environment)?).build()?;
        read.try_deserialize::<Self>()?.checked()
    }

    /// Every key with its value in force and where that comes from; what is secret is masked.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn settings(&self, file: Option<&Path>) -> Result<Vec<Setting>, ConfigError> {
        keys::settings(&self.overlaid(file)?, file, &config::Environment::with_prefix("UNDERTONE"))
    }

    fn checked(self) -> Result<Self, ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        if !(1..=60).contains(&self.access_minutes) {
            return wrong("access_minutes", "use 1 to 60");
        }
        if !(1..=90).contains(&self.session_days) {
            return wrong("session_days", "use 1 to 90");
        }
        // A manifest holds for 30 days and its rounds: an answer leaves time to run.
        if !(1..=28).contains(&self.answer_days) {
            return wrong("answer_days", "use 1 to 28");
        }
        if let Some(issuer) = &self.oidc.issuer {
            if !(issuer.starts_with("https://") || issuer.starts_with("http://") && is_loopback(issuer)) {
                return wrong("oidc.issuer", "begin with https://; http:// is for a provider on this machine only");
            }
            if self.oidc.client_id.is_empty() {
                return wrong("oidc.client_id", "give the name that the provider has given this server");
            }
            if !(1..=40).contains(&self.oidc.name.chars().count()) || self.oidc.name.chars().any(char::is_control) {
                return wrong("oidc.name", "use 1 to 40 printable characters");
            }
        }
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return wrong("tls.certificate, tls.key", "give both paths, or neither");
        }
        for (key, url) in [("public_url", &self.public_url), ("public_grpc", &self.public_grpc)] {
            if url.as_ref().is_some_and(|url| !url.starts_with("https://") && !url.starts_with("http://")) {
                return wrong(key, "begin with https:// or http://");
            }
        }
        let RateConfig { by_caller, by_address, by_worker } = self.rates;
        for (key, rate) in
            [("rates.by_caller", by_caller), ("rates.by_address", by_address), ("rates.by_worker", by_worker)]
        {
            if rate != 0 && !(60..=1_000_000).contains(&rate) {
                return wrong(key, "use 60 to 1000000 requests a minute, or 0 for as many as come");
            }
        }
        if !(60..=3650).contains(&self.tls.rotate_days) {
            return wrong("tls.rotate_days", "use 60 to 3650");
        }
        if self.tls.next_certificate.is_some() && self.tls.certificate.is_none() {
            return wrong("tls.next_certificate", "it follows `tls.certificate`: give that too, or neither");
        }
        if self.store.url.as_ref().is_some_and(|url| !url.starts_with("s3://")) {
            return wrong("store.url", "use s3://bucket/prefix, or leave it out for a folder of data_dir");
        }
        if self.store.access_key_id.is_some() != self.store.secret_access_key.is_some() {
            return wrong("store.access_key_id, store.secret_access_key", "give both, or neither");
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
