//! Two servers on one PostgreSQL and one store, with workers and people on both: one of them crashes in the middle of a
//! job.

use std::time::Duration;

use support::balancer::TestBalancer;
use support::stage::{TestDatabase, TestResult};
use undertone_api::budget::EntryKind;
use undertone_api::job::JobState;

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn a_job_goes_on_when_one_of_two_servers_dies() -> TestResult<()> {
    let Some(database) = TestDatabase::postgres()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    let mut stage = scene::set(database).await?;
    let replica = stage.replica()?;
    let balancer = TestBalancer::start(&[stage.gateway().port(), replica.grpc]).await?;
    for site in &stage.sites {
        site.connect_to(balancer.address)?;
    }
    stage.open().await?;
    let counts = balancer.connection_counts();
    assert!(counts.iter().all(|count| *count > 0), "workers are at both: {counts:?}");
    scene::set_budgets(&stage, 60.0).await?;

    // A session that began at one server is valid at the other, and each reads the other's writes.
    let plan = scene::small_job(&stage, ROUNDS, 120).await?;
    let there = stage.sites[0].client.with_address(&replica.address);
    let job = there.propose(stage.consortium, &plan.job()).await?.summary.id;
    for (number, (site, name)) in scene::private_sites(&stage.sites).zip(scene::PRIVATE).enumerate() {
        let client = if number % 2 == 0 { site.client.clone() } else { site.client.with_address(&replica.address) };
        client.approve(job, stage.dataset(name).await?.id).await?;
    }
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 1).await?;
    stage.kill_server();

    // The crashed server's workers connect to the other, and continue with their leases.
    stage.operator = stage.operator.with_address(&replica.address);
    let job = stage.finish(job, JOB).await?;
    assert_eq!(job.summary.state, JobState::Finished);
    for (site, name) in scene::private_sites(&stage.sites).zip(scene::PRIVATE) {
        let dataset = stage.dataset(name).await?;
        let entries = stage.operator.ledger(dataset.id).await?.items;
        let commits =
            entries.iter().filter(|entry| entry.kind == EntryKind::Commit).map(|entry| entry.count).sum::<u64>();
        let part = job.participants.iter().find(|part| part.dataset == dataset.id).ok_or("a participant")?;
        assert_eq!(commits, part.releases, "{name}: what was released is what was paid");
        assert!(part.releases >= 1 && dataset.accounts[0].reserved_fraction.abs() < 1e-9, "{name}: {part:?}");
        site.command(&["ledger", "verify"])?;
    }
    let verified = stage.server_command()?.arg("verify").output()?;
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    Ok(())
}
