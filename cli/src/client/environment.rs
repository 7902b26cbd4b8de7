//! The server, the key and the certificates that the environment names.

use std::ffi::OsString;

use super::ClientError;
use super::address::ServerAddress;

/// The values of the variables. An empty variable counts as unset.
pub(crate) struct EnvironmentSettings {
    /// `UNDERTONE_URL`: the address of the server.
    pub(crate) url: Option<String>,
    /// `UNDERTONE_KEY`: an API key, which replaces the saved sign-in.
    pub(crate) key: Option<String>,
}

impl EnvironmentSettings {
    /// Reads the variables.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let text = |name: &str| {
            let value = variable(name).filter(|value| !value.is_empty())?;
            Some(value.to_string_lossy().into_owned())
        };
        Self { url: text("UNDERTONE_URL"), key: text("UNDERTONE_KEY") }
    }

    /// Checks that the address of the environment, if there is one, is that of the saved sign-in.
    ///
    /// # Errors
    /// [`ClientError::OtherServer`] with both addresses.
    pub(crate) fn check_address(&self, saved: &ServerAddress) -> Result<(), ClientError> {
        let Some(url) = &self.url else { return Ok(()) };
        let named = ServerAddress::parse(url)?;
        if named == *saved {
            return Ok(());
        }
        Err(ClientError::OtherServer { named: named.as_str().to_owned(), saved: saved.as_str().to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::EnvironmentSettings;
    use crate::client::ClientError;
    use crate::client::address::ServerAddress;

    fn read(variables: &[(&str, &str)]) -> EnvironmentSettings {
        EnvironmentSettings::read(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(*value))
        })
    }

    #[test]
    fn empty_variable_counts_as_unset() {
        let settings = read(&[("UNDERTONE_URL", ""), ("UNDERTONE_KEY", "")]);
        assert_eq!((settings.url, settings.key), (None, None));
    }

    #[test]
    fn other_server_than_the_saved_one_is_refused() {
        let saved = ServerAddress::parse("https://first.example").expect("an address");
        for same in ["", "https://first.example", "https://FIRST.example/", "https://first.example:443/api/v1"] {
            assert!(read(&[("UNDERTONE_URL", same)]).check_address(&saved).is_ok(), "{same}");
        }
        let error = read(&[("UNDERTONE_URL", "https://second.example")]).check_address(&saved).expect_err("another");
        assert!(matches!(error, ClientError::OtherServer { .. }));
        let message = error.to_string();
        for part in ["https://first.example", "https://second.example", "unset UNDERTONE_URL"] {
            assert!(message.contains(part), "{message}");
        }
        let error = read(&[("UNDERTONE_URL", "second")]).check_address(&saved).expect_err("no address");
        assert!(matches!(error, ClientError::Address(_)));
    }
}
