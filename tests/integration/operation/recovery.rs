//! Point-in-time recovery of PostgreSQL: the archive ends before a job, and the sites return the receipts of that job.

use support::scene;
use support::stage::{PostgresCluster, TestDatabase, TestResult};

use super::backup::{healed, verified};

const ROUNDS: u32 = 2;
const REASON: &str = "the archive ends before the job";

#[tokio::test(flavor = "multi_thread")]
async fn point_in_time_recovery_is_healed_by_the_sites() -> TestResult<()> {
    let Some(cluster) = PostgresCluster::start()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    let mut stage = scene::set(TestDatabase::create(&cluster.address())?).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    cluster.copy_base()?;
    cluster.mark("before_the_job")?;
    scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, ROUNDS).await?;

    stage.kill_server();
    cluster.recover_to("before_the_job")?;
    let stated = stage.server_command()?.args(["state-restoration", "--reason", REASON]).output()?;
    assert!(stated.status.success(), "{}", String::from_utf8_lossy(&stated.stderr));
    stage.start_server()?;
    healed(&stage, ROUNDS, REASON).await?;
    scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, 2 * ROUNDS).await?;
    verified(&stage)
}
