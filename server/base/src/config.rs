//! The configuration: a TOML file and the environment (`UNDERTONE_*`). It is read once, and only here.
//!
//! A later source overrides an earlier one: built-in values, then the file, then the environment. Nested keys take two
//! underscores: `UNDERTONE_TLS__MODE=on`. To add a key: add a field below with its default and a comment, which becomes
//! its row in `OPERATION.md` (`undertone-server config --table`). For a key that must not be shown, also add a line in
//! [`keys::SECRET`].

mod culprit;
#[cfg(test)]
mod fuzz;
pub mod keys;
mod notice;
mod oidc;
mod signer;
mod store;
#[cfg(test)]
mod tests;
mod transport;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_configuration::UnknownKey;
use utoipa::ToSchema;

use culprit::FileValues;
pub use keys::{Setting, Source};
pub use notice::{MailConfig, MailTls, WebhookConfig};
pub use oidc::{OidcConfig, ProviderConfig};
pub use signer::{SignerConfig, SignerKind};
pub use store::StoreConfig;

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own in the configuration file")]
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
    /// Whether `database_url` may name a PostgreSQL server beyond this machine without `sslmode=verify-full`, `verify-ca` or
    /// `require`.
    pub database_insecure: bool,
    /// Keys, certificates, the SQLite file and stored objects; made when it does not exist. Replicas of one server share it, or
    /// have the same keys in their own.
    #[schema(value_type = String)]
    pub data_dir: PathBuf,
    /// The dashboard's files as `make` bundles them; without it pages have neither style nor script: use REST and gRPC then.
    #[schema(value_type = Option<String>)]
    pub dist: Option<PathBuf>,
    /// Whether a proxy before `http` sets `X-Forwarded-For`; its last address is then the caller's, and `connections.by_address` does
    /// not apply. Leave it off otherwise: callers could claim any address.
    pub http_behind_proxy: bool,
    /// The same for `grpc`, which often has no proxy where `http` has one.
    pub grpc_behind_proxy: bool,
    /// Transport security.
    pub tls: TlsConfig,
    /// Minutes for which an access token holds: 1 to 60.
    pub access_minutes: u32,
    /// Days for which a session holds without use: 1 to 90.
    pub session_days: u32,
    /// Days after its sign-in at which a session ends, however often it is used: 1 to 365, and no fewer than `session_days`.
    pub session_most_days: u32,
    /// Days within which every owner answers a proposed job, or it is refused: 1 to 28. Jobs that are proposed already keep
    /// their day.
    pub answer_days: u32,
    /// Whether everybody needs a second factor: who has none can set one up and do nothing else, and neither can their keys.
    pub require_two_factor: bool,
    /// Signing in at a provider by OpenID Connect, beside passwords.
    pub oidc: OidcConfig,
    /// Further providers by OpenID Connect, `[[providers]]` in the file: each with `id`, `issuer`, `client_id`, `client_secret_file`,
    /// `name`, `scopes`, `allow_signup` and `domains` as above; it sends browsers back to `/oidc/callback/<id>`.
    pub providers: Vec<ProviderConfig>,
    /// E-mail of security notices.
    pub mail: MailConfig,
    /// A webhook for security notices.
    pub webhook: WebhookConfig,
    /// The holder of the keys that sign documents.
    pub signer: SignerConfig,
    /// Where vectors and files are kept.
    pub store: StoreConfig,
    /// How many requests are answered.
    pub rates: RateConfig,
    /// How many connections are open.
    pub connections: ConnectionConfig,
    /// What is logged and how.
    pub log: LogConfig,
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
    /// Writes a minute of all workers of an organization together: registered datasets, decisions, pools of questions, files, ends of
    /// parts: 0 for as many as come, or 60 to 1000000.
    pub by_organization: u32,
}

impl Default for RateConfig {
    fn default() -> Self {
        Self { by_caller: 3_000, by_address: 12_000, by_worker: 60_000, by_organization: 6_000 }
    }
}

/// How many connections each listener keeps open. One more closes a connection of a stranger who waits for nothing, or is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ConnectionConfig {
    /// Connections of each listener: 16 to 100000. It is less where the process may not open so many files.
    pub most: u32,
    /// Connections of each listener from one address (of IPv6, from one /64): 4 to 100000.
    pub by_address: u32,
}

impl Default for ConnectionConfig {
    fn default() -> Self {
        Self { most: 4096, by_address: 512 }
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
            database_insecure: false,
            data_dir: PathBuf::from("undertone-data"),
            dist: None,
            http_behind_proxy: false,
            grpc_behind_proxy: false,
            tls: TlsConfig::default(),
            access_minutes: 15,
            session_days: 30,
            session_most_days: 90,
            answer_days: 14,
            require_two_factor: false,
            oidc: OidcConfig::default(),
            providers: Vec::new(),
            mail: MailConfig::default(),
            webhook: WebhookConfig::default(),
            signer: SignerConfig::default(),
            store: StoreConfig::default(),
            rates: RateConfig::default(),
            connections: ConnectionConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// Returns whether a URL stays on this machine.
fn is_loopback(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|address| match address.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
        Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    })
}

