//! Two-factor authentication in a real browser: setup, sign-in and recovery; sessions; and a reset link on a phone.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;
use support::browser::{EmulatedScreen, PATIENCE};
use support::stage::{PASSWORD, TestConsortium, TestDatabase, TestResult};
use totp_rs::{Builder, Secret, Totp};

use super::{join, visitor::PageVisitor};

#[tokio::test(flavor = "multi_thread")]
async fn two_factor_is_set_up_asked_for_and_recovered_from() -> TestResult<()> {
    let (stage, link) = TestConsortium::vacant(TestDatabase::Sqlite)?;
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, stage.address()).await?;
    let browser = &visitor.browser;
    browser.goto(&link).await?;
    join(&visitor, "operator", None).await?;
    browser.see("h1", "Welcome").await?;

    // The secret is shown once, and is in force after one of its codes was entered.
    visitor.visit("/settings/security").await?;
    browser.click("form[action='/ui/offer-factor'] button").await?;
    browser.see(".notice", "Scan this code with your authenticator").await?;
    visitor.sound("second-factor-secret").await?;
    let authenticator = authenticator(&browser.text(".secret").await?)?;
    browser.fill("input[name=code]", &totp_code(&authenticator, 0)?).await?;
    browser.click("form[action='/ui/confirm-factor'] button").await?;
    browser.see(".notice", "Keep these recovery codes").await?;
    visitor.sound("recovery-codes").await?;
    let recovery = browser.text(".recovery-codes li:first-child").await?;
    visitor.visit("/settings/security").await?;
    browser.see("main", "10 of 10 recovery codes are left").await?;
    visitor.sound("second-factor-on").await?;

    // The password alone is not sufficient; a wrong code is reported; the right one leads to the requested page.
    browser.click(".rail-foot button").await?;
    browser.see("h1", "Sign in").await?;
    visitor.visit("/sign-in?to=%2Fsettings%2Fsecurity").await?;
    password(&visitor).await?;
    browser.see("h1", "Enter your code").await?;
    visitor.sound("code").await?;
    let page_url = browser.url().await?;
    visitor.visit("/settings").await?;
    browser.see("h1", "Sign in").await?;
    browser.goto(&page_url).await?;
    let next = totp_code(&authenticator, 1)?;
    code(&visitor, if next == "000000" { "111111" } else { "000000" }).await?;
    browser.see(".notice.bad", "The code is wrong").await?;
    visitor.sound("code-wrong").await?;
    code(&visitor, &next).await?;
    browser.see("h1", "Security").await?;

    // On another device: sign in with a recovery code, then sign out the first device from there.
    let phone = PageVisitor::open(EmulatedScreen::Phone, stage.address()).await?;
    phone.visit("/sign-in").await?;
    password(&phone).await?;
    phone.browser.see("h1", "Enter your code").await?;
    phone.sound("code").await?;
    code(&phone, &recovery.to_lowercase()).await?;
    phone.browser.see("h1", "Welcome").await?;
    phone.visit("/settings/security").await?;
    phone.browser.see("main", "9 of 10 recovery codes are left").await?;
    phone.sound("security").await?;
    visitor.visit("/settings/security").await?;
    browser.click("form[action='/ui/end-other-sessions'] button").await?;
    browser.see(".notice", "signed out everywhere else").await?;
    visitor.sound("sessions").await?;
    phone.visit("/settings").await?;
    phone.browser.see("h1", "Sign in").await?;

    // The owner regains access on the phone with a reset link and a new password; the second factor remains.
    visitor.visit("/settings").await?;
    browser.click("main details summary").await?;
    browser.fill("form[action='/ui/make-reset'] input[name=email]", "operator@example.org").await?;
    browser.click("form[action='/ui/make-reset'] button").await?;
    browser.see(".notice", "Link for a new password").await?;
    visitor.sound("reset-link").await?;
    let link = browser.find(".notice .copyable input").await?.prop("value").await?.ok_or("a link")?;
    phone.browser.goto(&link).await?;
    phone.browser.see("h1", "Set a new password").await?;
    phone.sound("reset").await?;
    phone.browser.fill("input[name=password]", "passwordpassword").await?;
    phone.browser.click("main button[type=submit]").await?;
    phone.browser.see(".notice.bad", "guessed first").await?;
    phone.browser.fill("input[name=password]", PASSWORD).await?;
    phone.browser.click("main button[type=submit]").await?;
    phone.browser.see(".notice", "Your new password is set").await?;
    password(&phone).await?;
    phone.browser.see("h1", "Enter your code").await?;
    visitor.visit("/settings").await?;
    let heading = "return document.querySelector('h1').innerText";
    let out = |shown: &serde_json::Value| *shown == json!("Sign in");
    visitor.wait("the other session to be over", heading, Vec::new(), PATIENCE, out).await?;
    Ok(())
}

/// Enters the operator's password on the sign-in page.
async fn password(visitor: &PageVisitor) -> TestResult<()> {
    visitor.browser.fill("input[name=email]", "operator@example.org").await?;
    visitor.browser.fill("input[name=password]", PASSWORD).await?;
    Ok(visitor.browser.click("main button[type=submit]").await?)
}

/// Enters a code on the code page.
async fn code(visitor: &PageVisitor, code: &str) -> TestResult<()> {
    visitor.browser.fill("input[name=code]", code).await?;
    Ok(visitor.browser.click("main button[type=submit]").await?)
}

/// Returns an authenticator with the secret shown on the page.
fn authenticator(text: &str) -> TestResult<Totp> {
    let letters: String = text.split_whitespace().collect();
    let secret = Secret::try_from_base32(letters).map_err(|error| error.to_string())?;
    Ok(Builder::new().with_secret(secret).build().map_err(|error| error.to_string())?)
}

/// Returns its code for so many steps from now; a server accepts one step early.
fn totp_code(authenticator: &Totp, steps: u64) -> TestResult<String> {
    #[expect(clippy::disallowed_methods, reason = "the server in its own process has the real clock")]
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(authenticator.generate(now + 30 * steps).to_string())
}
