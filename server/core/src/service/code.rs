//! The form of contract values in columns: enums as their word, structures as JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Error;

/// Returns the word of a value whose JSON form is a string (a unit variant).
///
/// # Errors
/// An internal error when it has another form.
pub(crate) fn word<T: Serialize>(value: &T) -> Result<String, Error> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => Ok(word),
        other => Err(Error::internal("storing a word", format!("{other:?} is no word"))),
    }
}

/// Returns the value of a word.
///
/// # Errors
/// An internal error when the column holds an unknown word.
pub(crate) fn from_word<T: DeserializeOwned>(word: &str) -> Result<T, Error> {
    serde_json::from_value(serde_json::Value::String(word.to_owned()))
        .map_err(|error| Error::internal("reading a word from a column", error))
}

/// Writes a structure as JSON.
///
/// # Errors
/// An internal error when it has no JSON form.
pub(crate) fn to_json<T: Serialize>(value: &T) -> Result<String, Error> {
    serde_json::to_string(value).map_err(|error| Error::internal("storing a value as JSON", error))
}

/// Reads a structure from JSON.
///
/// # Errors
/// An internal error when the column holds something else.
pub(crate) fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).map_err(|error| Error::internal("reading JSON from a column", error))
}
