//! Sign-in at identity providers by OpenID Connect.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{ConfigError, is_loopback};

/// The highest number of further providers.
const MOST_PROVIDERS: usize = 16;

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
    /// Whether a person without an invitation may create an account, without any role. An account that exists already is
    /// linked from its own settings.
    pub allow_signup: bool,
    /// The domains of e-mail addresses for which the provider is believed, `clinic.example lab.example`, with blanks
    /// between; empty for all. A linked identity signs in whatever its domain.
    pub domains: String,
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
            domains: String::new(),
        }
    }
}

impl OidcConfig {
    /// Checks the values against each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        let Some(issuer) = &self.issuer else { return Ok(()) };
        if !is_safe_issuer(issuer) {
            return wrong("oidc.issuer", "begin with https://; http:// is for a provider on this machine only");
        }
        if self.client_id.is_empty() {
            return wrong("oidc.client_id", "give the name that the provider has given this server");
        }
        if !is_name(&self.name) {
            return wrong("oidc.name", "use 1 to 40 printable characters");
        }
        if !self.domains.split_whitespace().all(is_domain) {
            return wrong(
                "oidc.domains",
                "use domains of e-mail addresses with blanks between, such as clinic.example, without @",
            );
        }
        Ok(())
    }
}

/// One of several providers by OpenID Connect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderConfig {
    /// Its id in addresses: 1 to 32 small letters, digits and hyphens.
    pub id: String,
    /// The provider's address, exactly as it calls itself.
    pub issuer: String,
    /// The name that the provider has given this server.
    pub client_id: String,
    /// The file that holds the secret that goes with it, when there is one.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub client_secret_file: Option<PathBuf>,
    /// What people call the provider, as it stands on the button: 1 to 40 characters.
    pub name: String,
    /// What is asked for besides the identity itself, with blanks between.
    #[serde(default = "default_scopes")]
    pub scopes: String,
    /// Whether a person without an invitation may create an account, without any role.
    #[serde(default)]
    pub allow_signup: bool,
    /// The domains of e-mail addresses for which the provider is believed, with blanks between; empty for all.
    #[serde(default)]
    pub domains: String,
}

impl ProviderConfig {
    /// Converts the entry to the settings of one provider, with the secret read from its file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> std::io::Result<OidcConfig> {
        let secret = self.client_secret_file.as_ref().map(std::fs::read_to_string).transpose()?;
        Ok(OidcConfig {
            issuer: Some(self.issuer.clone()),
            client_id: self.client_id.clone(),
            client_secret: secret.map(|secret| secret.trim().to_owned()),
            name: self.name.clone(),
            scopes: self.scopes.clone(),
            allow_signup: self.allow_signup,
            domains: self.domains.clone(),
        })
    }

    fn problem(&self) -> Option<&'static str> {
        let is_id = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
        if !(1..=32).contains(&self.id.len()) || !self.id.bytes().all(is_id) {
            return Some("`id`: use 1 to 32 small letters, digits and hyphens");
        }
        if !is_safe_issuer(&self.issuer) {
            return Some("`issuer`: begin with https://; http:// is for a provider on this machine only");
        }
        if self.client_id.is_empty() {
            return Some("`client_id`: give the name that the provider has given this server");
        }
        if !is_name(&self.name) {
            return Some("`name`: use 1 to 40 printable characters");
        }
        if !self.domains.split_whitespace().all(is_domain) {
            return Some("`domains`: use domains of e-mail addresses with blanks between, without @");
        }
        None
    }
}

/// Checks each further provider, and that no two share an id or an issuer.
pub(super) fn check_providers(first: &OidcConfig, providers: &[ProviderConfig]) -> Result<(), ConfigError> {
    let wrong = |remedy| Err(ConfigError::Value { key: "providers", remedy });
    if providers.len() > MOST_PROVIDERS {
        return wrong("use at most 16");
    }
    let mut ids = BTreeSet::new();
    let mut issuers: BTreeSet<&str> = first.issuer.as_deref().into_iter().collect();
    for provider in providers {
        if let Some(remedy) = provider.problem() {
            return wrong(remedy);
        }
        if !ids.insert(provider.id.as_str()) {
            return wrong("`id`: give each provider its own");
        }
        if !issuers.insert(provider.issuer.as_str()) {
            return wrong("`issuer`: give each provider its own, and none that `oidc.issuer` names");
        }
    }
    Ok(())
}

fn default_scopes() -> String {
    OidcConfig::default().scopes
}

fn is_safe_issuer(issuer: &str) -> bool {
    issuer.starts_with("https://") || (issuer.starts_with("http://") && is_loopback(issuer))
}

fn is_name(name: &str) -> bool {
    (1..=40).contains(&name.chars().count()) && !name.chars().any(char::is_control)
}

/// Returns whether a text is a domain name: at least two labels of letters, digits and inner hyphens (RFC 1123, 2.1).
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.contains('.') && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::{OidcConfig, ProviderConfig, check_providers};

    fn provider(id: &str, issuer: &str) -> ProviderConfig {
        ProviderConfig {
            id: id.to_owned(),
            issuer: issuer.to_owned(),
            client_id: "undertone".to_owned(),
            client_secret_file: None,
            name: "Clinic".to_owned(),
            scopes: "openid email".to_owned(),
            allow_signup: false,
            domains: "clinic.example".to_owned(),
        }
    }

    #[test]
    fn providers_have_their_own_ids_and_issuers() {
        let first = OidcConfig { issuer: Some("https://one.example".to_owned()), ..OidcConfig::default() };
        let (two, three) = (provider("two", "https://two.example"), provider("three", "https://three.example"));
        assert!(check_providers(&first, &[two.clone(), three]).is_ok());
        for wrong in [
            provider("two", "https://three.example"),
            provider("other", "https://two.example"),
            provider("other", "https://one.example"),
            provider("other", "http://two.example"),
            provider("Other", "https://three.example"),
            provider("", "https://three.example"),
            ProviderConfig { name: String::new(), ..provider("other", "https://three.example") },
            ProviderConfig { client_id: String::new(), ..provider("other", "https://three.example") },
            ProviderConfig { domains: "@clinic".to_owned(), ..provider("other", "https://three.example") },
        ] {
            assert!(check_providers(&first, &[two.clone(), wrong.clone()]).is_err(), "{wrong:?}");
        }
        let many: Vec<ProviderConfig> =
            (0..17).map(|number| provider(&format!("p{number}"), &format!("https://p{number}.example"))).collect();
        assert!(check_providers(&first, &many[..16]).is_ok());
        assert!(check_providers(&first, &many).is_err(), "one too many");
    }

    #[test]
    fn secret_of_a_provider_is_read_from_its_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("secret");
        std::fs::write(&path, "s3cret\n").expect("written");
        let config = ProviderConfig { client_secret_file: Some(path), ..provider("two", "https://two.example") };
        assert_eq!(config.read().expect("read").client_secret.as_deref(), Some("s3cret"));
        let missing = ProviderConfig { client_secret_file: Some("/nonexistent/secret".into()), ..config };
        assert!(missing.read().is_err());
    }
}
