//! Links to the identity providers, and the notice after a return without a session. To link from another page: a
//! function beside the first three.

use std::collections::BTreeMap;

use leptos::prelude::*;
use undertone_api::problem::{Code, Problem};
use undertone_server_core::auth::Provider;

use crate::component::said::ProblemBox;
use crate::page_context::PageContext;
use crate::path;

/// Renders the buttons that sign in at a provider and redirect to `to`, one for each provider.
pub(super) fn render_sign_in(context: &PageContext, to: &str) -> Option<AnyView> {
    render_buttons(context, "to", to, "Sign in with")
}

/// Renders the buttons with which the bearer of a link joins at a provider, if there is no sign-in.
pub(super) fn render_acceptance(context: &PageContext, secret: &str) -> Option<AnyView> {
    if context.member().is_ok() {
        return None;
    }
    render_buttons(context, "invitation", secret, "Continue with")
}

/// Renders the button with which a member links an identity at the provider; it leads back to the page of API keys.
pub(super) fn render_link(provider: &Provider) -> AnyView {
    render_button(provider, "link", "true", format!("Link an identity of {}", provider.name()))
}

fn render_buttons(context: &PageContext, name: &str, value: &str, says: &str) -> Option<AnyView> {
    let providers = &context.ctx().providers;
    if providers.is_empty() {
        return None;
    }
    let buttons =
        providers.iter().map(|provider| render_button(provider, name, value, format!("{says} {}", provider.name())));
    Some(view! { <div class="provider"><p class="hint">"or"</p>{buttons.collect_view()}</div> }.into_any())
}

/// Renders a link instead of a form: the content security policy restricts forms to this site.
fn render_button(provider: &Provider, name: &str, value: &str, says: String) -> AnyView {
    let mut query = BTreeMap::from([(name, value)]);
    if !provider.id().is_empty() {
        query.insert("provider", provider.id());
    }
    let query = serde_qs::to_string(&query).unwrap_or_default();
    let href = format!("{}?{query}", path::PROVIDER);
    view! { <p><a class="button" rel="external" href=href>{says}</a></p> }.into_any()
}

/// Renders the reason for a return without a session, by the word in the address.
pub(super) fn render_failure(context: &PageContext) -> Option<AnyView> {
    #[derive(serde::Deserialize)]
    struct ProviderQuery {
        provider: String,
    }
    let ProviderQuery { provider: word } = crate::query::parse(&context.query)?;
    let (code, detail) = explain_failure(&word)?;
    Some(view! { <ProblemBox problem=Problem::new(code, detail)/> }.into_any())
}

