//! `undertone sign-out`: the end of a session.

use serde::Serialize;
use utoipa::ToSchema;

use crate::client::RestClient;
use crate::output::StandardOutput;
use crate::store::{Credential, SignInStore};
use crate::{CommandAnswer, CommandResult};

/// The end of a sign-in.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SignedOut {
    /// The address of the server; absent without a sign-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Whether the server ended the session. An API key stays valid.
    is_ended: bool,
}

/// Ends the session and deletes the sign-in.
pub(crate) async fn run(out: &mut StandardOutput) -> CommandResult {
    let store = SignInStore::find(|name| std::env::var_os(name))?;
    let Some(saved) = store.load()? else {
        out.print(&SignedOut { url: None, is_ended: false }, |_| "No sign-in is saved.".to_owned())?;
        return Ok(CommandAnswer::Positive);
    };
    let is_ended = match &saved.credential {
        Credential::ApiKey { .. } => false,
        Credential::Session { .. } => {
            RestClient::open_saved(store.clone(), saved.clone())?.end_session().await?;
            true
        }
    };
    // A renewal in another process has written the file before it releases this lock, and finds no sign-in later.
    let _lock = store.lock()?;
    store.delete()?;
    out.print(&SignedOut { url: Some(saved.url), is_ended }, |signed_out| {
        let url = signed_out.url.as_deref().unwrap_or_default();
        if signed_out.is_ended {
            format!("Signed out of {url}.")
        } else {
            format!(
                "Deleted the API key for {url} here. It stays valid: revoke it in the browser (Settings, API keys)."
            )
        }
    })?;
    Ok(CommandAnswer::Positive)
}
