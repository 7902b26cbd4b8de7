//! The keys of the configuration by name, with their meanings and the sources of their values. All of it is derived
//! from [`Config`] and its comments. An unknown name is refused with the most similar key.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::Path;

use config::{ConfigError as ReadError, Environment, Map, Source as _, Value, ValueKind};
use serde::Serialize;
use serde_json::Value as Json;
use undertone_configuration::{KnownKeys, UnknownKey, variable_name};
use utoipa::{PartialSchema as _, ToSchema as _};

use super::{Config, ConfigError};

/// Words in the last part of a key's name that mark its value as secret.
pub const SECRET: [&str; 2] = ["secret", "password"];
/// The replacement of a secret value.
const MASK: &str = "********";
/// The beginning of the variables' names.
pub(super) const PREFIX: &str = "UNDERTONE";

/// A key and its effective value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The key: `tls.mode`.
    pub key: String,
    /// The value as TOML; empty if there is none.
    pub value: String,
    /// The source of the value.
    pub source: Source,
}

/// The source of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The built-in value.
    BuiltIn,
    /// The configuration file.
    File,
    /// The environment.
    Environment,
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::BuiltIn => "built in",
            Self::File => "file",
            Self::Environment => "environment",
        })
    }
}

/// Returns every key with its built-in value and its comment, as a Markdown table.
pub fn table() -> String {
    let mut schemas = Vec::new();
    Config::schemas(&mut schemas);
    let schemas: BTreeMap<String, Json> =
        schemas.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap_or_default())).collect();
    let top = serde_json::to_value(Config::schema()).unwrap_or_default();
    let mut table = "| key | variable | built in | meaning |\n|---|---|---|---|\n".to_owned();
    for (key, built_in) in leaves(&Config::default()) {
        let variable = variable(&key);
        let default = if built_in.is_empty() { String::new() } else { format!("`{built_in}`") };
        let meaning = meaning(&top, &schemas, &key).unwrap_or_default();
        let _ = writeln!(table, "| `{key}` | `{variable}` | {default} | {meaning} |");
    }
    table
}

/// Returns the environment variable of a key.
pub(crate) fn variable(key: &str) -> String {
    variable_name(PREFIX, key)
}

