//! The forms of passkeys. A script fills in the passkey's response; see the parent module for the responses.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]

use leptos::prelude::*;
use undertone_api::id::PasskeyId;

use super::Fault;
#[cfg(feature = "ssr")]
use super::native;
#[cfg(feature = "ssr")]
use crate::backend::PasskeyCeremony;

/// Returns a challenge for the script, as JSON.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "passkey-challenge")]
pub async fn passkey_challenge(ceremony: String) -> Result<String, Fault> {
    let backend = crate::backend::backend()?;
    let ceremony = native::passkey_ceremony(&ceremony)?;
    match backend.passkey_challenge(ceremony).await {
        Ok(challenge) => Ok(native::text(&challenge)?),
        Err(problem) => Ok(native::problem_text(problem)),
    }
}

/// Signs in by a passkey alone, and redirects to `to`.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "passkey-sign-in")]
pub async fn passkey_sign_in(passkey: String, #[server(default)] to: String) -> Result<(), Fault> {
    let answer = native::sign_in_by_passkey(PasskeyCeremony::SignIn, &passkey).await;
    native::land(answer, |()| native::own_address(&to), None)
}

/// Finishes sign-in by a passkey, and redirects to `to`.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "passkey-second-step")]
pub async fn passkey_second_step(passkey: String, #[server(default)] to: String) -> Result<(), Fault> {
    let answer = native::sign_in_by_passkey(PasskeyCeremony::SecondStep, &passkey).await;
    native::land(answer, |()| native::own_address(&to), None)
}

/// Registers a new passkey from the browser.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "add-passkey")]
pub async fn add_passkey(label: String, passkey: String) -> Result<(), Fault> {
    let answer = match native::passkey_answer(&passkey) {
        Ok(registration) => {
            let new = undertone_api::passkey::NewPasskey { label, registration };
            crate::backend::backend()?.add_passkey(new).await
        }
        Err(problem) => Err(problem),
    };
    let notice =
        "The passkey is registered. It signs you in, and stands beside your password as a second factor.".to_owned();
    native::land(answer, |_| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Removes a passkey.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "remove-passkey")]
pub async fn remove_passkey(key: PasskeyId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.remove_passkey(key).await;
    let notice = "The passkey is removed; it signs in no longer.".to_owned();
    native::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Proves the caller's identity by a passkey.
///
/// # Errors
/// The backend's problem.
#[server(prefix = "/ui", endpoint = "prove-by-passkey")]
pub async fn prove_by_passkey(passkey: String) -> Result<(), Fault> {
    let answer = match native::passkey_answer(&passkey) {
        Ok(assertion) => crate::backend::backend()?.prove_identity(native::passkey_proof(assertion)).await,
        Err(problem) => Err(problem),
    };
    let notice = "Your identity is confirmed. For ten minutes you can make credentials and change access.".to_owned();
    native::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}