/// A reason why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A source cannot be read, or a value has the wrong type for its key.
    #[error("the configuration cannot be read: {0}")]
    Read(#[from] config::ConfigError),
    /// An unknown key.
    #[error("{place}: {unknown}")]
    Unknown {
        /// The file and line, or the environment.
        place: String,
        /// The key, and the nearest known key.
        unknown: UnknownKey,
    },
    /// A value has the wrong type for its key.
    #[error("{place}: `{key}`: {reason}")]
    Wrong {
        /// The file and line, or the environment.
        place: String,
        /// The key, or the variable.
        key: String,
        /// The values that the key accepts.
        reason: String,
    },
    /// A value is outside its range.
    #[error("{key}: {remedy}")]
    Value {
        /// The key.
        key: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// A value is outside its range, with its source.
    #[error("{place}: {key}: {remedy}")]
    Placed {
        /// The file and line, or the environment.
        place: String,
        /// The key.
        key: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
}

impl Config {
    /// Reads built-in values, then `file` if given, then the environment.
    ///
    /// # Errors
    /// [`ConfigError`] names the key and the remedy.
    pub fn read(file: Option<&Path>) -> Result<Self, ConfigError> {
        Self::default().overlaid(file)
    }

    /// Reads like [`Self::read`], with the values of `self` in place of the built-in ones.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn overlaid(&self, file: Option<&Path>) -> Result<Self, ConfigError> {
        self.read_with(file, &config::Environment::with_prefix(keys::PREFIX))
    }

    fn read_with(&self, file: Option<&Path>, environment: &config::Environment) -> Result<Self, ConfigError> {
        let mut sources = config::Config::builder().add_source(config::Config::try_from(self)?);
        let mut of_file = None;
        if let Some(path) = file {
            let file = config::File::from(path).format(config::FileFormat::Toml);
            let values = FileValues { path, values: config::Source::collect(&file)? };
            if let Some(unknown) = keys::find_unknown(&values.values) {
                return Err(ConfigError::Unknown { place: values.place_of(&unknown.name), unknown });
            }
            sources = sources.add_source(file);
            of_file = Some(values);
        }
        let of_file = of_file.as_ref();
        let variables = keys::collect_variables(environment)?;
        let of_environment = config::Source::collect(&variables)?;
        let read = sources.add_source(variables).build()?.try_deserialize::<Self>();
        let read = read.map_err(|error| culprit::explain(error, self, of_file, &of_environment))?;
        read.validate().map_err(|error| match error {
            ConfigError::Value { key, remedy } => match culprit::place_of(key, of_file, &of_environment) {
                Some(place) => ConfigError::Placed { place, key, remedy },
                None => error,
            },
            error => error,
        })
    }

    /// Returns every key with its effective value and the value's source; secrets are masked.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn settings(&self, file: Option<&Path>) -> Result<Vec<Setting>, ConfigError> {
        keys::settings(&self.overlaid(file)?, file, &config::Environment::with_prefix(keys::PREFIX))
    }

    fn validate(self) -> Result<Self, ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        if !(1..=60).contains(&self.access_minutes) {
            return wrong("access_minutes", "use 1 to 60");
        }
        if !(1..=90).contains(&self.session_days) {
            return wrong("session_days", "use 1 to 90");
        }
        if !(self.session_days..=365).contains(&self.session_most_days) {
            return wrong("session_most_days", "use `session_days` to 365");
        }
        // A manifest holds for 30 days and its rounds; after the decision there must be time to run.
        if !(1..=28).contains(&self.answer_days) {
            return wrong("answer_days", "use 1 to 28");
        }
        self.oidc.check()?;
        oidc::check_providers(&self.oidc, &self.providers)?;
        if self.tls.certificate.is_some() != self.tls.key.is_some() {
            return wrong("tls.certificate, tls.key", "give both paths, or neither");
        }
        for (key, url) in [("public_url", &self.public_url), ("public_grpc", &self.public_grpc)] {
            if url.as_ref().is_some_and(|url| !url.starts_with("https://") && !url.starts_with("http://")) {
                return wrong(key, "begin with https:// or http://");
            }
        }
        let RateConfig { by_caller, by_address, by_worker, by_organization } = self.rates;
        for (key, rate) in [
            ("rates.by_caller", by_caller),
            ("rates.by_address", by_address),
            ("rates.by_worker", by_worker),
            ("rates.by_organization", by_organization),
        ] {
            if rate != 0 && !(60..=1_000_000).contains(&rate) {
                return wrong(key, "use 60 to 1000000 requests a minute, or 0 for as many as come");
            }
        }
        if !(16..=100_000).contains(&self.connections.most) {
            return wrong("connections.most", "use 16 to 100000");
        }
        if !(4..=100_000).contains(&self.connections.by_address) {
            return wrong("connections.by_address", "use 4 to 100000");
        }
        if !(60..=3650).contains(&self.tls.rotate_days) {
            return wrong("tls.rotate_days", "use 60 to 3650");
        }
        if self.tls.next_certificate.is_some() && self.tls.certificate.is_none() {
            return wrong("tls.next_certificate", "it follows `tls.certificate`: give that too, or neither");
        }
        self.mail.check()?;
        self.webhook.check()?;
        self.signer.check()?;
        self.store.check()?;
        self.check_database()?;
        Ok(self)
    }

    /// Returns whether both listeners serve TLS themselves.
    pub const fn speaks_tls(&self) -> bool {
        match self.tls.mode {
            TlsMode::On => true,
            TlsMode::Off => false,
            TlsMode::Auto => !(self.http.ip().is_loopback() && self.grpc.ip().is_loopback()),
        }
    }

    /// Returns the URL of the database.
    pub fn database(&self) -> String {
        self.database_url
            .clone()
            .unwrap_or_else(|| format!("sqlite://{}?mode=rwc", self.data_dir.join("undertone.sqlite").display()))
    }
}
