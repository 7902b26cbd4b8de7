//! The life cycle of a job in a browser: draft, proposal, approval, pause, resumption, end, clone.

use serde_json::json;
use support::browser::{EmulatedScreen, PATIENCE};
use support::stage::{TestDatabase, TestResult};
use undertone_api::job::NewDraft;

use super::visitor::PageVisitor;
use support::scene;

#[tokio::test(flavor = "multi_thread")]
async fn draft_becomes_a_job_that_is_paused_resumed_and_cloned() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let spec = scene::small_job(&stage, 200, 300).await?.job().spec;
    let spec = serde_json::to_string(&NewDraft::from_spec("", &spec)?.spec)?;
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, stage.address()).await?;
    let browser = &visitor.browser;
    visitor.sign_in("one").await?;

    // An empty draft lists its missing fields; a complete one shows its cost.
    let jobs = format!("/c/{}/jobs", stage.consortium);
    visitor.visit(&jobs).await?;
    open(&visitor, "begin-draft").await?;
    browser.click("form[action='/ui/begin-draft'] button").await?;
    browser.see(".headline", "Not ready to propose").await?;
    browser.see(".notice.bad", "missing field").await?;
    visitor.sound("draft-begun").await?;
    browser.fill("form[action='/ui/write-draft'] input[name=title]", "From a draft").await?;
    browser.run("document.querySelector('textarea[name=spec]').value = arguments[0]", vec![json!(spec)]).await?;
    browser.click("form[action='/ui/write-draft'] button").await?;
    browser.see(".headline", "Ready to propose").await?;
    browser.see("main", "Projected cost").await?;
    visitor.sound("draft").await?;
    browser.click("form[action='/ui/propose-draft'] button").await?;
    // The draft's page has the same title.
    let is_job = |place: &serde_json::Value| place.as_str().is_some_and(|place| place.contains("/jobs/"));
    visitor.wait("the job's page", "return location.pathname", Vec::new(), PATIENCE, is_job).await?;
    browser.see("h1", "From a draft").await?;
    let job = visitor.place().await?;

    // The owner reads the disclosures and approves exactly these; the others approve over REST.
    browser.click(".decide a[href*='/review/']").await?;
    browser.see("main", "Disclosures").await?;
    browser.see("main", "whoever gets the model").await?;
    visitor.sound("review").await?;
    visitor.visit(&job).await?;
    visitor.approve_by_key_file(&stage.sites[1], &job, stage.dataset("one").await?.id).await?;
    let id: undertone_api::id::JobId = job.rsplit('/').next().unwrap_or_default().parse()?;
    for (site, name) in stage.sites.iter().skip(2).zip(&scene::PRIVATE[1..]) {
        site.client.approve(id, stage.dataset(name).await?.id).await?;
    }
    stage.wait_until(id, PATIENCE * 10, |job| job.summary.rounds_done >= 1).await?;

    // Paused and resumed.
    visitor.visit(&job).await?;
    open(&visitor, "pause").await?;
    browser.fill("form[action='/ui/pause'] textarea", "a look at it").await?;
    browser.click("form[action='/ui/pause'] button").await?;
    browser.see("main", "Reason for the pause").await?;
    browser.see(".holds", "a look at it").await?;
    visitor.sound("paused").await?;
    browser.click("form[action='/ui/resume'] button").await?;
    browser.see(".notice", "goes on where it was").await?;

    // Ended, then cloned and retried.
    open(&visitor, "cancel").await?;
    browser.click("form[action='/ui/cancel'] button").await?;
    browser.see(".notice", "The job is cancelled.").await?;
    open(&visitor, "retry").await?;
    browser.see("main", "stays spent").await?;
    open(&visitor, "clone").await?;
    browser.click("form[action='/ui/clone'] button").await?;
    browser.see(".notice", "copied into a draft").await?;
    browser.see(".headline", "Ready to propose").await?;
    visitor.sound("cloned").await
}

/// Opens the element that hides a form.
async fn open(visitor: &PageVisitor, form: &str) -> TestResult<()> {
    let script = "const form = document.querySelector(`form[action='/ui/${arguments[0]}']`);
        if (form) form.closest('details').open = true;
        return !!form";
    let there = |found: &serde_json::Value| found == &json!(true);
    visitor.wait("a form", script, vec![json!(form)], PATIENCE, there).await?;
    Ok(())
}
