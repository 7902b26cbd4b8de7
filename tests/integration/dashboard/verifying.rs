//! Verification of a certificate in its page: the browser checks every point, and an altered file fails visibly.

use std::time::Duration;

use serde_json::{Value, json};
use support::stage::{TestConsortium, TestResult};
use undertone_api::signed::CertificateFile;
use undertone_certificate::VerificationPoint;

use super::visitor::PageVisitor;

/// The time limit of a verification; the tight ε takes most of it.
const VERIFICATION: Duration = Duration::from_mins(2);

/// Verifies the certificate of a finished job, then an altered copy of its file.
pub(super) async fn verify_certificate(stage: &TestConsortium, visitor: &PageVisitor, job: &str) -> TestResult<()> {
    let browser = &visitor.browser;
    visitor.visit(&format!("{job}/certificate")).await?;
    let id = job.rsplit('/').next().unwrap_or_default();
    let file: CertificateFile = stage.operator.certificate(id.parse()?).await?;
    let certificate: Value = serde_json::from_str(&file.payload)?;
    let key = certificate["issuer"]["public_key"].as_str().ok_or("a key")?;

    // As a reader without further knowledge: each point is ticked, and those without an input say so.
    let states = check(visitor).await?;
    browser.see(".verdict", "No check failed: ").await?;
    browser.see(".verdict", "was not compared with a known key").await?;
    for point in VerificationPoint::ALL {
        let expected = match point {
            VerificationPoint::Sites | VerificationPoint::Model => "unchecked",
            _ => "passed",
        };
        assert_eq!(states[point.name()], expected, "{}: {states}", point.name());
    }
    browser.see("[data-point=receipts]", "each signed by its site").await?;
    visitor.sound("certificate-verified").await?;

    // The download is of another job than the page.
    let rename = "document.querySelector('form.verify').setAttribute('data-job', arguments[0])";
    browser.run(rename, vec![json!("another")]).await?;
    check(visitor).await?;
    browser.see(".verdict", "Failed: The file is of another job.").await?;
    browser.run(rename, vec![json!(id)]).await?;

    // With the key of a worker's enrolment, the server's signature is checked against it.
    browser.click(".verify details summary").await?;
    browser.fill("input[name=server_key]", key).await?;
    check(visitor).await?;
    browser.see(".verdict", "This certificate holds: ").await?;
    browser.see("[data-point=signature]", &format!("signed by the server's key {key}")).await?;

    // One digit of one receipt is different.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("altered.json");
    let mut altered = file.clone();
    let receipt = &mut altered.evidence.receipts.first_mut().ok_or("a receipt")?.receipt;
    receipt.payload = receipt.payload.replacen("\"round\":", "\"round\":1", 1);
    assert_ne!(altered, file, "the receipt names its round");
    std::fs::write(&path, serde_json::to_string(&altered)?)?;
    browser.find("input[name=certificate]").await?.send_keys(&path.display().to_string()).await?;
    let states = check(visitor).await?;
    browser.see(".verdict", "This certificate does not hold").await?;
    assert_eq!((&states["receipts"], &states["signature"]), (&json!("failed"), &json!("passed")), "{states}");
    browser.see("[data-point=receipts]", "Failed").await?;
    visitor.sound("certificate-altered").await
}

/// Presses the button, waits for the verdict, and returns the state of each point.
async fn check(visitor: &PageVisitor) -> TestResult<Value> {
    visitor.browser.click(".verify button.primary").await?;
    let over = "return !document.querySelector('.verify button.primary').disabled";
    visitor.wait("the verdict", over, Vec::new(), VERIFICATION, |over| over == &json!(true)).await?;
    let states = "return Object.fromEntries(Array.from(document.querySelectorAll('[data-point]'),
        item => [item.getAttribute('data-point'), item.getAttribute('data-state')]))";
    Ok(visitor.browser.run(states, Vec::new()).await?)
}
