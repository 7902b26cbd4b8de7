use axum::http::{StatusCode, header};
use axum_test::TestResponse;
use serde_json::{Value, json};
use undertone_api::organization::InvitationPurpose;
use url::Url;

use super::own_address;
use crate::testing::provider::{HOME, RealProvider};
use crate::testing::{PASSWORD, TestApp};
use undertone_server_core::config::ProviderConfig;
use undertone_server_core::ctx::Clock;

/// Starts a server with a real provider; the server's clock shows the current time.
async fn start_app() -> Option<(TestApp, RealProvider)> {
    let real = RealProvider::start().await?;
    let oidc = real.config.clone();
    let app = TestApp::sqlite_with(|config| {
        config.public_url = Some(HOME.to_owned());
        config.oidc = oidc;
    })
    .await;
    app.clock.advance(Clock::system().now() - app.clock.now());
    Some((app, real))
}

fn location(response: &TestResponse) -> String {
    response.assert_status(StatusCode::SEE_OTHER);
    response.header(header::LOCATION).to_str().expect("text").to_owned()
}

/// Returns the cookies that a browser stores from a response: name and value, without deleted ones.
fn jar(response: &TestResponse) -> String {
    let cookies = response.iter_headers_by_name(header::SET_COOKIE).filter_map(|value| value.to_str().ok());
    let cookies = cookies.filter(|cookie| !cookie.contains("Max-Age=0")).filter_map(|cookie| cookie.split(';').next());
    cookies.collect::<Vec<_>>().join("; ")
}

/// Begins at `/oidc/start?<query>`; returns the redirect address, and the cookie with the state.
async fn begin(app: &TestApp, query: &str) -> (String, String) {
    let started = app.server.get(&format!("/oidc/start?{query}")).await;
    let sealed = started.header(header::SET_COOKIE);
    let sealed = sealed.to_str().expect("text");
    assert!(
        sealed.contains("HttpOnly") && sealed.contains("SameSite=Lax") && sealed.contains("Max-Age=600"),
        "{sealed}"
    );
    (location(&started), jar(&started))
}

/// Links the provider's identity `login` to the account of the member with `session`'s cookies.
async fn link(app: &TestApp, real: &RealProvider, session: &str, login: &str) -> TestResponse {
    let started = app.server.get("/oidc/start?link=true").add_header(header::COOKIE, session).await;
    let back = real.sign_in(&location(&started), login).await;
    come_back(app, &back, &format!("{session}; {}", jar(&started))).await
}

/// Signs in with e-mail and password, like the sign-in page, and returns the session's cookies.
async fn sign_in(app: &TestApp) -> String {
    let form = [("email", "operator@example.org"), ("password", PASSWORD)];
    jar(&app.server.post("/ui/sign-in").form(&form).await)
}