/// Returns the comment of a key.
fn meaning(top: &Json, schemas: &BTreeMap<String, Json>, key: &str) -> Option<String> {
    let mut schema = top;
    let mut description = None;
    for part in key.split('.') {
        let property = schema.get("properties")?.get(part)?;
        description = property.get("description").and_then(Json::as_str);
        schema = reference(property).and_then(|name| schemas.get(name)).unwrap_or(property);
    }
    Some(description?.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|"))
}

/// Returns the name in the first `$ref` of a schema.
fn reference(schema: &Json) -> Option<&str> {
    match schema {
        Json::Object(map) => match map.get("$ref").and_then(Json::as_str) {
            Some(path) => path.rsplit('/').next(),
            None => map.values().find_map(reference),
        },
        Json::Array(items) => items.iter().find_map(reference),
        _ => None,
    }
}

/// Returns every key with its value as TOML.
fn leaves(config: &Config) -> BTreeMap<String, String> {
    fn walk(prefix: &str, value: &Json, into: &mut BTreeMap<String, String>) {
        match value {
            Json::Object(map) => {
                for (name, value) in map {
                    let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
                    walk(&key, value, into);
                }
            }
            Json::Null => drop(into.insert(prefix.to_owned(), String::new())),
            value => drop(into.insert(prefix.to_owned(), value.to_string())),
        }
    }
    let mut all = BTreeMap::new();
    walk("", &serde_json::to_value(config).unwrap_or_default(), &mut all);
    all
}

/// Returns the names of the keys. An optional table that is absent by default is one key without a value; its own type checks
/// the keys below it.
fn known_keys() -> KnownKeys {
    KnownKeys::new(leaves(&Config::default()).into_iter().map(|(key, built_in)| (key, built_in.is_empty())))
}

/// Returns the first unknown name in a source.
pub(super) fn find_unknown(source: &Map<String, Value>) -> Option<UnknownKey> {
    let known = known_keys();
    flat(source).into_keys().find_map(|name| known.check(&name).err())
}

/// Returns the variables of the environment that name known keys: other programs of the project also have `UNDERTONE_*`
/// variables.
pub(super) fn collect_variables(environment: &Environment) -> Result<KnownVariables, ConfigError> {
    let known = known_keys();
    let mut variables = Map::new();
    for (name, value) in collect(environment)? {
        let is_key = known
            .check_variable(PREFIX, &name)
            .map_err(|unknown| ConfigError::Unknown { place: "the environment".to_owned(), unknown })?;
        if is_key {
            variables.insert(name, value);
        }
    }
    Ok(KnownVariables(variables))
}

/// Returns every key with its effective value and its source.
pub(super) fn settings(
    config: &Config,
    file: Option<&Path>,
    environment: &Environment,
) -> Result<Vec<Setting>, ConfigError> {
    let in_environment = collect_variables(environment)?.0;
    let in_file = match file {
        Some(path) => flat(&config::File::from(path).format(config::FileFormat::Toml).collect()?),
        None => BTreeMap::new(),
    };
    // A key whose value is a whole table is matched by the keys below it, and conversely.
    let names = |name: &str, key: &str| {
        name == key || name.starts_with(&format!("{key}.")) || key.starts_with(&format!("{name}."))
    };
    Ok(leaves(config)
        .into_iter()
        .map(|(key, value)| {
            let source = if in_environment.keys().any(|name| names(name, &key)) {
                Source::Environment
            } else if in_file.keys().any(|name| names(name, &key)) {
                Source::File
            } else {
                Source::BuiltIn
            };
            Setting { value: mask_secret(&key, value), key, source }
        })
        .collect())
}

/// Returns the value, without its secret parts.
fn mask_secret(key: &str, value: String) -> String {
    let last = key.rsplit('.').next().unwrap_or(key);
    if value.is_empty() {
        value
    } else if SECRET.iter().any(|word| last.contains(word)) {
        MASK.to_owned()
    } else if last.ends_with("url") {
        without_password(&value)
    } else {
        value
    }
}

/// Returns a URL without its password, which may be before the host or among the parameters. A URL that cannot be
/// parsed is masked completely, because the position of its password is unknown.
fn without_password(value: &str) -> String {
    let Ok(mut url) = url::Url::parse(value.trim_matches('"')) else { return MASK.to_owned() };
    let secret = |name: &str| SECRET.iter().any(|word| name.to_lowercase().contains(word));
    let parameters: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let (before, among) = (url.password().is_some(), parameters.iter().any(|(name, _)| secret(name)));
    // Digits before a letter that needed escaping look like a port; the rest of the password and the host follow them.
    let behind = [Some(url.path()), url.query(), url.fragment()];
    if url.port().is_some() && behind.into_iter().flatten().any(|part| part.contains('@')) {
        return MASK.to_owned();
    }
    if !before && !among {
        return value.to_owned();
    }
    if before && url.set_password(Some(MASK)).is_err() {
        return MASK.to_owned();
    }
    if among {
        let masked_pairs =
            parameters.iter().map(|(name, value)| (name, if secret(name) { MASK } else { value.as_str() }));
        url.query_pairs_mut().clear().extend_pairs(masked_pairs);
    }
    format!("\"{url}\"")
}

pub(super) fn flat(source: &Map<String, Value>) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for (name, value) in source {
        match &value.kind {
            ValueKind::Table(table) => {
                all.extend(flat(table).into_iter().map(|(below, value)| (format!("{name}.{below}"), value)));
            }
            _ => drop(all.insert(name.clone(), value.clone())),
        }
    }
    all
}

fn collect(environment: &Environment) -> Result<Map<String, Value>, ReadError> {
    environment.clone().prefix_separator("_").separator("__").try_parsing(true).collect()
}

/// The known variables of the environment.
#[derive(Debug, Clone)]
pub(super) struct KnownVariables(Map<String, Value>);

impl config::Source for KnownVariables {
    fn clone_into_box(&self) -> Box<dyn config::Source + Send + Sync> {
        Box::new(self.clone())
    }

    fn collect(&self) -> Result<Map<String, Value>, ReadError> {
        Ok(self.0.clone())
    }
}
