//! A job that is paused and resumed, with real workers: paused over REST, held at a site's terminal, and waiting for a
//! steward there. It ends with the same releases and ε as without a pause.

use std::time::Duration;

use serde_json::json;
use support::stage::{TestDatabase, TestResult};
use undertone_api::budget::EntryKind;
use undertone_api::job::{Holder, Job, JobState};

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 8;

#[tokio::test(flavor = "multi_thread")]
async fn paused_and_held_job_pays_the_same_as_without_interruption() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let plan = scene::small_job(&stage, ROUNDS, 300).await?;
    let client = &stage.sites[0].client;
    let id = client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, id).await?;
    let running = stage.wait_until(id, JOB, |job| job.summary.rounds_done >= 1).await?;
    let reserved: Vec<_> = running.participants.iter().map(|party| party.epsilon_reserved).collect();

    // Paused by its proposer, for all participants.
    let pause = json!({ "reason": "a look at the learning rate" });
    let paused: Job = client.post(&format!("/jobs/{id}/pause"), &pause).await?;
    assert_eq!((paused.summary.state, paused.holds[0].holder), (JobState::Paused, Holder::Job));
    let early = client.post::<Job>(&format!("/jobs/{id}/retry"), &json!({})).await;
    assert!(early.is_err(), "it is not over");
    let resumed: Job = client.post(&format!("/jobs/{id}/resume"), &json!({})).await?;
    assert_eq!(resumed.summary.state, JobState::Running);

    // Held by a site, at its own terminal.
    stage.wait_until(id, JOB, |job| job.summary.rounds_done >= 3).await?;
    let job = id.to_string();
    stage.sites[1].command(&["hold", &job, "--reason", "the disk is being replaced"])?;
    let paused_job = stage.wait_until(id, JOB, |job| job.summary.state == JobState::Paused).await?;
    assert_eq!(
        (paused_job.holds[0].holder, paused_job.holds[0].reason.as_str()),
        (Holder::Site, "the disk is being replaced")
    );
    assert!(stage.sites[1].command(&["jobs"])?.contains("held (terminal)"));
    let denied = stage.sites[0].client.post::<Job>(&format!("/jobs/{id}/resume"), &json!({})).await;
    assert!(denied.is_err(), "only the site lets it go on");
    stage.sites[1].command(&["release", &job])?;
    let finished_job = stage.finish(id, JOB).await?;

    let after: Vec<_> = finished_job.participants.iter().map(|party| party.epsilon_reserved).collect();
    assert_eq!(after, reserved, "its epsilon is unchanged");
    for (site, name) in stage.sites.iter().skip(1).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let count = |kind| entries.iter().filter(|entry| entry.kind == kind).map(|entry| entry.count).sum::<u64>();
        assert!(count(EntryKind::Commit) >= u64::from(ROUNDS), "{name}: every round is paid");
        assert_eq!(count(EntryKind::Commit) + count(EntryKind::Settle), count(EntryKind::Reserve), "{name}");
        site.command(&["ledger", "verify"])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn while_a_site_waits_for_its_steward_nobody_s_deadline_runs() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.sites[1].edit_policy("approval = \"steward\"", "approval = \"manual\"")?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    // The deadline of a round is shorter than the steward's delay.
    let plan = scene::small_job(&stage, 2, 20).await?;
    let id = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, id).await?;
    let waiting = stage.wait_until(id, JOB, |job| job.summary.state == JobState::Paused).await?;
    assert_eq!(waiting.holds[0].holder, Holder::Site);
    assert!(waiting.holds[0].reason.contains("steward"), "{:?}", waiting.holds);
    let whole = stage.sites[1].command(&["jobs", &id.to_string()])?;
    assert!(whole.contains("Held by the worker") && whole.contains(&waiting.manifest), "{whole}");
    stage.sites[1].command(&["approve", &id.to_string()])?;
    let finished_job = stage.finish(id, JOB).await?;
    assert!(
        finished_job.participants.iter().all(|party| party.charge.is_none() || party.releases >= 2),
        "nobody was left out"
    );
    Ok(())
}