async fn come_back(app: &TestApp, back: &Url, cookie: &str) -> TestResponse {
    let address = format!("{}?{}", back.path(), back.query().unwrap_or_default());
    app.server.get(&address).add_header(header::COOKIE, cookie).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_signs_in_at_the_provider_and_goes_on() {
    let Some((app, real)) = start_app().await else { return };
    app.operator().await;
    let session = sign_in(&app).await;
    assert_eq!(location(&link(&app, &real, &session, "operator").await), "/settings/keys");
    let (address, cookie) = begin(&app, "to=%2Fc%2F1%3Fx%3D2").await;
    assert!(!cookie.contains("state") && !address.contains(&cookie), "what was begun is sealed");
    let back = real.sign_in(&address, "operator").await;
    let came = come_back(&app, &back, &cookie).await;
    assert_eq!(location(&came), "/c/1?x=2");
    let session = jar(&came);
    assert!(session.contains("undertone-access=") && session.contains("undertone-refresh="), "{session}");
    assert!(!session.contains("undertone-provider"), "what was begun is over");
    let me: Value = app.server.get("/api/v1/me").add_header(header::COOKIE, &session).await.json();
    assert_eq!(me["email"], "operator@example.org");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pending_sign_in_is_finished_once_by_its_browser() {
    let Some((app, real)) = start_app().await else { return };
    app.operator().await;
    link(&app, &real, &sign_in(&app).await, "operator").await;
    let (address, cookie) = begin(&app, "").await;
    let back = real.sign_in(&address, "operator").await;
    // Another browser, without a sign-in, with another one, or with an old one.
    assert_eq!(location(&come_back(&app, &back, "").await), "/sign-in?provider=attempt");
    let (_, other) = begin(&app, "").await;
    assert_eq!(location(&come_back(&app, &back, &other).await), "/sign-in?provider=attempt");
    let forged = "undertone-provider=%7B%22attempt%22%3A%7B%7D%7D";
    assert_eq!(location(&come_back(&app, &back, forged).await), "/sign-in?provider=attempt");
    assert_eq!(location(&come_back(&app, &back, &cookie).await), "/");
    // The same code and cookie again.
    let again = come_back(&app, &back, &cookie).await;
    assert_eq!((location(&again), jar(&again)), ("/sign-in?provider=refused".to_owned(), String::new()));
    // An expired cookie.
    let (address, cookie) = begin(&app, "").await;
    let back = real.sign_in(&address, "operator").await;
    app.clock.advance(time::Duration::minutes(10));
    assert_eq!(location(&come_back(&app, &back, &cookie).await), "/sign-in?provider=attempt");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unknown_or_unverified_identity_returns_to_sign_in() {
    let Some((app, real)) = start_app().await else { return };
    app.operator().await;
    for (login, word) in [("stranger", "unknown"), ("unverified-operator", "unverified")] {
        let (address, cookie) = begin(&app, "").await;
        let back = real.sign_in(&address, login).await;
        let came = come_back(&app, &back, &cookie).await;
        assert_eq!((location(&came), jar(&came)), (format!("/sign-in?provider={word}"), String::new()));
    }
    // The e-mail of an account grants access only to an identity that its member has linked.
    for login in ["operator+one", "operator+two"] {
        let (address, cookie) = begin(&app, "").await;
        let back = real.sign_in(&address, login).await;
        assert_eq!(location(&come_back(&app, &back, &cookie).await), "/sign-in?provider=account");
    }
    // A refusal at the provider has no code.
    let (_, cookie) = begin(&app, "").await;
    let declined = Url::parse(&format!("{HOME}/oidc/callback?error=access_denied&state=x")).expect("an address");
    assert_eq!(location(&come_back(&app, &declined, &cookie).await), "/sign-in?provider=declined");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn identity_is_linked_by_the_session_that_began() {
    let Some((app, real)) = start_app().await else { return };
    app.operator().await;
    // A visitor, and a page of another site.
    let visitor = app.server.get("/oidc/start?link=true").await;
    assert_eq!(location(&visitor), "/sign-in?provider=signed-out");
    let session = sign_in(&app).await;
    let forged = app.server.get("/oidc/start?link=true").add_header(header::COOKIE, &session);
    let forged = forged.add_header("sec-fetch-site", "cross-site").await;
    assert_eq!(location(&forged), "/sign-in?provider=signed-out");
    // Another session of the same member cannot finish.
    let started = app.server.get("/oidc/start?link=true").add_header(header::COOKIE, &session).await;
    let back = real.sign_in(&location(&started), "operator").await;
    let other = format!("{}; {}", sign_in(&app).await, jar(&started));
    assert_eq!(location(&come_back(&app, &back, &other).await), "/sign-in?provider=signed-out");
    // The same session can; a second identity is refused on the page from which the member began.
    assert_eq!(location(&link(&app, &real, &session, "operator").await), "/settings/keys");
    assert_eq!(location(&link(&app, &real, &session, "ada").await), "/settings/keys?provider=taken");
    // A response with a cookie of its own also carries the renewed session.
    app.clock.advance(time::Duration::minutes(16));
    let late = app.server.get("/oidc/start").add_header(header::COOKIE, &session).await;
    let cookies = jar(&late);
    assert!(cookies.contains("undertone-provider=") && cookies.contains("undertone-access="), "{cookies}");
    // The sign-in is no fresh proof of identity any more.
    let stale = app.server.get("/oidc/start?link=true").add_header(header::COOKIE, &cookies).await;
    assert_eq!(location(&stale), "/settings/keys?provider=stale");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invitation_is_accepted_by_a_provider_sign_in() {
    let Some((app, real)) = start_app().await else { return };
    let founded = app.founded().await;
    let link = app.link(&founded.operator, InvitationPurpose::Annotator { consortium: founded.consortium }).await;
    let secret = link.rsplit('/').next().expect("a link has parts").to_owned();
    let (address, cookie) = begin(&app, &format!("invitation={secret}")).await;
    let back = real.sign_in(&address, "ada").await;
    let came = come_back(&app, &back, &cookie).await;
    assert_eq!(location(&came), format!("/accept/{secret}"));
    let session = jar(&came);
    let me: Value = app.server.get("/api/v1/me").add_header(header::COOKIE, &session).await.json();
    assert_eq!((&me["email"], &me["grants"]), (&json!("ada@example.org"), &json!([])));
    // The member has no known password.
    let guess = json!({ "email": "ada@example.org", "password": PASSWORD });
    app.server.post("/api/v1/session").json(&guess).await.assert_status(StatusCode::UNAUTHORIZED);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oidc_address_without_a_provider_is_not_found() {
    let app = TestApp::sqlite().await;
    for address in ["/oidc/start", "/oidc/callback?code=x&state=y"] {
        app.server.get(address).await.assert_status(StatusCode::NOT_FOUND);
    }
    assert!(!app.server.get("/sign-in").await.text().contains("/oidc/start"));
    app.close().await;
}

#[test]
fn redirect_never_leaves_this_site() {
    assert_eq!(own_address("/c/1?x=2"), "/c/1?x=2");
    let long = format!("/{}", "x".repeat(1000));
    for elsewhere in
        ["https://evil.example/", "//evil.example", "/\\evil.example", "", "javascript:1", "/a\r\nb: c", &long]
    {
        assert_eq!(own_address(elsewhere), "/", "{elsewhere}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_provider_has_its_own_way_there_and_back() {
    // No process listens there after the listener is dropped.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    drop(listener);
    let app = TestApp::sqlite_with(|config| {
        config.providers = vec![ProviderConfig {
            id: "university".to_owned(),
            issuer: format!("http://{address}"),
            client_id: "undertone".to_owned(),
            client_secret_file: None,
            name: "University".to_owned(),
            scopes: "openid email".to_owned(),
            allow_signup: false,
            domains: String::new(),
        }];
    })
    .await;
    for query in ["", "?provider=university"] {
        let started = app.server.get(&format!("/oidc/start{query}")).await;
        assert_eq!(location(&started), "/sign-in?provider=unavailable", "{query}: it is asked, and does not answer");
    }
    app.server.get("/oidc/start?provider=other").await.assert_status(StatusCode::NOT_FOUND);
    let back = app.server.get("/oidc/callback/university?code=c&state=s").await;
    assert_eq!(location(&back), "/sign-in?provider=attempt", "nothing was begun");
    for other in ["/oidc/callback/other?code=c&state=s", "/oidc/callback?code=c&state=s"] {
        app.server.get(other).await.assert_status(StatusCode::NOT_FOUND);
    }
    let page = app.server.get("/sign-in").await.text();
    assert!(page.contains("Sign in with University") && page.contains("provider=university"), "{page}");
    app.close().await;
}
