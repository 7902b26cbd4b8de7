//! A real identity provider for tests, on loopback, and a person with a browser who signs in there.

use std::process::Stdio;

use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use url::Url;

use crate::config::OidcConfig;

/// The public address of the tests' server; nothing ever connects there.
pub const HOME: &str = "http://undertone.example";

/// The provider; its process ends when this is dropped.
pub struct RealProvider {
    /// The configuration of a server that uses it.
    pub config: OidcConfig,
    _process: Child,
    _folder: TempDir,
}

impl RealProvider {
    /// Starts the provider; prints a message and returns `None` if `UNDERTONE_OIDC_PROVIDER` is not set (see
    /// `.ci/oidc.sh`).
    pub async fn start() -> Option<Self> {
        let Some(root) = std::env::var("UNDERTONE_OIDC_PROVIDER").ok().filter(|root| !root.is_empty()) else {
            eprintln!("no provider of sign-ins: UNDERTONE_OIDC_PROVIDER is not set, so this is not tested");
            return None;
        };
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = folder.path().join("provider.mjs");
        std::fs::write(&script, include_str!("provider/provider.mjs")).expect("written");
        let mut command = Command::new("node");
        command.arg(script).arg(root).arg(format!("{HOME}/oidc/callback"));
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut process = command.spawn().expect("node starts");
        let mut lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let issuer = loop {
            let line = lines.next_line().await.expect("text").expect("the provider says where it is");
            if let Some(issuer) = line.strip_prefix("listening at ") {
                break issuer.to_owned();
            }
        };
        // The later output must be read, or the process would block.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let config = OidcConfig {
            issuer: Some(issuer),
            client_id: "undertone".to_owned(),
            client_secret: Some("a secret of the client".to_owned()),
            name: "Clinic login".to_owned(),
            ..OidcConfig::default()
        };
        Some(Self { config, _process: process, _folder: folder })
    }

    /// Signs in as `login` at the address of the server's redirect, like a browser, and returns the address of the
    /// provider's redirect back.
    pub async fn sign_in(&self, address: &str, login: &str) -> Url {
        let browser =
            reqwest::Client::builder().cookie_store(true).redirect(Policy::none()).build().expect("there is TLS");
        let mut next = browser.get(address).build().expect("an address");
        for _ in 0..12 {
            let at = next.url().clone();
            let answer = browser.execute(next).await.expect("the provider answers");
            if let Some(location) = answer.headers().get(LOCATION) {
                let to = at.join(location.to_str().expect("text")).expect("an address");
                if to.as_str().starts_with(HOME) {
                    return to;
                }
                next = browser.get(to).build().expect("an address");
                continue;
            }
            let page = answer.text().await.expect("a page");
            let prompt = if page.contains("value=\"login\"") { "login" } else { "consent" };
            assert!(page.contains(&format!("value=\"{prompt}\"")), "neither asks who it is nor whether it may: {page}");
            let form = [("prompt", prompt), ("login", login), ("password", "any")];
            let body: String = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
            let post = browser.post(at).header("content-type", "application/x-www-form-urlencoded").body(body);
            next = post.build().expect("an address");
        }
        panic!("the provider leads nowhere");
    }
}

/// Returns a query parameter of an address.
pub fn value(address: &Url, name: &str) -> String {
    let pair = address.query_pairs().find(|(key, _)| key == name);
    pair.map(|(_, value)| value.into_owned()).unwrap_or_default()
}
