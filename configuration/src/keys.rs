//! The known keys, and names that are none of them.

use std::collections::BTreeMap;
use std::fmt;

/// The least Jaro-Winkler similarity, 0 to 1, at which a key is suggested for a name.
const LEAST_SIMILARITY: f64 = 0.8;
/// The highest number of wrong letters in a variable's name that still counts as a misspelt key.
const MOST_SLIPS: usize = 2;

/// The keys of a program, by their names with dots: `tls.mode`.
#[derive(Debug, Clone, Default)]
pub struct KnownKeys(BTreeMap<String, bool>);

/// A name that is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct UnknownKey {
    /// The name: a key with dots, or a variable.
    pub name: String,
    /// The nearest key in the same form, if one is near.
    pub nearest: Option<String>,
}

impl fmt::Display for UnknownKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no key `{}`", self.name)?;
        match &self.nearest {
            Some(nearest) => write!(f, ": did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

impl KnownKeys {
    /// Makes the list of keys, each with whether its value is a table whose type checks the keys below it.
    pub fn new(keys: impl IntoIterator<Item = (String, bool)>) -> Self {
        Self(keys.into_iter().collect())
    }

    /// Checks the name of a key.
    ///
    /// # Errors
    /// [`UnknownKey`], with the nearest key.
    pub fn check(&self, name: &str) -> Result<(), UnknownKey> {
        if self.contains(name) {
            return Ok(());
        }
        Err(UnknownKey { name: name.to_owned(), nearest: self.find_nearest(name).map(str::to_owned) })
    }

    /// Returns whether a variable of the environment sets a key; `name` is that of the key. Other programs have variables with
    /// the same prefix, so another name is an error only below a table of the configuration, or within two letters of a key.
    ///
    /// # Errors
    /// [`UnknownKey`] with the variables' names, if the name is a misspelt key.
    pub fn check_variable(&self, prefix: &str, name: &str) -> Result<bool, UnknownKey> {
        if self.contains(name) {
            return Ok(true);
        }
        let slips = self.0.keys().map(|key| strsim::damerau_levenshtein(key, name)).min();
        if !self.has_table_of(name) && slips.is_none_or(|slips| slips > MOST_SLIPS) {
            return Ok(false);
        }
        let nearest = self.find_nearest(name).map(|key| variable_name(prefix, key));
        Err(UnknownKey { name: variable_name(prefix, name), nearest })
    }

    fn contains(&self, name: &str) -> bool {
        let is_below = |key: &str| name.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        self.0.iter().any(|(key, is_table)| key == name || (*is_table && is_below(key)))
    }

    /// Returns whether a key lies in the first table of a name.
    fn has_table_of(&self, name: &str) -> bool {
        let table = name.split_once('.').map(|(table, _)| table);
        table.is_some_and(|table| self.0.keys().any(|key| key.split_once('.').is_some_and(|(other, _)| other == table)))
    }

    /// Returns the key of the greatest Jaro-Winkler similarity, which counts a common beginning most, if it is near.
    fn find_nearest(&self, name: &str) -> Option<&str> {
        let keys = self.0.keys().map(|key| (key.as_str(), strsim::jaro_winkler(key, name)));
        let (key, similarity) = keys.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        (similarity >= LEAST_SIMILARITY).then_some(key)
    }
}

/// Returns the variable of a key: `UNDERTONE_TLS__MODE` of `tls.mode` with the prefix `UNDERTONE`.
pub fn variable_name(prefix: &str, key: &str) -> String {
    format!("{prefix}_{}", key.replace('.', "__").to_uppercase())
}

#[cfg(test)]
mod tests {
    use super::{KnownKeys, UnknownKey};

    fn known() -> KnownKeys {
        let keys = [("http", false), ("tls.mode", false), ("tls.certificate", false), ("providers", true)];
        KnownKeys::new(keys.map(|(key, is_table)| (key.to_owned(), is_table)))
    }

    #[test]
    fn misspelt_name_is_refused_with_the_nearest_key() {
        for (name, nearest) in [
            ("htpp", Some("http")),
            ("tls.mod", Some("tls.mode")),
            ("tls.cert", Some("tls.certificate")),
            ("http.port", Some("http")),
            ("zzz", None),
        ] {
            let nearest = nearest.map(str::to_owned);
            assert_eq!(known().check(name), Err(UnknownKey { name: name.to_owned(), nearest }), "{name}");
        }
        for name in ["http", "tls.mode", "providers", "providers.north"] {
            assert_eq!(known().check(name), Ok(()), "{name}");
        }
        assert_eq!(
            known().check("tls.mod").map_err(|error| error.to_string()),
            Err("there is no key `tls.mod`: did you mean `tls.mode`?".to_owned())
        );
    }

    #[test]
    fn variable_is_a_key_or_another_programs_or_misspelt() {
        assert_eq!(known().check_variable("UNDERTONE", "tls.mode"), Ok(true));
        assert_eq!(known().check_variable("UNDERTONE", "vectors"), Ok(false));
        for (name, variable, nearest) in [
            ("htpp", "UNDERTONE_HTPP", Some("UNDERTONE_HTTP")),
            ("tls.cert", "UNDERTONE_TLS__CERT", Some("UNDERTONE_TLS__CERTIFICATE")),
            ("tls.x", "UNDERTONE_TLS__X", Some("UNDERTONE_TLS__MODE")),
        ] {
            let refused = known().check_variable("UNDERTONE", name);
            assert_eq!(refused, Err(UnknownKey { name: variable.to_owned(), nearest: nearest.map(str::to_owned) }));
        }
    }
}
