//! Consent by a passkey, in a real browser with a virtual authenticator: created in the dashboard, pinned at the site's
//! terminal, requested at "Approve", verified by the site before the job runs.

use support::browser::{EmulatedScreen, PATIENCE};
use support::stage::{TestDatabase, TestResult};
use undertone_api::approval_key::OwnApprovalKey;
use undertone_api::job::Job;
use undertone_api::signed::{ApprovalKey, Consent};

use super::visitor::PageVisitor;
use support::scene;

#[tokio::test(flavor = "multi_thread")]
async fn browser_passkey_approves_after_the_site_pins_it() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    // Browsers permit passkeys for host names, not for addresses.
    let address = stage.address().replace("127.0.0.1", "localhost");
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, address.clone()).await?;
    let browser = &visitor.browser;
    browser.add_authenticator().await?;
    visitor.sign_in("one").await?;

    // Created and listed; it approves nothing yet.
    visitor.visit("/settings/security").await?;
    browser.fill("form[data-make-passkey] input[name=label]", "the laptop").await?;
    browser.click("form[data-make-passkey] button").await?;
    browser.see(".notice", "It counts once your site's operator has pinned it.").await?;
    browser.see("#approval-keys", "the laptop").await?;
    // Chromium advises to offer RS256 as well, which sites do not verify.
    let advice = browser.complaints().await?;
    assert!(advice.iter().all(|line| line.contains("pub_key_cred_params")), "{advice:?}");
    visitor.sound("approval-keys").await?;
    let site = &stage.sites[1];
    let listed: Vec<OwnApprovalKey> = site.client.get("/me/approval-keys").await?;
    let key = listed.first().ok_or("it is listed")?;
    assert!(matches!(&key.key, ApprovalKey::Passkey { origin, .. } if *origin == address), "{:?}", key.key);

    // The site's operator pins the passkey, and removes the key file: from now on only the passkey approves.
    let own = site.client.approval_key().ok_or("a key file")?.fingerprint().to_string();
    let fingerprint = key.fingerprint.to_string();
    browser.see("#approval-keys", &fingerprint).await?;
    assert!(site.command(&["approval-keys", "add", &key.line]).is_err(), "not without comparing the fingerprint");
    site.command(&["approval-keys", "add", &key.line, "--fingerprint", &fingerprint])?;
    site.command(&["approval-keys", "remove", &own])?;

    let plan = scene::small_job(&stage, 2, 300).await?;
    let job = stage.operator.propose(stage.consortium, &plan.job()).await?.summary.id;
    let dataset = stage.dataset("one").await?.id;
    let page = format!("/c/{}/jobs/{job}", stage.consortium);
    let until = tokio::time::Instant::now() + PATIENCE;
    loop {
        // The worker reports its keys to the server when it requests the next offer.
        visitor.visit(&page).await?;
        let asks = "return !!document.querySelector('form[data-approve]')";
        if browser.run(asks, Vec::new()).await? == serde_json::json!(true) {
            break;
        }
        assert!(tokio::time::Instant::now() < until, "the page never asked for the passkey");
    }
    let refused = stage.sites[1].client.approve(job, dataset).await;
    assert!(refused.is_err(), "the key file is not pinned any more");
    browser.click("form[data-approve] button").await?;
    browser.see(".notice", "You approved the job.").await?;
    let current: Job = stage.operator.job(job).await?;
    let part = current.participants.iter().find(|part| part.dataset == dataset).ok_or("its part")?;
    assert_eq!(part.consent, Some(Consent::Signed { key: key.fingerprint.clone() }));

    // The others sign with key files; every site verifies its approval, and the job runs to its end.
    for (site, name) in stage.sites.iter().skip(2).zip(&scene::PRIVATE[1..]) {
        site.client.approve(job, stage.dataset(name).await?.id).await?;
    }
    stage.wait_until(job, PATIENCE * 10, |job| job.summary.state.is_over()).await?;
    let certificate = stage.operator.certificate(job).await?;
    let payload = serde_json::to_string(&certificate)?;
    assert!(payload.contains(&fingerprint), "the certificate names the key");
    visitor.visit(&format!("{page}/certificate")).await?;
    browser.see(".consent", "Signed by a steward").await?;
    visitor.sound("certificate-signed").await
}
