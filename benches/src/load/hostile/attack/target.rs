//! The server under attack, and the accounts that attackers have there.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use support::client::TestClient;
use support::stage::TestResult;
use undertone_api::member::Role;
use url::Url;

use super::super::super::{AT_ONCE, LoadedConsortium, account};
use super::super::probe::sign_in;

/// Accounts of attackers. With 16 streams of each, the members of the crowded organization and all together are over their limits.
const ACCOUNTS: usize = 280;
/// Fewest accounts.
const FEWEST: usize = 4;
/// One of so many accounts is of the first organization: 70 of 280, whose streams are more than an organization may have. The others
/// are spread over the other organizations.
const CROWDED: usize = 4;
/// How long an attacker waits until it is signed in, before its attack.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server under attack.
#[derive(Debug, Clone)]
pub(in super::super) struct TargetServer {
    pub(super) http: SocketAddr,
    pub(super) grpc: SocketAddr,
    pub(super) consortium: String,
    base: String,
    emails: Arc<[String]>,
    tokens: Arc<[String]>,
}

impl TargetServer {
    /// Makes the attackers' accounts, as auditors of every organization.
    ///
    /// # Errors
    /// When the server does not take them.
    pub(in super::super) async fn new(ground: &LoadedConsortium, divisor: usize) -> TestResult<Self> {
        let (stage, stranger) = (&ground.stage, TestClient::new(ground.address()));
        let base = stage.address();
        let port = Url::parse(&base)?.port().ok_or("the server's address has a port")?;
        let one = |number: usize| {
            let others = stage.sites.len().saturating_sub(1).max(1);
            let site = if number.is_multiple_of(CROWDED) { 0 } else { (1 + number % others) % stage.sites.len() };
            account(&stranger, &stage.sites[site], format!("attacker-{number}"), &[Role::Auditor])
        };
        let accounts = stream::iter(0..(ACCOUNTS / divisor).max(FEWEST)).map(one).buffered(AT_ONCE);
        let accounts: Vec<_> = accounts.try_collect().await?;
        Ok(Self {
            http: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            grpc: stage.gateway(),
            consortium: stage.consortium.to_string(),
            base,
            emails: accounts.into_iter().map(|(email, _)| email).collect(),
            tokens: Arc::default(),
        })
    }

    /// Returns the address of what is asked to know whether the server answers.
    pub(in super::super) fn health(&self) -> String {
        format!("{}/health/live", self.base)
    }

    /// Returns where callers sign in.
    pub(in super::super) fn sessions(&self) -> String {
        format!("{}/api/v1/session", self.base)
    }

    /// Signs every attacker in: an access token holds for some minutes only.
    ///
    /// # Errors
    /// When the server does not let one in.
    pub(in super::super) async fn sign_in(&mut self) -> TestResult<()> {
        let sessions = self.sessions();
        let tokens =
            stream::iter(self.emails.iter()).map(|email| sign_in(&sessions, email, PATIENCE)).buffered(AT_ONCE);
        let tokens: Vec<String> = tokens.try_collect().await?;
        self.tokens = tokens.into();
        Ok(())
    }

    /// Returns the token of the attacker that opens this stream.
    pub(super) fn token(&self, stream: usize) -> Option<String> {
        self.tokens.get(stream % self.tokens.len().max(1)).cloned()
    }
}
