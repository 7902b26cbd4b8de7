//! Parses the query of an address.

use serde::de::DeserializeOwned;

/// Parses a query, whether or not the browser encoded the brackets of its names.
pub(crate) fn parse<T: DeserializeOwned>(query: &str) -> Option<T> {
    serde_qs::Config::new(5, true)
        .deserialize_str(query)
        .or_else(|_| serde_qs::Config::new(5, false).deserialize_str(query))
        .ok()
}
