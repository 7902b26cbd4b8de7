//! A real sign-in provider in a browser: sign-in through its own pages, linking and unlinking in the settings, and the
//! messages when the provider or the server rejects a person.

use support::browser::EmulatedScreen;
use support::provider::{NAME, TestProvider};
use support::stage::{PATIENCE, TestConsortium, TestDatabase, TestResult};

use super::visitor::PageVisitor;

/// The settings page with the identities at the provider.
const KEYS: &str = "/settings/keys";
/// The link to the provider.
const WAY: &str = "main a[href^='/oidc/start']";

#[tokio::test(flavor = "multi_thread")]
async fn member_links_signs_in_with_and_unlinks_a_provider() -> TestResult<()> {
    let Some((stage, provider)) = set_up_provider().await? else { return Ok(()) };
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, stage.address()).await?;
    let browser = &visitor.browser;
    visitor.sign_in("operator").await?;

    // From the account's page to the provider's own, and back to the same page.
    visitor.visit(KEYS).await?;
    browser.see("main", &format!("No identity of {NAME} is linked")).await?;
    browser.see(".consequences", "Your second factor is still required.").await?;
    visitor.sound("identity-none").await?;
    browser.click(WAY).await?;
    recognized(&visitor, &provider, "operator").await?;
    browser.see("main", &format!("{}, since", provider.issuer)).await?;
    assert_eq!(visitor.place().await?, KEYS);
    visitor.sound("identity-linked").await?;

    // From the sign-in page, with neither session in place.
    sign_out(&visitor).await?;
    browser.client().delete_all_cookies().await?;
    visitor.visit("/sign-in").await?;
    browser.see(".provider", &format!("Sign in with {NAME}")).await?;
    visitor.sound("sign-in-by-provider").await?;
    browser.click(WAY).await?;
    recognized(&visitor, &provider, "operator").await?;
    browser.see(".rail", "Overview").await?;
    assert_eq!(visitor.place().await?, format!("/c/{}", stage.consortium), "where members land");
    visitor.sound("signed-in-by-provider").await?;

    // The password still works.
    sign_out(&visitor).await?;
    visitor.sign_in("operator").await?;

    // After unlinking, the page explains how to sign in.
    visitor.visit(KEYS).await?;
    browser.click("form[action='/ui/unlink-identity'] button").await?;
    browser.see(".notice", "It signs you in no longer. You sign in with e-mail and password.").await?;
    browser.see("main", &format!("No identity of {NAME} is linked")).await?;
    visitor.sound("identity-unlinked").await
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_sent_away_reads_why_and_what_to_do() -> TestResult<()> {
    let Some((mut stage, provider)) = set_up_provider().await? else { return Ok(()) };
    let phone = PageVisitor::open(EmulatedScreen::Phone, stage.address()).await?;
    let browser = &phone.browser;

    // The person refuses at the provider.
    phone.visit("/sign-in").await?;
    browser.click(WAY).await?;
    browser.click("a[href$='/abort']").await?;
    browser
        .see(".notice.bad", "The provider did not authenticate you. Start again, or sign in with e-mail and password.")
        .await?;
    only_of(&phone, &provider).await?;
    phone.sound("provider-declined").await?;

    // The e-mail address is unverified at the provider, or unknown here.
    for (login, remedy) in [
        ("unverified-operator", "Verify it there, then start again."),
        ("operator", "An account with your e-mail address exists and is not linked to this identity."),
        ("stranger", "Members join by invitation link: ask for one, and open it first."),
    ] {
        browser.client().delete_all_cookies().await?;
        phone.visit("/sign-in").await?;
        browser.click(WAY).await?;
        recognized(&phone, &provider, login).await?;
        browser.see(".notice.bad", remedy).await?;
        phone.sound(&format!("provider-{login}")).await?;
    }

    // When the provider is unavailable, the page names the other way to sign in, and it works.
    drop(provider);
    stage.stop_server(PATIENCE)?;
    stage.start_server()?;
    phone.visit("/sign-in").await?;
    browser.click(WAY).await?;
    browser.see(".notice.bad", "is unreachable. Sign in with e-mail and password").await?;
    phone.sound("provider-unavailable").await?;
    phone.sign_in("operator").await
}

/// Sets up a consortium with a server that trusts a provider; returns `None` where no provider can run.
async fn set_up_provider() -> TestResult<Option<(TestConsortium, TestProvider)>> {
    let mut stage = TestConsortium::set(TestDatabase::Sqlite, &["Library"]).await?;
    let Some(provider) = TestProvider::start(&stage.address())? else { return Ok(None) };
    stage.stop_server(PATIENCE)?;
    stage.configure(provider.environment());
    stage.start_server()?;
    Ok(Some((stage, provider)))
}

/// Signs in at the provider's own pages, and consents to the disclosure.
async fn recognized(visitor: &PageVisitor, provider: &TestProvider, login: &str) -> TestResult<()> {
    let browser = &visitor.browser;
    browser.find("input[name=prompt][value=login]").await?;
    assert!(browser.url().await?.starts_with(&provider.issuer), "the provider asks, and nobody else");
    browser.fill("input[name=login]", login).await?;
    browser.fill("input[name=password]", "any").await?;
    browser.click("button[type=submit]").await?;
    browser.find("input[name=prompt][value=consent]").await?;
    browser.click("button[type=submit]").await?;
    let away = |origin: &serde_json::Value| origin.as_str().is_some_and(|origin| origin != provider.issuer);
    visitor.wait("the way back", "return location.origin", Vec::new(), PATIENCE, away).await?;
    only_of(visitor, provider).await
}

/// Checks that the console only reports missing resources of the provider's own pages: a picture, and an external font,
/// which is unreachable here. A violation of a content security policy would also be reported.
async fn only_of(visitor: &PageVisitor, provider: &TestProvider) -> TestResult<()> {
    let complaints = visitor.browser.complaints().await?;
    let theirs = |complaint: &String| {
        (complaint.starts_with(&provider.issuer) || complaint.starts_with("https://fonts.googleapis.com/"))
            && !complaint.contains("Content Security Policy")
    };
    assert!(complaints.iter().all(theirs), "{complaints:?}");
    Ok(())
}

async fn sign_out(visitor: &PageVisitor) -> TestResult<()> {
    visitor.browser.click(".rail-foot button").await?;
    Ok(visitor.browser.see("h1", "Sign in").await?)
}
