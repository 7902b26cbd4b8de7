//! A provider of sign-ins on loopback, as `.ci/oidc.sh` fetches it, run by the program with which the server's own tests run it.
//! Whoever names themself there is believed: `someone` is `someone@example.org`, and of `unverified-someone` nobody has verified
//! the e-mail.

use std::env;
use std::process::Command;
use std::time::Duration;

use crate::process::Process;
use crate::stage::Staged;
use crate::workspace;

/// What people call it, as it stands on buttons.
pub const NAME: &str = "Clinic login";

/// Node has to start.
const START: Duration = Duration::from_mins(1);
/// The program, in the checkout.
const PROGRAM: &str = "server/src/testing/provider/provider.mjs";
/// What it says before its address.
const LISTENING: &str = "listening at ";

/// A running provider; ends with its value.
#[derive(Debug)]
pub struct Provider {
    /// Its address, as it calls itself.
    pub issuer: String,
    _process: Process,
}

impl Provider {
    /// Starts one that sends browsers back to the server at `address`; `None`, with a word, where `UNDERTONE_OIDC_PROVIDER` names
    /// none.
    ///
    /// # Errors
    /// When it does not come up.
    pub fn start(address: &str) -> Staged<Option<Self>> {
        let Some(folder) = env::var_os("UNDERTONE_OIDC_PROVIDER").filter(|folder| !folder.is_empty()) else {
            eprintln!(
                "passed over: no provider of sign-ins; run .ci/oidc.sh to fetch one, and set UNDERTONE_OIDC_PROVIDER"
            );
            return Ok(None);
        };
        let mut command = Command::new("node");
        command.arg(workspace::root().join(PROGRAM)).arg(folder).arg(format!("{address}/oidc/callback"));
        let process = Process::start("provider", &mut command)?;
        let line = process.wait_for(LISTENING, START)?;
        let (_, issuer) = line.split_once(LISTENING).ok_or("the provider says where it is")?;
        Ok(Some(Self { issuer: issuer.trim().to_owned(), _process: process }))
    }

    /// What a server that believes it finds in its environment.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        vec![
            ("UNDERTONE_OIDC__ISSUER", self.issuer.clone()),
            ("UNDERTONE_OIDC__CLIENT_ID", "undertone".to_owned()),
            ("UNDERTONE_OIDC__CLIENT_SECRET", "a secret of the client".to_owned()),
            ("UNDERTONE_OIDC__NAME", NAME.to_owned()),
        ]
    }
}
