//! Destinations of security notices besides the dashboard: e-mail to members, and a webhook.

use lettre::message::Mailbox;
use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::ToSchema;

use super::{ConfigError, is_loopback};
use crate::address::is_public_host;

/// The minimum length of the webhook's secret, bytes.
const SHORTEST_SECRET: usize = 32;

/// E-mail of security notices.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MailConfig {
    /// The mail server that takes security notices to members, `mail.example.org:465`; no e-mail is sent when absent.
    pub server: Option<String>,
    /// How the mail server is reached: `tls` (port 465), `starttls` (port 587), or `none` for one on this machine.
    pub tls: MailTls,
    /// The account at the mail server, where it asks for one.
    pub user: Option<String>,
    /// Its password. Set it in the environment rather than in the file.
    pub password: Option<String>,
    /// The sender: `Undertone <undertone@example.org>`.
    pub from: String,
}

impl std::fmt::Debug for MailConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MailConfig").field("server", &self.server).field("tls", &self.tls).finish_non_exhaustive()
    }
}

/// How a mail server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MailTls {
    /// TLS from the first byte.
    #[default]
    Tls,
    /// TLS by the command STARTTLS, without which nothing is sent.
    Starttls,
    /// No TLS.
    None,
}

impl Default for MailConfig {
    fn default() -> Self {
        Self { server: None, tls: MailTls::Tls, user: None, password: None, from: String::new() }
    }
}

impl MailConfig {
    /// Returns host and port of the mail server, if one is configured.
    pub(crate) fn host_and_port(&self) -> Option<(&str, u16)> {
        let (host, port) = self.server.as_deref()?.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port != 0)?;
        (!host.is_empty()).then_some((host, port))
    }

    /// Checks the values against each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        if self.server.is_none() {
            return Ok(());
        }
        let Some((host, _)) = self.host_and_port() else {
            return wrong("mail.server", "use host and port: mail.example.org:465");
        };
        if self.tls == MailTls::None && !is_loopback(&format!("http://{host}")) {
            return wrong("mail.tls", "use `tls` or `starttls`; `none` is for a mail server on this machine");
        }
        if self.user.is_some() != self.password.is_some() {
            return wrong("mail.user, mail.password", "give both, or neither");
        }
        if self.from.parse::<Mailbox>().is_err() {
            return wrong("mail.from", "give the sender: Undertone <undertone@example.org>");
        }
        Ok(())
    }
}

/// A webhook for security notices.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookConfig {
    /// The address to which security notices are posted, `https://siem.example.org/undertone`; none are when absent. `http://` is for
    /// this machine, with `webhook.private_network`.
    pub url: Option<String>,
    /// The secret that signs them (HMAC-SHA-256): at least 32 characters. Set it in the environment rather than in the file.
    pub secret: Option<String>,
    /// Whether `webhook.url` may lead to this machine or a private network.
    pub private_network: bool,
}

impl std::fmt::Debug for WebhookConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WebhookConfig").field("private_network", &self.private_network).finish_non_exhaustive()
    }
}

impl WebhookConfig {
    /// Checks the values against each other.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |key, remedy| Err(ConfigError::Value { key, remedy });
        let Some(address) = &self.url else { return Ok(()) };
        let Ok(url) = Url::parse(address) else {
            return wrong("webhook.url", "use an address that begins with https://");
        };
        let is_local = url.scheme() == "http" && is_loopback(address) && self.private_network;
        if url.scheme() != "https" && !is_local {
            return wrong(
                "webhook.url",
                "begin with https://; http:// is for this machine, with `webhook.private_network = true`",
            );
        }
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("webhook.url", "leave user and password out: the signature says who sends it");
        }
        if !self.private_network && !is_public_host(&url) {
            return wrong(
                "webhook.url",
                "use a public name or address, or set `webhook.private_network = true` for a private one",
            );
        }
        if self.secret.as_ref().is_none_or(|secret| secret.len() < SHORTEST_SECRET) {
            return wrong(
                "webhook.secret",
                "give a secret of at least 32 characters, such as from `openssl rand -hex 32`",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{MailConfig, MailTls, WebhookConfig};

    #[test]
    fn mail_server_without_tls_is_on_this_machine() {
        let mail = |server: &str, tls| MailConfig {
            server: Some(server.to_owned()),
            tls,
            from: "Undertone <undertone@example.org>".to_owned(),
            ..MailConfig::default()
        };
        for (server, tls, is_right) in [
            ("mail.example.org:465", MailTls::Tls, true),
            ("mail.example.org:587", MailTls::Starttls, true),
            ("127.0.0.1:25", MailTls::None, true),
            ("localhost:25", MailTls::None, true),
            ("mail.example.org:25", MailTls::None, false),
            ("mail.example.org", MailTls::Tls, false),
            (":465", MailTls::Tls, false),
            ("mail.example.org:0", MailTls::Tls, false),
        ] {
            assert_eq!(mail(server, tls).check().is_ok(), is_right, "{server} {tls:?}");
        }
        let sender = MailConfig { from: "nobody".to_owned(), ..mail("mail.example.org:465", MailTls::Tls) };
        assert!(sender.check().is_err());
        let half = MailConfig { user: Some("undertone".to_owned()), ..mail("mail.example.org:465", MailTls::Tls) };
        assert!(half.check().is_err(), "an account has a password");
    }

    #[test]
    fn webhook_is_public_unless_private_network_is_set() {
        let secret = Some("0123456789abcdef0123456789abcdef".to_owned());
        for (url, public, private) in [
            ("https://siem.example.org/undertone", true, true),
            ("https://8.8.8.8/", true, true),
            ("https://localhost/", false, true),
            ("https://127.0.0.1/", false, true),
            ("https://10.0.0.7/", false, true),
            ("https://[::1]/", false, true),
            ("https://[fd00::1]/", false, true),
            ("https://[::ffff:10.0.0.7]/", false, true),
            ("https://169.254.169.254/latest", false, true),
            ("http://127.0.0.1:9000/", false, true),
            ("http://siem.example.org/", false, false),
            ("https://user:word@siem.example.org/", false, false),
            ("siem.example.org", false, false),
        ] {
            for (private_network, is_right) in [(false, public), (true, private)] {
                let webhook = WebhookConfig { url: Some(url.to_owned()), secret: secret.clone(), private_network };
                assert_eq!(webhook.check().is_ok(), is_right, "{url} private_network {private_network}");
            }
        }
        let short = WebhookConfig {
            url: Some("https://siem.example.org/".to_owned()),
            secret: Some("short".to_owned()),
            private_network: false,
        };
        assert!(short.check().is_err(), "a short secret is guessed");
    }
}
