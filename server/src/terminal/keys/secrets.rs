//! The rings of secrets: `token.key` and `factor.key`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};

use super::KeysError;
use undertone_server_core::auth::KNOWN;
use undertone_server_core::config::Config;
use undertone_server_core::ctx::Random;
use undertone_server_core::db::Db;
use undertone_server_core::error::Error;
use undertone_server_core::keys::ring::{KeyRing, RingKey};
use undertone_server_core::keys::{FACTOR_FILE, TOKEN_FILE, read_ring, write_secret};
use undertone_server_core::service::factor;

/// Which ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SecretKind {
    /// The keys of access tokens, refresh tokens and known devices.
    Token,
    /// The keys that seal second factors.
    Factor,
}

/// The options of `rotate`.
#[derive(Args)]
pub struct RotateOptions {
    /// Which file.
    #[arg(value_enum)]
    pub(super) kind: SecretKind,
    /// Minutes after which the new key is in force. Servers that do not share the data folder need the file before that.
    #[arg(long, value_name = "MINUTES", default_value_t = 60, value_parser = clap::value_parser!(u32).range(0..=10_080))]
    pub(super) after: u32,
    /// Remove the other keys at once: access tokens and known devices of before hold no longer.
    #[arg(long, conflicts_with = "after")]
    pub(super) stolen: bool,
}

/// The options of `prune`.
#[derive(Args)]
pub struct PruneOptions {
    /// Which file.
    #[arg(value_enum)]
    pub(super) kind: SecretKind,
}

impl SecretKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Token => TOKEN_FILE,
            Self::Factor => FACTOR_FILE,
        }
    }

    fn path(self, config: &Config) -> PathBuf {
        config.data_dir.join(self.name())
    }

    fn read(self, config: &Config) -> Result<KeyRing, KeysError> {
        let path = self.path(config);
        let ring = read_ring(&path).map_err(|source| KeysError::File { path: path.clone(), source })?;
        ring.ok_or(KeysError::Missing(path))
    }

    fn write(self, config: &Config, ring: &KeyRing) -> Result<(), KeysError> {
        let path = self.path(config);
        write_secret(&path, ring.to_text().as_bytes()).map_err(|source| KeysError::File { path, source })
    }
}

/// Lists the keys of both files.
pub(super) fn list(config: &Config, now: OffsetDateTime) -> Result<String, KeysError> {
    let mut lines = Vec::new();
    for kind in [SecretKind::Token, SecretKind::Factor] {
        let ring = kind.read(config)?;
        let current = ring.current(now).id();
        for key in ring.keys() {
            let state = match key.starts_at() {
                _ if key.id() == current => "in force".to_owned(),
                Some(from) if from > now => format!("in force from {}", moment(from)),
                _ => "replaced".to_owned(),
            };
            lines.push(format!("{:<12} {}  {state}", kind.name(), key.id()));
        }
    }
    Ok(lines.join("\n"))
}

/// Adds a key to a file.
pub(super) fn rotate(
    config: &Config,
    options: &RotateOptions,
    now: OffsetDateTime,
    random: &Random,
) -> Result<String, KeysError> {
    let kind = options.kind;
    let ring = kind.read(config)?;
    if options.stolen {
        return replace_stolen(config, kind, random);
    }
    let next = ring.with_next(random.bytes(), now + Duration::minutes(i64::from(options.after)));
    let next = next.map_err(|source| KeysError::Ring { path: kind.path(config), source })?;
    kind.write(config, &next)?;
    let (id, from) = next.keys().last().map(|key| (key.id(), key.starts_at().map(moment))).unwrap_or_default();
    Ok(format!(
        "Key {id} is in force from {}. Servers that do not share the data folder need {} before that; none needs a restart.",
        from.unwrap_or_default(),
        kind.path(config).display()
    ))
}

fn replace_stolen(config: &Config, kind: SecretKind, random: &Random) -> Result<String, KeysError> {
    if kind == SecretKind::Factor {
        return Err(KeysError::Stolen);
    }
    let ring = KeyRing::from_secret(random.bytes());
    kind.write(config, &ring)?;
    Ok(format!(
        "Key {} is alone from now on: access tokens of before hold no longer, and sessions renew theirs. Servers that do not \
         share the data folder need {} at once.",
        ring.keys()[0].id(),
        kind.path(config).display()
    ))
}

/// Removes the keys that are not needed any more.
pub(super) async fn prune(config: &Config, kind: SecretKind, now: OffsetDateTime) -> Result<String, KeysError> {
    let ring = kind.read(config)?;
    let pruned = match kind {
        // Device cookies are the documents of these keys with the longest lifetime.
        SecretKind::Token => ring.prune(now, |_, replaced| now >= replaced + KNOWN),
        SecretKind::Factor => {
            let sealing = sealing_keys(config, &ring).await?;
            ring.prune(now, |key, _| !sealing.iter().any(|id| id == key.id()))
        }
    };
    let removed = ring.keys().len() - pruned.keys().len();
    if removed > 0 {
        kind.write(config, &pruned)?;
    }
    let names: Vec<_> = pruned.keys().iter().map(RingKey::id).collect();
    Ok(format!("{removed} keys were removed. Those that stay: {}", names.join(", ")))
}

/// Returns the ids of the keys that encrypt stored second factors.
async fn sealing_keys(config: &Config, ring: &KeyRing) -> Result<Vec<String>, KeysError> {
    let db = Db::inspect(&config.database()).await.map_err(Error::from)?;
    let mut sealing = Vec::new();
    for (index, key) in ring.keys().iter().enumerate() {
        if factor::sealed_by(&db, key.id(), index == 0).await? > 0 {
            sealing.push(key.id().to_owned());
        }
    }
    db.close().await.map_err(Error::from)?;
    Ok(sealing)
}

/// Formats a time for people, to the second.
pub(super) fn moment(at: OffsetDateTime) -> String {
    at.replace_nanosecond(0).unwrap_or(at).format(&Rfc3339).unwrap_or_default()
}
