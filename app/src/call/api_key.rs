//! API keys, with which programs authenticate as a member, and identities at the identity provider.

use leptos::prelude::*;
use undertone_api::api_key::KeyScope;
use undertone_api::id::{ApiKeyId, IdentityId};

use super::Fault;
#[cfg(feature = "ssr")]
use super::native;

/// Makes a key.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "create-key")]
pub async fn create_key(name: String, days: u32, #[server(default)] scopes: Vec<KeyScope>) -> Result<(), Fault> {
    let key = undertone_api::api_key::NewApiKey { name, scopes, days };
    let answer = crate::backend::backend()?.create_api_key(key).await;
    native::land(answer.map(native::show_key), |()| crate::path::KEYS.to_owned(), None)
}

/// Revokes a key.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "revoke-key")]
pub async fn revoke_key(key: ApiKeyId) -> Result<(), Fault> {
    let answer = crate::backend::backend()?.revoke_api_key(key).await;
    let notice = "The key is revoked. Programs that use it are refused from now on.".to_owned();
    native::land(answer, |()| crate::path::KEYS.to_owned(), Some(notice))
}

/// Removes an identity at the provider.
///
/// # Errors
/// The backend's [`Problem`](undertone_api::problem::Problem).
#[server(prefix = "/ui", endpoint = "unlink-identity")]
pub async fn unlink_identity(identity: IdentityId) -> Result<(), Fault> {
    let backend = crate::backend::backend()?;
    let answer = backend.unlink_identity(identity).await;
    // A member who joined by the provider has no password; an older account lost it when the identity was linked.
    let notice = if backend.factor().await.is_ok_and(|factor| factor.password) {
        "It signs you in no longer. You sign in with e-mail and password."
    } else {
        "It signs you in no longer, and this account has no password. You come in again by signing in at the provider, which \
         links it again, or by an operator’s link, by which you choose a password."
    };
    native::land(answer, |()| crate::path::KEYS.to_owned(), Some(notice.to_owned()))
}
