use crate::path;
use crate::testing::TestDashboard;

/// Returns the message that a response leaves for the next page.
fn message_cookie<'a>(cookies: &[&'a str]) -> &'a str {
    let word = cookies.iter().find(|cookie| cookie.starts_with("undertone-word="));
    word.and_then(|cookie| cookie.split(';').next()).expect("word is left for the next page")
}

#[tokio::test]
async fn factor_secret_is_shown_once_with_its_form() {
    let dashboard = TestDashboard::open().await;
    let came = dashboard.send("offer-factor", "", true).await;
    assert_eq!((came.status.as_u16(), came.location()), (302, path::SECURITY), "{}", came.body);
    let cookies = came.cookies();
    assert!(cookies.iter().all(|cookie| cookie.contains("HttpOnly")), "{cookies:?}");
    let page = dashboard.render(path::SECURITY, true, message_cookie(&cookies)).await.body;
    assert!(page.contains("class=\"qr\"") && page.contains("GEZD GNBV GY3T QOJQ"), "{page}");
    assert!(page.contains("action=\"/ui/confirm-factor\"") && page.contains("one-time-code"), "{page}");
    let later = dashboard.render(path::SECURITY, true, "").await.body;
    assert!(!later.contains("GEZD"), "it is shown once: {later}");
}

#[tokio::test]
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

#[tokio::test]
async fn right_code_shows_recovery_codes() {
    let dashboard = TestDashboard::open().await;
    let came = dashboard.send("confirm-factor", "code=123456", true).await;
    let page = dashboard.render(path::SECURITY, true, message_cookie(&came.cookies())).await.body;
    assert_eq!(page.matches("<li><code>ABCD-EFGH-JKMN-").count(), 10, "{page}");
    let wrong = dashboard.send("confirm-factor", "code=000000", true).await;
    assert_eq!(wrong.location(), "/from?x=1");
    let page = dashboard.render(path::SECURITY, true, message_cookie(&wrong.cookies())).await.body;
    assert!(page.contains("The code is wrong"), "{page}");
}

#[tokio::test]
async fn second_factor_sign_in_passes_the_code_page() {
    let dashboard = TestDashboard::open().await;
    let came = dashboard.send("sign-in", "email=two%40steps.example&password=x&to=%2Fc%2F1", true).await;
    assert_eq!((came.status.as_u16(), came.location()), (302, "/sign-in/code?to=%2Fc%2F1"), "{}", came.body);
    assert_eq!(came.cookies(), ["half=h5; HttpOnly"]);
    let page = dashboard.render(came.location(), false, "").await.body;
    assert!(page.contains("name=\"to\" value=\"/c/1\"") && page.contains("action=\"/ui/second-factor\""), "{page}");
    let response = dashboard.send("second-factor", "code=123456&to=%2Fc%2F1", true).await;
    assert_eq!((response.status.as_u16(), response.location()), (302, "/c/1"), "{}", response.body);
    let elsewhere = dashboard.send("second-factor", "code=123456&to=https%3A%2F%2Fexample.org", true).await;
    assert_eq!(elsewhere.location(), "/", "nobody is sent to another site");
}

#[tokio::test]
async fn sessions_are_listed_and_others_can_be_ended() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render(path::SECURITY, true, "").await.body;
    for said in ["Firefox on Linux", "192.0.2.0/24", "● current", "Safari on iOS", "Sign out everywhere else"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert_eq!(page.matches("action=\"/ui/end-session\"").count(), 1, "this one ends by signing out");
    let ended = dashboard.send("end-session", "session=00000000-0000-0000-0000-000000000b02", true).await;
    assert_eq!(ended.location(), path::SECURITY, "{}", ended.body);
    let all = dashboard.send("end-other-sessions", "", true).await;
    let page = dashboard.render(path::SECURITY, true, message_cookie(&all.cookies())).await.body;
    assert!(page.contains("signed out everywhere else: 1 session."), "{page}");
}

#[tokio::test]
async fn security_page_names_keys_that_a_password_revokes() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render(path::SECURITY, true, "").await.body;
    assert!(page.contains("These API keys are revoked: “nightly export”."), "one is revoked and one is over: {page}");
}

#[tokio::test]
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

#[tokio::test]
async fn reset_link_states_its_effects_and_leads_to_sign_in() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render("/reset/0a1b", false, "").await;
    assert_eq!(page.status, 200);
    assert!(page.body.contains("All your sessions end.") && page.body.contains("value=\"0a1b\""), "{}", page.body);
    assert!(page.body.contains("Your API keys are revoked"), "{}", page.body);
    assert_eq!(dashboard.render("/reset/spent", false, "").await.status, 410);
    let response = dashboard.send("redeem-reset", "secret=0a1b&password=some+other+sentence", true).await;
    assert_eq!((response.status.as_u16(), response.location()), (302, path::SIGN_IN), "{}", response.body);
    let response = dashboard.send("make-reset", "email=a%40b.example", true).await;
    let page = dashboard.render(path::SETTINGS, true, message_cookie(&response.cookies())).await.body;
    assert!(page.contains("https://undertone.example/reset/0a1b2c3d"), "{page}");
}

