//! A sign-in provider on loopback, downloaded by `.ci/oidc.sh`, run by the same program as in the server's own tests.
//! It accepts every login: `someone` is `someone@example.org`, and the e-mail address of `unverified-someone` is
//! unverified.

use std::env;
use std::process::Command;
use std::time::Duration;

use crate::process::TestProcess;
use crate::stage::TestResult;
use crate::workspace;

/// Its display name on buttons.
pub const NAME: &str = "Clinic login";

/// The time limit for starting Node.
const START: Duration = Duration::from_mins(1);
/// The program, relative to the root of the checkout.
const PROGRAM: &str = "server/core/src/testing/provider/provider.mjs";
/// The text before its address in the output.
const LISTENING: &str = "listening at ";

/// A running provider; ends when dropped.
#[derive(Debug)]
pub struct TestProvider {
    /// Its address as issuer.
    pub issuer: String,
    _process: TestProcess,
}

impl TestProvider {
    /// Starts a provider that redirects browsers to the server at `address`; returns `None`, with a note, where
    /// `UNDERTONE_OIDC_PROVIDER` is not set.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(address: &str) -> TestResult<Option<Self>> {
        let Some(folder) = env::var_os("UNDERTONE_OIDC_PROVIDER").filter(|folder| !folder.is_empty()) else {
            eprintln!(
                "passed over: no provider of sign-ins; run .ci/oidc.sh to fetch one, and set UNDERTONE_OIDC_PROVIDER"
            );
            return Ok(None);
        };
        let mut command = Command::new("node");
        command.arg(workspace::root().join(PROGRAM)).arg(folder).arg(format!("{address}/oidc/callback"));
        let process = TestProcess::start("provider", &mut command)?;
        let line = process.wait_for(LISTENING, START)?;
        let (_, issuer) = line.split_once(LISTENING).ok_or("the provider says where it is")?;
        Ok(Some(Self { issuer: issuer.trim().to_owned(), _process: process }))
    }

    /// Returns the environment of a server that trusts the provider.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("UNDERTONE_OIDC__ISSUER", self.issuer.clone()),
            ("UNDERTONE_OIDC__CLIENT_ID", "undertone".to_owned()),
            ("UNDERTONE_OIDC__CLIENT_SECRET", "a secret of the client".to_owned()),
            ("UNDERTONE_OIDC__NAME", NAME.to_owned()),
        ]
    }
}
