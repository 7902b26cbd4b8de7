//! The forms of passkeys. A script fills in the passkey's response; see the parent module for the responses.

#![expect(missing_docs, reason = "the macro makes a struct of each function's arguments and gives its fields no words")]

use leptos::prelude::*;
use undertone_api::id::PasskeyId;

#[cfg(feature = "ssr")]
use super::form;
use crate::fault::Fault;
#[cfg(feature = "ssr")]
use crate::{
    component::passkey::PasskeyCeremony,
    reply,
    request::{Answer, DashboardRequest},
};
#[cfg(feature = "ssr")]
use undertone_api::passkey::{self, PasskeyUse};
#[cfg(feature = "ssr")]
use undertone_server_core::{auth::cookie, service};

/// Returns a challenge for the script, as JSON.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "passkey-challenge")]
pub async fn passkey_challenge(ceremony: String) -> Result<String, Fault> {
    let request = DashboardRequest::from_context()?;
    let ceremony = form::passkey_ceremony(&ceremony)?;
    let ctx = request.ctx();
    let answer = async {
        match ceremony {
            PasskeyCeremony::SignIn => service::session::sign_in_challenge(ctx, "").await,
            PasskeyCeremony::SecondStep => service::session::sign_in_challenge(ctx, request.half_token()?).await,
            PasskeyCeremony::Register => service::passkey::challenge(ctx, request.actor()?, PasskeyUse::Register).await,
            PasskeyCeremony::Prove => service::passkey::challenge(ctx, request.actor()?, PasskeyUse::Prove).await,
        }
    };
    match answer.await {
        Ok(challenge) => Ok(reply::text(&challenge)?),
        Err(error) => Ok(reply::problem_text(error.into_problem())),
    }
}

/// Signs in by a passkey alone, and redirects to `to`.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "passkey-sign-in")]
pub async fn passkey_sign_in(passkey: String, #[server(default)] to: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    finish_sign_in(&request, Ok(""), &passkey, &to).await
}

/// Finishes sign-in by a passkey, and redirects to `to`.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "passkey-second-step")]
pub async fn passkey_second_step(passkey: String, #[server(default)] to: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    finish_sign_in(&request, request.half_token(), &passkey, &to).await
}

/// Signs in by a passkey, alone (an empty `half_token`) or as the second step of a half session; redirects to `to`.
#[cfg(feature = "ssr")]
async fn finish_sign_in(
    request: &DashboardRequest,
    half_token: Answer<&str>,
    passkey: &str,
    to: &str,
) -> Result<(), Fault> {
    let answer = async {
        let passkey = form::passkey_answer(passkey)?;
        let sign_in = passkey::PasskeySignIn { half_token: half_token?.to_owned(), passkey };
        service::session::passkey_sign_in(request.ctx(), request.origin(), &sign_in).await
    };
    let cookies = answer.await.map(|session| cookie::replace_half_session(request.ctx(), &session.tokens));
    reply::land(cookies.map(reply::keep), |()| reply::own_address(to), None)
}

/// Registers a new passkey from the browser.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "add-passkey")]
pub async fn add_passkey(label: String, passkey: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let registration = form::passkey_answer(&passkey)?;
        let new = undertone_api::passkey::NewPasskey { label, registration };
        service::passkey::create(request.ctx(), request.actor()?, &new).await
    };
    let answer = answer.await;
    let notice =
        "The passkey is registered. It signs you in, and stands beside your password as a second factor.".to_owned();
    reply::land(answer, |_| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Removes a passkey.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "remove-passkey")]
pub async fn remove_passkey(key: PasskeyId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::passkey::remove(request.ctx(), request.actor()?, key).await }.await;
    let notice = "The passkey is removed; it signs in no longer.".to_owned();
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}

/// Proves the caller's identity by a passkey.
///
/// # Errors
/// The operation's problem.
#[server(prefix = "/ui", endpoint = "prove-by-passkey")]
pub async fn prove_by_passkey(passkey: String) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async {
        let proof = form::passkey_proof(form::passkey_answer(&passkey)?);
        service::session::prove_identity(request.ctx(), request.actor()?, &proof).await
    };
    let answer = answer.await;
    let notice = "Your identity is confirmed. For ten minutes you can make credentials and change access.".to_owned();
    reply::land(answer, |()| crate::path::SECURITY.to_owned(), Some(notice))
}