#[tokio::test]
async fn member_joins_with_the_existing_account() {
    let dashboard = TestDashboard::open().await;
    let own = dashboard.own;
    let page = dashboard.render("/accept/0a1b", true, "").await.body;
    assert!(page.contains("action=\"/ui/join\"") && page.contains("no second account is needed"), "{page}");
    assert!(!page.contains("action=\"/ui/accept\"") && !page.contains("name=\"password\""), "{page}");
    assert!(page.contains("Organization that joins") && page.contains("value=\"new\""), "{page}");
    let stranger = dashboard.render("/accept/0a1b", false, "").await.body;
    assert!(stranger.contains("/sign-in?to=%2Faccept%2F0a1b"), "{stranger}");
    for body in [format!("secret=0a1b&organization={own}&organization_name="), "secret=0a1b".to_owned()] {
        let came = dashboard.send("join", &body, true).await;
        assert_eq!((came.status.as_u16(), came.location()), (302, "/"), "{}", came.body);
    }
}

#[tokio::test]
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
    let member = "member=00000000-0000-0000-0000-000000000001";
    let response = dashboard.send("assign-roles", &format!("{ids}&{member}&roles%5B%5D=auditor"), true).await;
    assert_eq!((response.status.as_u16(), response.location()), (302, here.as_str()), "{}", response.body);
    let none = dashboard.send("assign-roles", &format!("{ids}&{member}"), true).await;
    assert_eq!(none.location(), "/from?x=1", "no role at all goes back");
    let last = dashboard.send("remove-member", &format!("{ids}&{member}"), true).await;
    let page = dashboard.render(&here, true, message_cookie(&last.cookies())).await.body;
    assert!(page.contains("This is the last admin."), "{page}");
    let link = "invitation=00000000-0000-0000-0000-000000000902";
    let withdrawn = dashboard.send("withdraw-member", &format!("{ids}&{link}"), true).await;
    assert_eq!(withdrawn.location(), here, "{}", withdrawn.body);
}

#[tokio::test]
async fn consortium_roles_are_assigned_on_organizations_page() {
    let dashboard = TestDashboard::open().await;
    let consortium = dashboard.consortium;
    let here = path::organizations(consortium);
    let page = dashboard.render(&here, true, "").await.body;
    for call in ["assign-consortium-roles", "add-consortium-member", "withdraw-organization"] {
        assert!(page.contains(&format!("action=\"/ui/{call}\"")), "{call}: {page}");
    }
    let body = format!("consortium={consortium}&email=a%40b.example&roles%5B%5D=auditor");
    let added = dashboard.send("add-consortium-member", &body, true).await;
    assert_eq!((added.status.as_u16(), added.location()), (302, here.as_str()), "{}", added.body);
    let member = "member=00000000-0000-0000-0000-000000000001";
    let none = dashboard.send("assign-consortium-roles", &format!("consortium={consortium}&{member}"), true).await;
    assert_eq!((none.status.as_u16(), none.location()), (302, here.as_str()), "{}", none.body);
}

/// Returns the posted form of a passkey with this credential.
fn signed_form(credential: &str) -> String {
    let assertion = format!(
        "%7B%22ticket%22%3A%22t%22%2C%22credential%22%3A%22{credential}%22%2C%22client_data%22%3A%22%7B%7D%22%2C\
         %22authenticator_data%22%3A%2200%22%2C%22signature%22%3A%2230%22%7D"
    );
    format!("passkey={assertion}&to=%2Fc%2F1")
}

#[tokio::test]
async fn passkey_forms_ask_for_a_challenge_and_sign_in() {
    let dashboard = TestDashboard::open().await;
    for (address, signed_in, ceremony) in [
        (path::SIGN_IN, false, "sign_in"),
        ("/sign-in/code", false, "second_step"),
        (path::SECURITY, true, "register"),
        (path::SECURITY, true, "prove"),
    ] {
        let page = dashboard.render(address, signed_in, "").await.body;
        assert!(page.contains(&format!("data-passkey=\"{ceremony}\"")), "{ceremony}: {page}");
        assert_eq!(page.matches("/assets/passkey.js").count(), 1, "{ceremony}: {page}");
        let challenge = dashboard.send("passkey-challenge", &format!("ceremony={ceremony}"), false).await.body;
        assert!(challenge.contains(&format!("ticket-{ceremony}")), "{challenge}");
    }
    let right = dashboard.send("passkey-sign-in", &signed_form("c0ffee"), true).await;
    assert_eq!((right.status.as_u16(), right.location()), (302, "/c/1"), "{}", right.body);
    assert_eq!(right.cookies(), ["session=s4; HttpOnly"]);
    for wrong in [signed_form("0a"), "passkey=&to=%2Fc%2F1".to_owned()] {
        assert_eq!(dashboard.send("passkey-sign-in", &wrong, true).await.location(), "/from?x=1", "{wrong}");
    }
}

#[tokio::test]
async fn security_page_lists_passkeys_with_their_use() {
    let dashboard = TestDashboard::open().await;
    let page = dashboard.render(path::SECURITY, true, "").await.body;
    assert!(page.contains("the laptop") && page.contains("last used"), "{page}");
    assert!(page.contains("action=\"/ui/remove-passkey\"") && page.contains("action=\"/ui/add-passkey\""), "{page}");
    let removed = dashboard.send("remove-passkey", "key=00000000-0000-0000-0000-000000000d01", true).await;
    assert_eq!(removed.location(), path::SECURITY, "{}", removed.body);
}
