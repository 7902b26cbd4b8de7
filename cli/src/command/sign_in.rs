//! `undertone sign-in`: a session, or an API key, that later commands use.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use undertone_api::account::{HalfSession, SecondStep};
use undertone_api::member::Member;
use undertone_api::session::{Session, SignIn};
use utoipa::ToSchema;

use crate::client::RestClient;
use crate::client::environment::{EnvironmentSettings, read_authorities};
use crate::output::StandardOutput;
use crate::prompt;
use crate::store::{Credential, SavedSignIn, SignInStore};
use crate::{CommandAnswer, CommandResult, print_note};

/// The options of `sign-in`.
#[derive(Debug, clap::Args)]
pub(crate) struct SignInOptions {
    /// The address of the server.
    #[arg(env = "UNDERTONE_URL", value_name = "https://HOST")]
    url: String,
    /// Your e-mail address; the command asks for it if it is missing.
    #[arg(long, value_name = "EMAIL", conflicts_with = "api_key")]
    email: Option<String>,
    /// Ask for an API key instead of e-mail and password.
    #[arg(long)]
    api_key: bool,
    /// The certificates (PEM) by which the server is recognized instead of the system's.
    #[arg(long, env = "UNDERTONE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,
}

/// The signed-in member.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SignedIn {
    /// The address of the server.
    url: String,
    /// The member's name.
    name: String,
    /// The member's e-mail address.
    email: String,
    /// The form of the saved permission.
    credential: CredentialKind,
}

/// The form of a saved permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum CredentialKind {
    /// An API key.
    ApiKey,
    /// A session.
    Session,
}

/// The answer to a password: a session, or the first half of one.
#[derive(Deserialize)]
#[serde(untagged)]
enum SignInAnswer {
    Half(HalfSession),
    Whole(Box<Session>),
}

/// The reason why a sign-in cannot be completed at a terminal.
#[derive(Debug, thiserror::Error)]
#[error(
    "this account signs in with a passkey: create an API key in the browser (Settings, API keys), and add --api-key"
)]
struct PasskeyNeeded;

/// Signs in, and saves the permission.
pub(crate) async fn run(options: &SignInOptions, out: &mut StandardOutput) -> CommandResult {
    let authorities = options.ca.as_deref().map(read_authorities).transpose()?;
    let store = SignInStore::find(|name| std::env::var_os(name))?;
    let mut client = RestClient::new(&options.url, authorities.as_deref())?;
    let (credential, kind) = if options.api_key {
        (Credential::ApiKey { key: prompt::ask_secret("API key")? }, CredentialKind::ApiKey)
    } else {
        let email = match &options.email {
            Some(email) => email.clone(),
            None => prompt::ask("E-mail")?,
        };
        (open_session(&mut client, email).await?, CredentialKind::Session)
    };
    let mut client = client.with_credential(credential.clone());
    let Member { name, email, .. } = client.get("/me").await?;
    let _lock = store.lock()?;
    store.save(&SavedSignIn { url: client.url().to_owned(), authorities, credential })?;
    let signed_in = SignedIn { url: client.url().to_owned(), name, email, credential: kind };
    if EnvironmentSettings::read(|name| std::env::var_os(name)).key.is_some() {
        print_note(
            "warning: UNDERTONE_KEY is set, and replaces this sign-in in other commands: unset it to use the sign-in",
        );
    }
    out.print(&signed_in, |signed_in| format!("Signed in to {} as {}.", signed_in.url, signed_in.name))?;
    Ok(CommandAnswer::Positive)
}

async fn open_session(
    client: &mut RestClient,
    email: String,
) -> Result<Credential, Box<dyn std::error::Error + Send + Sync>> {
    let password = prompt::ask_secret("Password")?;
    let session = match client.post("/session", &SignIn { email, password }).await? {
        SignInAnswer::Whole(session) => *session,
        SignInAnswer::Half(half) if half.factors.code => {
            let code = prompt::ask_secret("Code of the authenticator, or a recovery code")?;
            client.post("/session/second-factor", &SecondStep { half_token: half.half_token, code }).await?
        }
        SignInAnswer::Half(_) => return Err(PasskeyNeeded.into()),
    };
    Ok(Credential::Session { tokens: session.tokens })
}
