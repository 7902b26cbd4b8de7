//! Sign-in by a passkey in a real browser with a virtual authenticator: alone, as the second step, and as a proof of
//! identity.

use serde_json::json;
use support::browser::EmulatedScreen;
use support::scene;
use support::stage::{TestDatabase, TestResult};
use undertone_api::passkey::Passkey;

use super::visitor::PageVisitor;

#[tokio::test(flavor = "multi_thread")]
async fn passkey_signs_in_alone_and_after_the_password() -> TestResult<()> {
    let stage = scene::set(TestDatabase::Sqlite).await?;
    // Browsers permit passkeys for host names, not for addresses.
    let address = stage.address().replace("127.0.0.1", "localhost");
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, address).await?;
    let browser = &visitor.browser;
    browser.add_authenticator().await?;
    visitor.sign_in("one").await?;

    visitor.visit("/settings/security").await?;
    browser.fill("form[data-passkey=register] input[name=label]", "the laptop").await?;
    browser.click("form[data-passkey=register] button").await?;
    browser.see(".notice", "The passkey is registered.").await?;
    browser.see("#passkeys", "the laptop").await?;
    // Chromium advises to offer RS256 as well, which this server does not verify.
    let advice = browser.complaints().await?;
    assert!(advice.iter().all(|line| line.contains("pub_key_cred_params")), "{advice:?}");
    visitor.sound("passkeys").await?;

    browser.click("form[data-passkey=prove] button").await?;
    browser.see(".notice", "Your identity is confirmed.").await?;

    // Alone: without any input.
    browser.click(".rail-foot button").await?;
    browser.see("h1", "Sign in").await?;
    visitor.visit("/sign-in").await?;
    browser.click("form[data-passkey=sign_in] button").await?;
    browser.see(".rail", "Settings").await?;

    // After the password: the second step requests it.
    browser.click(".rail-foot button").await?;
    browser.see("h1", "Sign in").await?;
    visitor.visit("/sign-in").await?;
    browser.fill("input[name=email]", "one@example.org").await?;
    browser.fill("input[name=password]", support::stage::PASSWORD).await?;
    browser.click("form[action='/ui/sign-in'] button").await?;
    browser.see("h1", "Use your passkey").await?;
    visitor.sound("second-step-passkey").await?;
    browser.click("form[data-passkey=second_step] button").await?;
    browser.see(".rail", "Settings").await?;
    visitor.visit("/settings/security").await?;
    let used = browser.run("return document.querySelector('#passkeys').textContent.includes('last used')", Vec::new());
    assert_eq!(used.await?, json!(true));

    // After its removal it no longer signs in.
    browser.click("form[action='/ui/remove-passkey'] button").await?;
    browser.see(".notice", "The passkey is removed").await?;
    let remaining: Vec<Passkey> = stage.sites[1].client.get("/me/passkeys").await?;
    assert_eq!(remaining, []);
    Ok(())
}
