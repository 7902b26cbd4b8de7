//! API keys, with which programs authenticate as a member, and identities at the identity provider.

use leptos::prelude::*;
use undertone_api::api_key::KeyScope;
use undertone_api::id::{ApiKeyId, IdentityId};

use crate::fault::Fault;
#[cfg(feature = "ssr")]
use crate::request::DashboardRequest;
#[cfg(feature = "ssr")]
use crate::{message, reply};
#[cfg(feature = "ssr")]
use undertone_server_core::error::Error;
#[cfg(feature = "ssr")]
use undertone_server_core::service;

/// Makes a key.
///
/// # Errors
/// The operation's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "create-key")]
pub async fn create_key(name: String, days: u32, #[server(default)] scopes: Vec<KeyScope>) -> Result<(), Fault> {
    let key = undertone_api::api_key::NewApiKey { name, scopes, days };
    let request = DashboardRequest::from_context()?;
    let answer = async { service::api_key::create(request.ctx(), request.actor()?, &key).await }.await;
    reply::land(answer.map(message::show_key), |()| crate::path::KEYS.to_owned(), None)
}

/// Revokes a key.
///
/// # Errors
/// The operation's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "revoke-key")]
pub async fn revoke_key(key: ApiKeyId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::api_key::revoke(request.ctx(), request.actor()?, key).await }.await;
    let notice = "The key is revoked. Programs that use it are refused from now on.".to_owned();
    reply::land(answer, |()| crate::path::KEYS.to_owned(), Some(notice))
}

/// Removes an identity at the provider.
///
/// # Errors
/// The operation's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "unlink-identity")]
pub async fn unlink_identity(identity: IdentityId) -> Result<(), Fault> {
    let request = DashboardRequest::from_context()?;
    let answer = async { service::oidc::unlink(request.ctx(), request.actor()?, identity).await }.await;
    // A member who joined by the provider has no password; an older account lost it when the identity was linked.
    let factor = async { service::factor::state(request.ctx(), request.actor()?).await }.await;
    let notice = if factor.map_err(Error::into_problem).is_ok_and(|factor| factor.password) {
        "It signs you in no longer. You sign in with e-mail and password."
    } else {
        "It signs you in no longer, and this account has no password. You come in again by signing in at the provider, which \
         links it again, or by an operator’s link, by which you choose a password."
    };
    reply::land(answer, |()| crate::path::KEYS.to_owned(), Some(notice.to_owned()))
}
