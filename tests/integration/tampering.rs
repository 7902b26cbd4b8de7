//! The server's ledger against the sites' records: after a job every receipt is countersigned and proved, and every
//! site that saw a later head detects an older copy of the server's database.

use std::fs;
use std::path::Path;
use std::time::Duration;

use support::stage::{TestDatabase, TestResult, wait_until_so};
use undertone_api::job::JobState;

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn restored_old_server_database_gets_no_further_release() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let (live, copy) = (stage.server_folder(), stage.server_folder().with_extension("copy"));
    stage.kill_server();
    copy_database(&live, &copy)?;
    stage.start_server()?;

    scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, ROUNDS).await?;

    // The database is replaced by the copy, which lacks the spending.
    stage.kill_server();
    copy_database(&copy, &live)?;
    stage.start_server()?;
    for site in scene::private_sites(&stage.sites) {
        wait_until_so(&format!("{} raises an alarm", site.name), || {
            site.command(&["ledger", "verify"]).is_err_and(|said| said.to_string().contains("older copy is in use"))
        })
        .await?;
        let ledger_text = site.command(&["ledger", "alarm", "show"])?;
        assert!(ledger_text.contains("\"known\"") && ledger_text.contains("Open: nothing leaves"), "{ledger_text}");
    }

    // At that server every budget is unspent again; the sites still have their records.
    let plan = scene::small_job(&stage, ROUNDS, 300).await?;
    let again = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    let again = stage.wait_until(again, JOB, |job| job.summary.state == JobState::Refused).await?;
    assert!(again.reason.as_ref().is_some_and(|reason| reason.contains("raised an alarm")), "{:?}", again.reason);
    for site in scene::private_sites(&stage.sites) {
        let ledger_text = site.command(&["ledger", "show"])?;
        assert!(
            ledger_text.contains(&format!("Receipts: {ROUNDS} of {ROUNDS}")),
            "nothing more was released: {ledger_text}"
        );
    }
    Ok(())
}

/// Replaces the database in `to` by the one in `from`, with or without its write-ahead log. The server must not run.
fn copy_database(from: &Path, to: &Path) -> TestResult<()> {
    const NAME: &str = "undertone.sqlite";
    fs::create_dir_all(to)?;
    for file in [NAME.to_owned(), format!("{NAME}-wal"), format!("{NAME}-shm")] {
        let (from, to) = (from.join(&file), to.join(&file));
        if to.exists() {
            fs::remove_file(&to)?;
        }
        if from.exists() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
