//! Crashes of a worker in the middle of a round, then of the server. Both restart, the job ends, and both ledgers
//! contain each release once.

use std::time::Duration;

use support::stage::{TestDatabase, TestResult};
use undertone_api::budget::EntryKind;

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 6;

#[tokio::test(flavor = "multi_thread")]
async fn killed_worker_and_server_recover_without_undercounting() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let plan = scene::small_job(&stage, ROUNDS, 300).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    scene::approve(&stage, job).await?;

    // A worker crashes after some rounds; its open round waits for it.
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 1).await?;
    stage.sites[1].kill();
    stage.sites[1].start(&[])?;
    // The server crashes with every worker in the middle of a round.
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 3).await?;
    stage.kill_server();
    stage.start_server()?;
    stage.finish(job, JOB).await?;

    for (site, name) in stage.sites.iter().skip(1).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits = entries.iter().filter(|entry| entry.kind == EntryKind::Commit).count();
        assert_eq!(commits, ROUNDS as usize, "{name}: a death costs no second charge");
        site.command(&["ledger", "verify"])?;
    }
    Ok(())
}
