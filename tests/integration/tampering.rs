//! The server's ledger against the sites' records: after a job every receipt is countersigned and proved, and every
//! site that saw a later head detects an older copy of the server's database.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use support::stage::{Database, PATIENCE, Site, Staged};
use undertone_api::job::State;

use support::scene;

const JOB: Duration = Duration::from_secs(400);
const ROUNDS: u32 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn an_older_copy_of_the_server_s_database_gets_nothing_more_from_any_site() -> Staged<()> {
    let mut stage = scene::set(Database::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let (live, copy) = (stage.server_folder(), stage.server_folder().with_extension("copy"));
    stage.kill_server();
    copy_database(&live, &copy)?;
    stage.start_server()?;

    let plan = scene::small_job(&stage, ROUNDS, 300).await?;
    let job = stage.sites[0].client.propose(stage.consortium, &plan.clone().job()).await?.summary.id;
    scene::approve(&stage, job).await?;
    stage.finish(job, JOB).await?;
    // The sites request the proofs of the last receipts after the server knows that the part has ended.
    let all =
        format!("answers for {ROUNDS} of {ROUNDS} receipts by its signature, for {ROUNDS} by their place in its log");
    for site in private(&stage.sites) {
        until(&format!("{} has every proof", site.name), || {
            site.command(&["ledger", "verify"]).is_ok_and(|said| said.contains(&all))
        })
        .await?;
    }

    // The database is replaced by the copy, which lacks the spending.
    stage.kill_server();
    copy_database(&copy, &live)?;
    stage.start_server()?;
    for site in &mut stage.sites {
        site.stop()?;
        site.start(&[])?;
    }
    for site in private(&stage.sites) {
        until(&format!("{} raises an alarm", site.name), || {
            site.command(&["ledger", "verify"]).is_err_and(|said| said.to_string().contains("older copy is in use"))
        })
        .await?;
        let shown = site.command(&["ledger", "alarm", "show"])?;
        assert!(shown.contains("\"known\"") && shown.contains("Open: nothing leaves"), "{shown}");
    }

    // At that server every budget is unspent again; the sites still have their records.
    let again = stage.sites[0].client.propose(stage.consortium, &plan.job()).await?.summary.id;
    let again = stage.wait_until(again, JOB, |job| job.summary.state == State::Refused).await?;
    assert!(again.reason.as_ref().is_some_and(|reason| reason.contains("raised an alarm")), "{:?}", again.reason);
    for site in private(&stage.sites) {
        let shown = site.command(&["ledger", "show"])?;
        assert!(shown.contains(&format!("Receipts: {ROUNDS} of {ROUNDS}")), "nothing more was released: {shown}");
    }
    Ok(())
}

fn private(sites: &[Site]) -> impl Iterator<Item = &Site> {
    sites.iter().skip(1)
}

/// Polls until the condition holds.
async fn until(what: &str, is_so: impl Fn() -> bool) -> Staged<()> {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        if Instant::now() > deadline {
            return Err(format!("within {} seconds it was not so: {what}", PATIENCE.as_secs()).into());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}

/// Replaces the database in `to` by the one in `from`, with or without its write-ahead log. The server must not run.
fn copy_database(from: &Path, to: &Path) -> Staged<()> {
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
