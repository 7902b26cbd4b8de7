//! A server whose disk is full while a job runs: it refuses writes for as long, is not ready, and the job goes on once
//! there is room. No paid round is lost.

use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::json;
use support::client::CallError;
use support::scene;
use support::small_disk::SmallDisk;
use support::stage::{PATIENCE, TestConsortium, TestDatabase, TestResult, TestSite, wait_until_so};
use undertone_api::budget::EntryKind;
use undertone_api::job::{JobDraft, NewDraft};
use undertone_api::problem::Code;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 8;
/// The period of the release clock of one site, which each round waits for: the job outlasts the steps of the test.
const PERIOD: &str = "dp_sgd = 3.0";
/// The size of the server's disk, MiB.
const DISK: u32 = 64;
/// The drafts that fill the rest of the database's files: fewer than an organization may have.
const MOST_DRAFTS: usize = 150;
/// The bytes of each.
const DRAFT_BYTES: usize = 200_000;

/// Waits until the server's readiness has this status.
async fn wait_for_readiness(stage: &TestConsortium, status: StatusCode) -> TestResult<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = reqwest::get(format!("{}/health/ready", stage.address())).await?;
        let is_so = answer.status() == status;
        let text = answer.text().await?;
        if is_so {
            return Ok(text);
        }
        if Instant::now() > deadline {
            return Err(format!("the readiness does not become {status}: {text}").into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// Writes drafts until the server refuses one. The database's files may have free pages when the disk is full.
async fn write_until_refused(stage: &TestConsortium) -> TestResult<Code> {
    let path = format!("/consortia/{}/drafts", stage.consortium);
    let spec = json!({ "note": "x".repeat(DRAFT_BYTES) });
    for number in 0..MOST_DRAFTS {
        let draft = NewDraft { title: format!("draft {number}"), kind: "dp_sgd".to_owned(), spec: spec.clone() };
        let written = stage.operator.post::<JobDraft>(&path, &draft).await;
        if let Some(problem) = written.as_ref().err().and_then(CallError::problem) {
            return Ok(problem.code);
        }
        written?;
    }
    Err("the server still writes to a full disk".into())
}

#[tokio::test(flavor = "multi_thread")]
async fn job_outlasts_a_full_disk_of_the_server() -> TestResult<()> {
    let Some(disk) = SmallDisk::mount(DISK)? else { return Ok(()) };
    let folder = disk.path().join("data").to_string_lossy().into_owned();
    let mut stage = scene::set_with(TestDatabase::Sqlite, &[("UNDERTONE_DATA_DIR", &folder)]).await?;
    stage.sites[1].edit_policy("dp_sgd = 0.05", PERIOD)?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let job = scene::start_small_job(&stage, ROUNDS).await?;
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 1).await?;

    disk.fill()?;
    let unready = wait_for_readiness(&stage, StatusCode::SERVICE_UNAVAILABLE).await?;
    assert!(unready.contains("disk"), "{unready}");
    assert_eq!(write_until_refused(&stage).await?, Code::Unavailable);
    let is_told = |site: &TestSite| site.output().contains("the server's disk");
    wait_until_so("a worker waits for the server's disk", || stage.sites.iter().any(is_told)).await?;
    let waiting = stage.operator.job(job).await?;
    assert!(!waiting.summary.state.is_over(), "the job waits: {:?}", waiting.summary);
    assert!(waiting.summary.rounds_done < ROUNDS, "{:?}", waiting.summary);

    disk.make_room()?;
    wait_for_readiness(&stage, StatusCode::NO_CONTENT).await?;
    let finished_job = stage.finish(job, JOB).await?;
    assert_eq!(finished_job.summary.rounds_done, ROUNDS);
    for (site, name) in scene::private_sites(&stage.sites).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits: u64 =
            entries.iter().filter(|entry| entry.kind == EntryKind::Commit).map(|entry| entry.count).sum();
        assert_eq!(commits, u64::from(ROUNDS), "{name}: no round is paid twice");
        let part = finished_job.participants.iter().find(|part| part.dataset == dataset.id).ok_or("a participant")?;
        assert_eq!(part.releases, u64::from(ROUNDS), "{name}: every paid round has its vector");
        site.command(&["ledger", "verify"])?;
    }
    let verified = stage.server_command()?.arg("verify").output()?;
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    Ok(())
}
