//! Sign-in at a real identity provider, and at addresses where there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use time::Duration;

use crate::auth::provider::{Identity, Provider, ProviderError, SignInAttempt};
use crate::config::OidcConfig;
use crate::ctx::{Clock, Ctx};
use crate::testing::TestApp;
use crate::testing::provider::{HOME, RealProvider, value};

/// Starts a server and a real provider; the server's clock shows the current time.
async fn start_provider() -> Option<(TestApp, RealProvider, Provider)> {
    let real = RealProvider::start().await?;
    let app = TestApp::sqlite_with(|config| config.public_url = Some(HOME.to_owned())).await;
    app.clock.advance(Clock::system().now() - app.clock.now());
    let provider = Provider::from_config(&real.config).expect("usable").expect("configured");
    Some((app, real, provider))
}

async fn finish(
    provider: &Provider,
    ctx: &Ctx,
    attempt: &SignInAttempt,
    at: &url::Url,
) -> Result<Identity, ProviderError> {
    let issuer = value(at, "iss");
    provider.finish(ctx, attempt, &value(at, "state"), &value(at, "code"), Some(&issuer)).await
}

/// Returns the attempt with another value of this name, as if the browser's cookie had been made by someone else.
fn replace_value(attempt: &SignInAttempt, name: &str) -> SignInAttempt {
    let mut stored = serde_json::to_value(attempt).expect("an object");
    assert!(stored[name].is_string(), "there is a {name}");
    stored[name] = "0".repeat(64).into();
    serde_json::from_value(stored).expect("an attempt")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signed_token_identifies_the_person() {
    let Some((app, real, provider)) = start_provider().await else { return };
    let (address, attempt) = provider.begin(&app.ctx).await.expect("the provider answers");
    for parameter in
        ["code_challenge_method=S256", "response_type=code", "nonce=", "state=", "scope=openid+email+profile"]
    {
        assert!(address.contains(parameter), "{parameter}: {address}");
    }
    let stored = serde_json::to_value(&attempt).expect("an object");
    let verifier = stored["verifier"].as_str().expect("a text");
    assert!(!verifier.is_empty() && !address.contains(verifier), "the verifier stays with us");
    let back = real.sign_in(&address, "ada").await;
    let who = finish(&provider, &app.ctx, &attempt, &back).await.expect("verified");
    assert_eq!((who.subject.as_str(), who.email.as_deref()), ("ada", Some("ada@example.org")));
    assert_eq!(Some(who.issuer), real.config.issuer);
    assert_eq!(who.name.as_deref(), Some("ada of the provider"));
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_code_works_once() {
    let Some((app, real, provider)) = start_provider().await else { return };
    let (address, attempt) = provider.begin(&app.ctx).await.expect("the provider answers");
    let back = real.sign_in(&address, "ada").await;
    finish(&provider, &app.ctx, &attempt, &back).await.expect("the first time");
    let again = finish(&provider, &app.ctx, &attempt, &back).await;
    assert!(matches!(&again, Err(ProviderError::Code(why)) if why.contains("invalid_grant")), "{again:?}");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn response_of_another_attempt_is_refused() {
    let Some((app, real, provider)) = start_provider().await else { return };
    let (ctx, begin) = (&app.ctx, async || provider.begin(&app.ctx).await.expect("the provider answers"));
    // Another state, and another provider's response: no request is sent.
    let (address, attempt) = begin().await;
    let back = real.sign_in(&address, "ada").await;
    let (state, code) = (value(&back, "state"), value(&back, "code"));
    let other = provider.finish(ctx, &attempt, &"0".repeat(64), &code, None).await;
    assert!(matches!(other, Err(ProviderError::Attempt)), "{other:?}");
    let elsewhere = provider.finish(ctx, &attempt, &state, &code, Some("https://evil.example")).await;
    assert!(matches!(elsewhere, Err(ProviderError::Attempt)), "{elsewhere:?}");
    // The same state with another nonce: an attacker has substituted a token.
    let (address, attempt) = begin().await;
    let back = real.sign_in(&address, "ada").await;
    let bent = replace_value(&attempt, "nonce");
    let nonce = finish(&provider, ctx, &bent, &back).await;
    assert!(matches!(&nonce, Err(ProviderError::Identity(why)) if why.contains("nonce")), "{nonce:?}");
    // Another verifier: an attacker has stolen the code.
    let (address, attempt) = begin().await;
    let back = real.sign_in(&address, "ada").await;
    let bent = replace_value(&attempt, "verifier");
    let verifier = finish(&provider, ctx, &bent, &back).await;
    assert!(matches!(verifier, Err(ProviderError::Code(_))), "{verifier:?}");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expired_token_is_refused() {
    let Some((app, real, provider)) = start_provider().await else { return };
    let (address, attempt) = provider.begin(&app.ctx).await.expect("the provider answers");
    let back = real.sign_in(&address, "ada").await;
    app.clock.advance(Duration::hours(2));
    let late = finish(&provider, &app.ctx, &attempt, &back).await;
    assert!(matches!(&late, Err(ProviderError::Identity(why)) if why.contains("xpired")), "{late:?}");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unverified_email_is_ignored() {
    let Some((app, real, provider)) = start_provider().await else { return };
    let (address, attempt) = provider.begin(&app.ctx).await.expect("the provider answers");
    let back = real.sign_in(&address, "unverified-ada").await;
    let who = finish(&provider, &app.ctx, &attempt, &back).await.expect("an identity all the same");
    assert_eq!((who.subject.as_str(), who.email), ("unverified-ada", None));
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absent_provider_is_unreachable() {
    let app = TestApp::sqlite().await;
    // A port that was free shortly before.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let config = OidcConfig {
        issuer: Some(format!("http://127.0.0.1:{port}")),
        client_id: "undertone".to_owned(),
        ..OidcConfig::default()
    };
    let provider = Provider::from_config(&config).expect("usable").expect("configured");
    assert!(matches!(provider.begin(&app.ctx).await, Err(ProviderError::Unreachable(_))));
    app.close().await;
}

/// Makes a provider at this address, without cached metadata.
fn provider_at(address: std::net::SocketAddr) -> Provider {
    let config = OidcConfig {
        issuer: Some(format!("http://{address}")),
        client_id: "undertone".to_owned(),
        ..OidcConfig::default()
    };
    Provider::from_config(&config).expect("usable").expect("configured")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_provider_is_asked_again_after_five_seconds() {
    let app = TestApp::sqlite().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let provider = provider_at(listener.local_addr().expect("it is bound"));
    let requests = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&requests);
    let hangs_up = tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            counter.fetch_add(1, Ordering::SeqCst);
            drop(connection);
        }
    });
    let fails = async || matches!(provider.begin(&app.ctx).await, Err(ProviderError::Unreachable(_)));
    assert!(fails().await);
    let once = requests.load(Ordering::SeqCst);
    assert!(once > 0);
    app.clock.advance(Duration::seconds(5) - Duration::MILLISECOND);
    assert!(fails().await);
    assert_eq!(requests.load(Ordering::SeqCst), once, "it is not asked");
    app.clock.advance(Duration::MILLISECOND);
    assert!(fails().await);
    assert!(requests.load(Ordering::SeqCst) > once, "it is asked again");
    hangs_up.abort();
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_provider_refuses_further_callers_at_once() {
    let app = TestApp::sqlite().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let provider = Arc::new(provider_at(listener.local_addr().expect("it is bound")));
    let (first, ctx) = (Arc::clone(&provider), app.ctx.clone());
    let waits = tokio::spawn(async move { first.begin(&ctx).await.map(drop) });
    // The provider has received a request and does not answer.
    let connection = listener.accept().await.expect("somebody asks");
    for _ in 0..2 {
        let refused = provider.begin(&app.ctx).await.map(drop);
        assert!(
            matches!(&refused, Err(ProviderError::Unreachable(why)) if why.contains("not answered yet")),
            "{refused:?}"
        );
    }
    assert!(!waits.is_finished(), "whoever asked still waits");
    waits.abort();
    drop(connection);
    app.close().await;
}
