//! `undertone sign-in`: a session, or an API key, that later commands use.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use undertone_api::account::{HalfSession, SecondStep};
use undertone_api::member::Member;
use undertone_api::session::{Session, SignIn};
use utoipa::ToSchema;

use crate::client::environment::{EnvironmentSettings, read_authorities};
use crate::client::{ClientError, RestClient};
use crate::output::StandardOutput;
use crate::prompt;
use crate::store::{Credential, SavedSignIn, SignInStore};
use crate::{CommandAnswer, CommandResult, format_error, print_note};

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
    let saved = SavedSignIn { url: client.url().to_owned(), authorities, credential };
    let Member { name, email, .. } = match replace_sign_in(&mut client, &store, &saved).await {
        Ok(member) => member,
        Err(error) => {
            if kind == CredentialKind::Session {
                report_open_session("the new session", &saved.url, client.end_session().await);
            }
            return Err(error.into());
        }
    };
    let signed_in = SignedIn { url: saved.url, name, email, credential: kind };
    if EnvironmentSettings::read(|name| std::env::var_os(name)).key.is_some() {
        print_note(
            "warning: UNDERTONE_KEY is set, and replaces this sign-in in other commands: unset it to use the sign-in",
        );
    }
    out.print(&signed_in, |signed_in| format!("Signed in to {} as {}.", signed_in.url, signed_in.name))?;
    Ok(CommandAnswer::Positive)
}

/// Checks a new permission, ends the session of the earlier sign-in, and saves the new one in its place.
async fn replace_sign_in(
    client: &mut RestClient,
    store: &SignInStore,
    saved: &SavedSignIn,
) -> Result<Member, ClientError> {
    let member: Member = client.get("/me").await?;
    // Before the new sign-in is saved: a renewal of the earlier session reads and writes the file.
    end_earlier_session(store).await;
    let _lock = store.lock()?;
    store.save(saved)?;
    Ok(member)
}

/// Ends the session of the saved sign-in, if there is one; prints a note if it stays open.
async fn end_earlier_session(store: &SignInStore) {
    match store.load() {
        Ok(Some(earlier)) if matches!(earlier.credential, Credential::Session { .. }) => {
            let url = earlier.url.clone();
            let result = match RestClient::open_saved(store.clone(), earlier) {
                Ok(mut client) => client.end_session().await,
                Err(error) => Err(error),
            };
            report_open_session("the earlier session", &url, result);
        }
        Ok(_) => {}
        Err(error) => {
            print_note(&format!("note: a session of an earlier sign-in may stay open: {}", format_error(&error)));
        }
    }
}

/// Prints a note if a session could not be ended.
fn report_open_session(session: &str, url: &str, result: Result<(), ClientError>) {
    if let Err(error) = result {
        let reason = format_error(&error);
        print_note(&format!(
            "note: {session} at {url} stays open: {reason}\n  end it in the browser (Settings, Security)"
        ));
    }
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
