//! Finds the value of a source that cannot be read, and the values that its key accepts.
//!
//! The reader of all sources names neither the file nor the values that a key accepts. After a failure, this module
//! therefore reads each value separately.

use std::fs;
use std::path::Path;

use config::{Map, Value, ValueKind};
use serde_json::Value as Json;
use undertone_configuration::ConfigText;

use super::keys::{flat, variable};
use super::{Config, ConfigError};

/// The values of the configuration file.
pub(super) struct FileValues<'a> {
    /// The file.
    pub(super) path: &'a Path,
    /// Its values.
    pub(super) values: Map<String, Value>,
}

impl FileValues<'_> {
    /// Returns the file, with the line of a key if it has one.
    pub(super) fn place_of(&self, key: &str) -> String {
        let text = fs::read_to_string(self.path).unwrap_or_default();
        ConfigText::new(&text).place_of(&self.path.display().to_string(), key)
    }
}

/// Returns the error with the place and key of the wrong value, or unchanged if no single value is wrong.
pub(super) fn explain(
    error: config::ConfigError,
    built_in: &Config,
    file: Option<&FileValues<'_>>,
    environment: &Map<String, Value>,
) -> ConfigError {
    // The environment overrides the file, so the file's value may never have been read.
    let from_environment = first_wrong(built_in, environment).map(|(key, reason)| ConfigError::Wrong {
        place: "the environment".to_owned(),
        key: variable(&key),
        reason,
    });
    let from_file = || {
        let file = file?;
        let (key, reason) = first_wrong(built_in, &file.values)?;
        Some(ConfigError::Wrong { place: file.place_of(&key), key, reason })
    };
    from_environment.or_else(from_file).unwrap_or(ConfigError::Read(error))
}

/// Returns the source of a key's effective value.
pub(super) fn place_of(key: &str, file: Option<&FileValues<'_>>, environment: &Map<String, Value>) -> Option<String> {
    // Some errors concern two keys together.
    let find_set = |values: &Map<String, Value>| {
        let names = flat(values);
        key.split(", ").find(|key| names.contains_key(*key))
    };
    if find_set(environment).is_some() {
        return Some("the environment".to_owned());
    }
    let file = file?;
    find_set(&file.values).map(|key| file.place_of(key))
}

/// Returns the first key whose value alone makes the configuration unreadable, and the values that the key accepts.
fn first_wrong(built_in: &Config, values: &Map<String, Value>) -> Option<(String, String)> {
    flat(values).into_iter().find_map(|(key, value)| {
        let alone = config::Config::builder()
            .add_source(config::Config::try_from(built_in).ok()?)
            .set_override(key.as_str(), value.clone())
            .and_then(config::ConfigBuilder::<config::builder::DefaultState>::build)
            .and_then(config::Config::try_deserialize::<Config>);
        let original = alone.err()?;
        let mut all = serde_json::to_value(built_in).ok()?;
        set(&mut all, &key, json(value));
        // This reader names the values of an enumeration.
        let reason =
            serde_json::from_value::<Config>(all).err().map_or_else(|| original.to_string(), |error| error.to_string());
        Some((key, reason))
    })
}

fn set(all: &mut Json, key: &str, value: Json) {
    let mut place = all;
    for part in key.split('.') {
        if !place.is_object() {
            *place = Json::Object(serde_json::Map::new());
        }
        place = &mut place[part];
    }
    *place = value;
}

fn json(value: Value) -> Json {
    match value.kind {
        ValueKind::Nil => Json::Null,
        ValueKind::Boolean(value) => value.into(),
        ValueKind::I64(value) => value.into(),
        ValueKind::U64(value) => value.into(),
        ValueKind::Float(value) => value.into(),
        ValueKind::String(value) => value.into(),
        ValueKind::Array(items) => items.into_iter().map(json).collect(),
        ValueKind::Table(table) => table.into_iter().map(|(name, value)| (name, json(value))).collect(),
        // No key takes numbers beyond 64 bits.
        ValueKind::I128(_) | ValueKind::U128(_) => value.to_string().into(),
    }
}
