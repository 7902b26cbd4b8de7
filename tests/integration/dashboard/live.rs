//! Live pages: a server is killed in the middle of a job, and the page continues when it is back. The other pages show
//! changes, the bell counts notifications, and the log fills.

use std::time::Duration;

use serde_json::json;
use support::browser::{EmulatedScreen, PATIENCE};
use support::stage::{TestConsortium, TestDatabase, TestResult};

use super::visitor::PageVisitor;
use support::scene;

/// The time limit of a round on a busy machine.
const ROUND: Duration = Duration::from_mins(2);
/// Enough rounds for a server crash among them.
const ROUNDS: u32 = 400;
/// The number in the headline of a running job.
const NUMBER: &str =
    "return Number(/^Round (\\d+) of/.exec(document.querySelector('.headline')?.innerText ?? '')?.[1] ?? 0)";
/// Whether the page was not reloaded.
const KEPT: &str = "return window.kept === true";

#[tokio::test(flavor = "multi_thread")]
async fn page_shows_new_round_without_reload_after_server_crash() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let visitor = PageVisitor::open(EmulatedScreen::Desktop, stage.address()).await?;
    visitor.sign_in("one").await?;
    let list = PageVisitor::open(EmulatedScreen::Phone, stage.address()).await?;
    list.sign_in("two").await?;
    list.visit(&format!("/c/{}", stage.consortium)).await?;
    list.browser.see(".connection", "Live").await?;
    list.browser.run("window.kept = true", Vec::new()).await?;

    // A job proposed elsewhere appears on the overview by itself, and the bell counts it.
    let plan = scene::small_job(&stage, ROUNDS, 300).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    list.browser.see("[data-live=jobs]", "Small").await?;
    list.browser.see("[data-live=now]", "Approve or refuse “Small”").await?;
    // The other notification is about the sign-in from this browser.
    list.browser.see("[data-live=bell] .count", "2").await?;
    assert_eq!(list.browser.run(KEPT, Vec::new()).await?, json!(true), "the overview was not loaded again");

    visitor.visit(&format!("/c/{}/jobs/{job}", stage.consortium)).await?;
    visitor.browser.see(".troubles", "no steward has decided").await?;
    visitor.browser.run("window.kept = true", Vec::new()).await?;
    scene::approve(&stage, job).await?;
    let first_round =
        visitor.wait("a first round", NUMBER, Vec::new(), ROUND, |number| number.as_u64() > Some(1)).await?;

    // The actions of the new state appear without a reload.
    visitor.browser.see(".decisions:not([hidden])", "Hold the job for one").await?;

    stage.kill_server();
    visitor.browser.see(".connection.lost", "Connection lost").await?;
    stage.start_server()?;
    visitor.browser.see(".connection:not(.lost)", "Live").await?;
    let before = visitor.browser.run(NUMBER, Vec::new()).await?.as_u64().unwrap_or_default();
    assert!(before >= first_round.as_u64().unwrap_or_default());
    visitor
        .wait("a round after the server came back", NUMBER, Vec::new(), ROUND, |number| number.as_u64() > Some(before))
        .await?;
    assert_eq!(visitor.browser.run(KEPT, Vec::new()).await?, json!(true), "the page was not loaded again");
    the_log_tells_what_happened(&stage, &visitor, &format!("/c/{}/jobs/{job}", stage.consortium)).await?;
    let complaints = visitor.browser.complaints().await?;
    let expected = |complaint: &String| complaint.contains("/ui/events") || complaint.contains("/ui/watch");
    assert!(complaints.iter().all(expected), "{complaints:?}");

    // The steward reads the notifications.
    list.visit("/notifications").await?;
    list.browser.see(".told", "waits for your decision").await?;
    list.browser.click("form[action='/ui/read-all-notifications'] button").await?;
    Ok(list.browser.see(".headline", "No new notifications").await?)
}

/// Checks that each site has logged its actions, in the closed vocabulary.
async fn the_log_tells_what_happened(stage: &TestConsortium, visitor: &PageVisitor, job: &str) -> TestResult<()> {
    let browser = &visitor.browser;
    visitor.visit(&format!("{job}/log")).await?;
    browser.see("[data-live=log]", "sent its vector of round").await?;
    let one = stage.dataset("one").await?.id;
    visitor.visit(&format!("{job}/log?dataset={one}")).await?;
    browser.see("[data-live=log]", "began its part").await?;
    let others = "return Array.from(document.querySelectorAll('[data-live=log] tbody th'), e => e.innerText)";
    let of_one = |rows: &serde_json::Value| {
        rows.as_array().is_some_and(|rows| {
            !rows.is_empty() && rows.iter().all(|row| row.as_str().is_some_and(|row| row.starts_with("one,")))
        })
    };
    visitor.wait("lines of one participant only", others, Vec::new(), PATIENCE, of_one).await?;
    Ok(())
}
