//! The ten tasks, step by step, as somebody performs them who reads the pages.

use std::path::{Path, PathBuf};
use std::process::Command;

use support::browser::TestBrowser;
use support::stage::TestResult;
use support::workspace;

use super::walk::TaskWalk;

/// The training of the demonstration, as `make demo` proposes it.
const TRAINING: &str = "Speech of three private sites";

/// Learns what the consortium is and does: the tour, from its list to its second stop.
pub(super) async fn understand(walk: &mut TaskWalk<'_>) -> TestResult<()> {
    walk.see(".tour", "Guided tour").await?;
    walk.press("A certificate").await?;
    walk.see(".tour-bar", "Stop 1").await?;
    walk.press("Next stop").await?;
    walk.see(".tour-bar", "Stop 2").await
}

/// Plans a training on speech with the planner's own numbers, and proposes it.
pub(super) async fn launch(walk: &mut TaskWalk<'_>, title: &str) -> TestResult<()> {
    walk.press("Plan a job").await?;
    walk.press("Federated acoustic model").await?;
    walk.fill("Title", title).await?;
    walk.press("Propose to the owners").await?;
    walk.see("h1", title).await
}

/// Approves the job as a data steward, with the steward's key file at a terminal.
pub(super) async fn approve(
    walk: &mut TaskWalk<'_>,
    browser: &TestBrowser,
    (folder, organization): (&Path, &str),
    title: &str,
) -> TestResult<()> {
    walk.press(&format!("Approve or refuse “{title}”")).await?;
    walk.see(".decide", "Sign at a terminal").await?;
    let review = "const done = arguments[arguments.length - 1];
        fetch(document.querySelector(\"a[download='review.json']\").href).then(answer => answer.text()).then(done);";
    let review = browser.client().execute_async(review, Vec::new()).await?;
    let signed = sign(folder, organization, review.as_str().ok_or("the review as text")?)?;
    walk.count_terminal();
    walk.fill("The signed approval", &signed).await?;
    walk.press("Approve and reserve").await?;
    walk.see(".notice", "You approved the job.").await
}

/// Signs a review with the key file of an organization's steward.
fn sign(folder: &Path, organization: &str, review: &str) -> TestResult<String> {
    let organization = organization.to_lowercase();
    let mut keys = std::fs::read_dir(folder.join("stewards"))?.flatten().map(|entry| entry.path());
    // `north.key` is that of the North Clinic.
    let is_own =
        |key: &PathBuf| key.file_stem().and_then(|name| name.to_str()).is_some_and(|name| organization.contains(name));
    let key = keys.find(is_own).ok_or_else(|| format!("no key of a steward of {organization}"))?;
    let directory = tempfile::tempdir()?;
    let path = directory.path().join("review.json");
    std::fs::write(&path, review)?;
    let mut command = Command::new(workspace::program("undertone-worker")?);
    let output = command.args(["steward-key", "sign", "--key"]).arg(&key).arg(&path).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    // The signed document is the last line.
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().rfind(|line| !line.trim().is_empty()).ok_or("a signed approval")?.to_owned())
}

/// Raises the lifetime limit of a dataset.
pub(super) async fn raise_budget(walk: &mut TaskWalk<'_>) -> TestResult<()> {
    walk.press("Datasets").await?;
    walk.press_in("main a[href*='/datasets/']", "").await?;
    walk.press("Raise the limit").await?;
    walk.fill("ε", "40").await?;
    walk.press("Raise the lifetime limit").await?;
    walk.see(".notice", "The lifetime limit for each").await
}

/// Finds the certificate of a finished training, and verifies it in the browser.
pub(super) async fn verify(walk: &mut TaskWalk<'_>) -> TestResult<()> {
    walk.press(TRAINING).await?;
    walk.press("Signed privacy cost").await?;
    walk.press("Verify now").await?;
    walk.see(".verdict", "No check failed").await
}

/// Makes a link for another organization.
pub(super) async fn invite(walk: &mut TaskWalk<'_>) -> TestResult<()> {
    walk.press("Organizations").await?;
    walk.fill("Recipient", "Another clinic").await?;
    walk.press("Create a link").await?;
    walk.see(".notice", "Link for Another clinic").await
}

/// Makes the command that enrols a second worker.
pub(super) async fn enrol(walk: &mut TaskWalk<'_>, organization: &str, worker: &str) -> TestResult<()> {
    walk.press("Organizations").await?;
    walk.press(organization).await?;
    walk.press("Enrol a worker").await?;
    walk.fill("Worker name", worker).await?;
    walk.press("Create an enrolment token").await?;
    walk.see(".notice", "Enrol ").await
}

/// Answers a question.
pub(super) async fn answer(walk: &mut TaskWalk<'_>) -> TestResult<()> {
    walk.press("Questions").await?;
    walk.press_in("main td a, main th a", "").await?;
    walk.key("1").await?;
    walk.see("main", "answered").await
}

/// Finds what the recognizers of a transcription could count, and the command that plays what they heard.
pub(super) async fn transcribe(walk: &mut TaskWalk<'_>) -> TestResult<()> {
    walk.press("A transcription").await?;
    walk.see("main", "undertone-worker received").await
}

/// Finds the command that uses the trained model.
pub(super) async fn use_model(walk: &mut TaskWalk<'_>) -> TestResult<()> {
    walk.press("Models").await?;
    walk.press("model.safetensors").await?;
    walk.see("main", "Use this model").await
}