/// Returns the meaning of each word, with the remedy.
fn explain_failure(word: &str) -> Option<(Code, &'static str)> {
    Some(match word {
        "attempt" => (
            Code::Unauthenticated,
            "This sign-in was started elsewhere, took longer than ten minutes, or has ended. Start again.",
        ),
        "declined" => (
            Code::Unauthenticated,
            "The provider did not authenticate you. Start again, or sign in with e-mail and password.",
        ),
        "refused" => {
            (Code::Unauthenticated, "The provider's response is invalid. Start again; the server's log has the reason.")
        }
        "unavailable" => (
            Code::Unavailable,
            "The provider is unreachable. Sign in with e-mail and password, or try again in a moment.",
        ),
        "unverified" => {
            (Code::Forbidden, "The provider has not verified your e-mail address. Verify it there, then start again.")
        }
        "unknown" => (
            Code::Forbidden,
            "No account here has the e-mail address of this identity. Members join by invitation link: ask for one, and open it first.",
        ),
        "domain" => (
            Code::Forbidden,
            "This server does not accept the provider for the domain of your e-mail address. Ask the server's operator to add the domain, or sign in with e-mail and password.",
        ),
        "account" => (
            Code::Forbidden,
            "An account with your e-mail address exists and is not linked to this identity. Sign in with e-mail and password, then link the identity under Settings, API keys. If you have no password, ask an operator for a reset link.",
        ),
        "taken" => (
            Code::Forbidden,
            "This identity is linked to another account, or your account to another identity at this provider. Unlink that one first under Settings, API keys.",
        ),
        "signed-out" => (
            Code::Unauthenticated,
            "Your session ended or changed before the provider answered. Sign in, then link the identity again.",
        ),
        "stale" => (
            Code::ProofStale,
            "A linked identity opens your account, so confirm your identity first. Then link it again under Settings, API keys.",
        ),
        "limited" => {
            (Code::RateLimited, "Too many sign-ins from your network were refused. Wait 15 minutes, then start again.")
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::explain_failure;
    use crate::path;
    use undertone_api::organization::InvitationPurpose;
    use undertone_server_core::service::api_key;

    use crate::testing::{TestDashboard, hidden_value};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sign_in_page_links_providers_and_explains_failures() {
        let dashboard = TestDashboard::open().await;
        let page = dashboard.render("/sign-in?to=%2Fc%2F1%3Fx%3D2", false, "").await.body;
        assert!(page.contains("href=\"/oidc/start?to=%2Fc%2F1%3Fx%3D2\""), "{page}");
        assert!(page.contains("Sign in with Clinic login"), "{page}");
        let second = "/oidc/start?provider=university&amp;to=%2Fc%2F1%3Fx%3D2";
        assert!(page.contains(second) && page.contains("Sign in with University login"), "{page}");
        for word in [
            "attempt",
            "declined",
            "refused",
            "unavailable",
            "unverified",
            "domain",
            "unknown",
            "account",
            "taken",
            "signed-out",
            "stale",
            "limited",
        ] {
            let page = dashboard.render(&format!("/sign-in?provider={word}"), false, "").await.body;
            let (_, detail) = explain_failure(word).expect("a word of the server's");
            assert!(page.contains(detail), "{word}: {page}");
        }
        let strange = dashboard.render("/sign-in?provider=%3Cb%3E", false, "").await.body;
        assert!(!strange.contains("<b>"), "{strange}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn invitation_can_be_accepted_at_the_provider() {
        let dashboard = TestDashboard::open().await;
        let secret = dashboard.make_link(InvitationPurpose::Annotator { consortium: dashboard.consortium }).await;
        let page = dashboard.render(&format!("/accept/{secret}"), false, "").await.body;
        assert!(page.contains(&format!("href=\"/oidc/start?invitation={secret}\"")), "{page}");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn api_key_is_made_shown_once_and_revoked() {
        let dashboard = TestDashboard::open().await;
        let page = dashboard.render(path::KEYS, true, "").await.body;
        for said in [
            "nightly export",
            "revoked",
            "expired",
            "read, ledger",
            "Signing in with Clinic login",
            "login.clinic.example",
        ] {
            assert!(page.contains(said), "{said}: {page}");
        }
        assert_eq!(page.matches("action=\"/ui/revoke-key\"").count(), 1, "only a living key can be revoked");
        let came =
            dashboard.send("create-key", "name=export&days=90&scopes%5B%5D=read&scopes%5B%5D=ledger", true).await;
        assert_eq!((came.status.as_u16(), came.location()), (302, path::KEYS), "{}", came.body);
        assert!(came.cookies().iter().all(|cookie| cookie.contains("HttpOnly")), "{:?}", came.cookies());
        let next = dashboard.render(path::KEYS, true, came.message_cookie()).await.body;
        let rest = next.split("udk_").nth(1).expect("the key is shown");
        let secret: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        let actor = api_key::authenticate(dashboard.ctx(), &format!("udk_{secret}")).await.expect("the key works");
        assert_eq!(actor.id(), dashboard.steward);
        assert!(!dashboard.render(path::KEYS, true, "").await.body.contains(&secret), "it is shown once");
        let none = dashboard.send("create-key", "name=export&days=90", true).await;
        assert_eq!(none.location(), "/from?x=1", "a key that reaches nothing goes back");
        let key = format!("key={}", hidden_value(&page, "revoke-key", "key"));
        let revoked = dashboard.send("revoke-key", &key, true).await;
        assert_eq!(revoked.location(), path::KEYS, "{}", revoked.body);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn unlinking_an_identity_names_the_other_sign_in() {
        let dashboard = TestDashboard::open().await;
        let page = dashboard.render(path::KEYS, true, "").await.body;
        let identity = format!("identity={}", hidden_value(&page, "unlink-identity", "identity"));
        let came = dashboard.send("unlink-identity", &identity, true).await;
        assert_eq!((came.status.as_u16(), came.location()), (302, path::KEYS), "{}", came.body);
        let page = dashboard.render(path::KEYS, true, came.message_cookie()).await.body;
        assert!(page.contains("It signs you in no longer. You sign in with e-mail and password."), "{page}");
    }
}
