use std::collections::BTreeMap;

use time::Duration;
use undertone_api::account::FactorCode;
use undertone_api::organization::InvitationPurpose;
use undertone_api::passkey::{PasskeyAssertion, PasskeyChallenge};
use undertone_server_core::service::{factor, session};
use undertone_server_core::testing::{PASSWORD, SoftwarePasskey, code};

use crate::path;
use crate::testing::{Caller, PASSKEY_SEED, PageResponse, TestDashboard, hidden_value};

/// Returns the secret for an authenticator that a page shows.
fn displayed_secret(page: &str) -> String {
    let secret = page.split("<code class=\"secret\">").nth(1).and_then(|rest| rest.split('<').next());
    secret.expect("the page shows a secret").replace(' ', "")
}

/// Returns the value of a cookie that a response sets.
fn cookie_value(response: &PageResponse, name: &str) -> String {
    let pairs = response.cookies().into_iter().filter_map(|cookie| cookie.split(';').next()?.split_once('='));
    pairs.filter(|(own, _)| *own == name).map(|(_, value)| value.to_owned()).next().expect("the cookie is set")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn factor_secret_is_shown_once_with_its_form() {
    let dashboard = TestDashboard::open().await;
    let came = dashboard.send("offer-factor", "", true).await;
    assert_eq!((came.status.as_u16(), came.location()), (302, path::SECURITY), "{}", came.body);
    let cookies = came.cookies();
    assert!(cookies.iter().all(|cookie| cookie.contains("HttpOnly")), "{cookies:?}");
    let page = dashboard.render(path::SECURITY, true, came.message_cookie()).await.body;
    let secret = displayed_secret(&page);
    assert!(page.contains("class=\"qr\"") && secret.len() >= 32, "{page}");
    assert!(page.contains("action=\"/ui/confirm-factor\"") && page.contains("one-time-code"), "{page}");
    let later = dashboard.render(path::SECURITY, true, "").await.body;
    assert!(!later.contains(&secret) && !later.contains("class=\"secret\""), "it is shown once: {later}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_pages_link_to_each_other() {
    let dashboard = TestDashboard::open().await;
    for here in [path::SETTINGS, path::SECURITY, path::KEYS] {
        let page = dashboard.render(here, true, "").await.body;
        for to in [path::SETTINGS, path::SECURITY, path::KEYS, path::SWITCHES] {
            assert!(page.contains(&format!("<a href=\"{to}\"")), "{to} is missing at {here}: {page}");
        }
        assert!(page.contains(&format!("<a href=\"{here}\" aria-current=\"page\"")), "{here} is not marked: {page}");
    }
    let notifications = dashboard.render(path::NOTIFICATIONS, true, "").await.body;
    assert!(notifications.contains("id=\"switches\""), "{notifications}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn right_code_shows_recovery_codes() {
    let dashboard = TestDashboard::open().await;
    let offer = dashboard.send("offer-factor", "", true).await;
    let secret = displayed_secret(&dashboard.render(path::SECURITY, true, offer.message_cookie()).await.body);
    let right = code(&secret, &dashboard.app);
    let other = if right == "000000" { "000001" } else { "000000" };
    let wrong = dashboard.send("confirm-factor", &format!("code={other}"), true).await;
    assert_eq!(wrong.location(), "/from?x=1");
    let page = dashboard.render(path::SECURITY, true, wrong.message_cookie()).await.body;
    assert!(page.contains("The code is wrong"), "{page}");
    let came = dashboard.send("confirm-factor", &format!("code={right}"), true).await;
    let page = dashboard.render(path::SECURITY, true, came.message_cookie()).await.body;
    let codes = page.split("class=\"recovery-codes\"").nth(1).and_then(|rest| rest.split("</ul>").next());
    assert_eq!(codes.expect("codes").matches("<li><code>").count(), 10, "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn second_factor_sign_in_passes_the_code_page() {
    let dashboard = TestDashboard::open().await;
    let operator = dashboard.actor(dashboard.operator_session).await;
    let secret = factor::offer(dashboard.ctx(), &operator).await.expect("offered").secret;
    let first = FactorCode { code: code(&secret, &dashboard.app) };
    factor::confirm(dashboard.ctx(), &operator, &first).await.expect("the code is right");
    for (to, place) in [("%2Fc%2F1", "/c/1"), ("https%3A%2F%2Fexample.org", "/")] {
        // A code is good for one use.
        dashboard.app.clock.advance(Duration::minutes(1));
        let password = PASSWORD.replace(' ', "+");
        let body = format!("email=operator%40example.org&password={password}&to=%2Fc%2F1");
        let came = dashboard.send_for(&Caller::Visitor, "sign-in", &body, true).await;
        assert_eq!((came.status.as_u16(), came.location()), (302, "/sign-in/code?to=%2Fc%2F1"), "{}", came.body);
        assert!(came.cookies().iter().all(|cookie| cookie.contains("; HttpOnly")), "{:?}", came.cookies());
        assert!(came.cookies().iter().all(|cookie| !cookie.starts_with("undertone-access")), "{:?}", came.cookies());
        let caller = Caller::HalfSession(cookie_value(&came, "undertone-half"));
        let page = dashboard.render_for(&caller, came.location(), "").await.body;
        assert!(page.contains("name=\"to\" value=\"/c/1\"") && page.contains("action=\"/ui/second-factor\""), "{page}");
        let body = format!("code={}&to={to}", code(&secret, &dashboard.app));
        let response = dashboard.send_for(&caller, "second-factor", &body, true).await;
        assert_eq!((response.status.as_u16(), response.location()), (302, place), "{}", response.body);
        let access = cookie_value(&response, "undertone-access");
        session::signed_in(dashboard.ctx(), &access).await.expect("the token is whole");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_are_listed_and_others_can_be_ended() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render(path::SECURITY, true, "").await.body;
    for said in ["Firefox on Linux", "192.0.2.0/24", "● current", "Safari on iOS", "Sign out everywhere else"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert_eq!(page.matches("action=\"/ui/end-session\"").count(), 1, "this one ends by signing out");
    let other = format!("session={}", dashboard.other_session);
    let ended = dashboard.send("end-session", &other, true).await;
    assert_eq!(ended.location(), path::SECURITY, "{}", ended.body);
    assert!(!dashboard.render(path::SECURITY, true, "").await.body.contains("Safari on iOS"), "it has ended");
    let dashboard = TestDashboard::open().await;
    let all = dashboard.send("end-other-sessions", "", true).await;
    let page = dashboard.render(path::SECURITY, true, all.message_cookie()).await.body;
    assert!(page.contains("signed out everywhere else: 1 session."), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn security_page_names_keys_that_a_password_revokes() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render(path::SECURITY, true, "").await.body;
    assert!(page.contains("These API keys are revoked: “nightly export”."), "one is revoked and one is over: {page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_tabs_mark_the_current_page() {
    let dashboard = TestDashboard::open().await;
    for here in [path::SETTINGS, path::SECURITY] {
        let page = dashboard.render(here, true, "").await.body;
        let marked = format!("href=\"{here}\" aria-current=\"page\"");
        assert!(page.contains(&marked), "{here}: {page}");
        for there in [path::SETTINGS, path::SECURITY, path::KEYS] {
            assert!(page.contains(&format!("href=\"{there}\"")), "{here} does not lead to {there}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_link_states_its_effects_and_leads_to_sign_in() {
    let dashboard = TestDashboard::open().await;
    let secret = dashboard.make_reset("deputy-of-north@example.org").await;
    let page = dashboard.render(&format!("/reset/{secret}"), false, "").await;
    assert_eq!(page.status, 200);
    let field = format!("value=\"{secret}\"");
    assert!(page.body.contains("All your sessions end.") && page.body.contains(&field), "{}", page.body);
    assert!(page.body.contains("Your API keys are revoked"), "{}", page.body);
    let body = format!("secret={secret}&password=some+other+sentence+with+47+gulls");
    let response = dashboard.send_for(&Caller::Visitor, "redeem-reset", &body, true).await;
    assert_eq!((response.status.as_u16(), response.location()), (302, path::SIGN_IN), "{}", response.body);
    assert_eq!(dashboard.render(&format!("/reset/{secret}"), false, "").await.status, 410, "it works once");
    let operator = Caller::Member(dashboard.operator_session);
    let body = "email=deputy-of-north%40example.org";
    let response = dashboard.send_for(&operator, "make-reset", body, true).await;
    let page = dashboard.render_for(&operator, path::SETTINGS, response.message_cookie()).await.body;
    assert!(page.contains(&format!("{}/reset/", dashboard.ctx().addresses.http)), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn member_joins_with_the_existing_account() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let secret = dashboard.make_link(InvitationPurpose::Organization { consortium }).await;
    let annotating = dashboard.make_link(InvitationPurpose::Annotator { consortium }).await;
    let address = format!("/accept/{secret}");
    let page = dashboard.render(&address, true, "").await.body;
    assert!(page.contains("action=\"/ui/join\"") && page.contains("no second account is needed"), "{page}");
    assert!(!page.contains("action=\"/ui/accept\"") && !page.contains("name=\"password\""), "{page}");
    assert!(page.contains("Organization that joins") && page.contains("value=\"new\""), "{page}");
    let stranger = dashboard.render(&address, false, "").await.body;
    assert!(stranger.contains(&format!("/sign-in?to=%2Faccept%2F{secret}")), "{stranger}");
    for body in
        [format!("secret={secret}&organization=new&organization_name=East+clinic"), format!("secret={annotating}")]
    {
        let came = dashboard.send("join", &body, true).await;
        assert_eq!((came.status.as_u16(), came.location()), (302, "/"), "{}", came.body);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn admin_changes_roles_members_and_links() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let own = dashboard.own;
    let here = path::organization(consortium, own);
    let page = dashboard.render(&here, true, "").await.body;
    for call in ["assign-roles", "remove-member", "withdraw-member"] {
        assert!(page.contains(&format!("action=\"/ui/{call}\"")), "{call}: {page}");
    }
    assert_eq!(page.matches("action=\"/ui/withdraw-member\"").count(), 1, "only an open link can be withdrawn");
    for said in ["✓ used", "– withdrawn", "◌ open until"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let ids = format!("consortium={consortium}&organization={own}");
    let member = format!("member={}", dashboard.colleague);
    let response = dashboard.send("assign-roles", &format!("{ids}&{member}&roles%5B%5D=auditor"), true).await;
    assert_eq!((response.status.as_u16(), response.location()), (302, here.as_str()), "{}", response.body);
    let none = dashboard.send("assign-roles", &format!("{ids}&{member}"), true).await;
    assert_eq!(none.location(), "/from?x=1", "no role at all goes back");
    let admin = format!("member={}", dashboard.steward);
    let last = dashboard.send("remove-member", &format!("{ids}&{admin}"), true).await;
    let page = dashboard.render(&here, true, last.message_cookie()).await.body;
    assert!(page.to_lowercase().contains("this is the last admin"), "{page}");
    let link = format!("invitation={}", hidden_value(&page, "withdraw-member", "invitation"));
    let withdrawn = dashboard.send("withdraw-member", &format!("{ids}&{link}"), true).await;
    assert_eq!(withdrawn.location(), here, "{}", withdrawn.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consortium_roles_are_assigned_on_organizations_page() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let here = path::organizations(consortium);
    let page = dashboard.render(&here, true, "").await.body;
    for call in ["assign-consortium-roles", "add-consortium-member", "withdraw-organization"] {
        assert!(page.contains(&format!("action=\"/ui/{call}\"")), "{call}: {page}");
    }
    let body = format!("consortium={consortium}&email=deputy-of-north%40example.org&roles%5B%5D=auditor");
    let added = dashboard.send("add-consortium-member", &body, true).await;
    assert_eq!((added.status.as_u16(), added.location()), (302, here.as_str()), "{}", added.body);
    let member = format!("member={}", dashboard.colleague);
    let none = dashboard.send("assign-consortium-roles", &format!("consortium={consortium}&{member}"), true).await;
    assert_eq!((none.status.as_u16(), none.location()), (302, here.as_str()), "{}", none.body);
}

/// Returns the posted form of a passkey's answer.
fn signed_form(passkey: &PasskeyAssertion) -> String {
    let passkey = serde_json::to_string(passkey).expect("an answer is JSON");
    serde_qs::to_string(&BTreeMap::from([("passkey", passkey.as_str()), ("to", "/c/1")])).expect("a form")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn passkey_forms_ask_for_a_challenge_and_sign_in() {
    let dashboard = TestDashboard::open().await;
    let half = dashboard.half_session("steward-of-north@example.org").await;
    let member = || Caller::Member(dashboard.session);
    for (address, caller, ceremony) in [
        (path::SIGN_IN, Caller::Visitor, "sign_in"),
        ("/sign-in/code", Caller::HalfSession(half), "second_step"),
        (path::SECURITY, member(), "register"),
        (path::SECURITY, member(), "prove"),
    ] {
        let page = dashboard.render_for(&caller, address, "").await.body;
        assert!(page.contains(&format!("data-passkey=\"{ceremony}\"")), "{ceremony}: {page}");
        assert_eq!(page.matches("/assets/passkey.js").count(), 1, "{ceremony}: {page}");
        let challenge = ask_for_challenge(&dashboard, &caller, ceremony).await;
        assert_eq!(challenge.user.is_some(), ceremony == "register", "{ceremony}");
        let has_passkeys = !challenge.credentials.is_empty();
        assert_eq!(has_passkeys, ceremony != "sign_in", "only a known caller's passkeys are named: {ceremony}");
    }
    let mut passkey = SoftwarePasskey::of_member(dashboard.ctx(), dashboard.steward, PASSKEY_SEED);
    let challenge = ask_for_challenge(&dashboard, &Caller::Visitor, "sign_in").await;
    let answer = passkey.sign(&challenge);
    let forged = PasskeyAssertion { signature: "30".to_owned(), ..answer.clone() };
    for wrong in [signed_form(&forged), "passkey=&to=%2Fc%2F1".to_owned()] {
        let response = dashboard.send_for(&Caller::Visitor, "passkey-sign-in", &wrong, true).await;
        assert_eq!(response.location(), "/from?x=1", "{wrong}");
    }
    let right = dashboard.send_for(&Caller::Visitor, "passkey-sign-in", &signed_form(&answer), true).await;
    assert_eq!((right.status.as_u16(), right.location()), (302, "/c/1"), "{}", right.body);
    let entered = session::signed_in(dashboard.ctx(), &cookie_value(&right, "undertone-access")).await;
    assert_eq!(entered.expect("the token is whole").id(), dashboard.steward);
}

/// Asks for the challenge of a ceremony, as the script does.
async fn ask_for_challenge(dashboard: &TestDashboard, caller: &Caller, ceremony: &str) -> PasskeyChallenge {
    let response = dashboard.send_for(caller, "passkey-challenge", &format!("ceremony={ceremony}"), false).await;
    let text: String = serde_json::from_str(&response.body).expect("a text");
    serde_json::from_str(&text).expect("a challenge")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn security_page_lists_passkeys_with_their_use() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render(path::SECURITY, true, "").await.body;
    assert!(page.contains("the laptop") && page.contains("last used"), "{page}");
    assert!(page.contains("action=\"/ui/remove-passkey\"") && page.contains("action=\"/ui/add-passkey\""), "{page}");
    let key = format!("key={}", hidden_value(&page, "remove-passkey", "key"));
    let removed = dashboard.send("remove-passkey", &key, true).await;
    assert_eq!(removed.location(), path::SECURITY, "{}", removed.body);
}
