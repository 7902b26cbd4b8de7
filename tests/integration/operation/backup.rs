//! Backups: the newest one restores the server's last state, and an older one recovers from each site the receipts of
//! later payments.

use std::fs;
use std::path::Path;

use support::stage::{TestConsortium, TestDatabase, TestResult, wait_until_so};

use support::scene;

const ROUNDS: u32 = 2;
const PASSPHRASE: &str = "a passphrase of a test";

#[tokio::test(flavor = "multi_thread")]
async fn older_backup_is_healed_by_the_sites_on_sqlite() -> TestResult<()> {
    restore(TestDatabase::Sqlite).await
}

#[tokio::test(flavor = "multi_thread")]
async fn older_backup_is_healed_by_the_sites_on_postgresql() -> TestResult<()> {
    let Some(database) = TestDatabase::postgres()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    restore(database).await
}

async fn restore(database: TestDatabase) -> TestResult<()> {
    let postgres = database.url().is_some();
    let mut stage = scene::set(database).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let folder = tempfile::tempdir()?;
    let (older, newest) = (folder.path().join("older.backup"), folder.path().join("newest.backup"));
    // The backup is made while everything runs.
    let text = server(&stage, &["backup"], &older, PASSPHRASE)?;
    assert!(text.contains("Its ledger ends with"), "{text}");
    let first = scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, ROUNDS).await?;
    server(&stage, &["backup"], &newest, PASSPHRASE)?;
    let sealed = fs::read(&newest)?;
    assert!(sealed.starts_with(b"age-encryption.org/v1"), "another program can open it too");
    let shows = |mark: &[u8]| sealed.windows(mark.len()).any(|window| window == mark);
    assert!(!shows(b"PGDMP") && !shows(b"SQLite format 3"), "the tables are sealed");

    stage.kill_server();
    let refused = server(&stage, &["restore"], &newest, PASSPHRASE).expect_err("there is a server").to_string();
    assert!(refused.contains("not empty"), "{refused}");
    vacate(&mut stage, postgres)?;
    let refused = server(&stage, &["restore"], &newest, "another passphrase").expect_err("sealed").to_string();
    assert!(refused.contains("cannot open"), "{refused}");
    let mut damaged = sealed.clone();
    damaged.truncate(sealed.len() / 2);
    fs::write(folder.path().join("damaged.backup"), &damaged)?;
    server(&stage, &["restore"], &folder.path().join("damaged.backup"), PASSPHRASE).expect_err("cut in half");

    // The newest backup: operation continues.
    let text = server(&stage, &["restore"], &newest, PASSPHRASE)?;
    assert!(text.contains("restored to this state"), "{text}");
    stage.start_server()?;
    assert!(stage.operator.job(first).await?.report.is_some(), "what was, is there");
    let artifacts = stage.operator.artifacts(first).await?;
    let model = artifacts.iter().find(|artifact| artifact.name == "model.safetensors").ok_or("a model")?;
    assert_eq!(stage.operator.content(model.id).await?.len() as u64, model.size, "objects are there too");
    reconcile(&stage).await?;
    scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, 2 * ROUNDS).await?;
    for site in scene::private_sites(&stage.sites) {
        let ledger_text = site.command(&["ledger", "alarm", "show"])?;
        assert!(!ledger_text.contains("Open: nothing leaves"), "{} is content: {ledger_text}", site.name);
    }

    // An older backup: every site that paid since returns its receipts.
    stage.kill_server();
    vacate(&mut stage, postgres)?;
    server(&stage, &["restore", "--reason", "the newest backup is lost"], &older, PASSPHRASE)?;
    stage.start_server()?;
    healed(&stage, 2 * ROUNDS, "the newest backup is lost").await?;
    scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, 3 * ROUNDS).await?;
    verified(&stage)
}

/// Waits until the server has the receipts that it lost: `receipts` from each private site. A site compares them as soon
/// as it reaches the server again.
pub(super) async fn healed(stage: &TestConsortium, receipts: u32, reason: &str) -> TestResult<()> {
    for site in &stage.sites {
        wait_until_so(&format!("{} has given its receipts back", site.name), || {
            site.command(&["ledger", "show"]).is_ok_and(|text| {
                text.contains(&format!("({reason}); this site returned"))
                    && !text.contains("does not have every receipt")
            })
        })
        .await?;
    }
    for site in scene::private_sites(&stage.sites) {
        let ledger_text = site.command(&["ledger", "show"])?;
        assert!(ledger_text.contains(&format!("({reason}); this site returned {receipts} receipts")), "{ledger_text}");
        let alarms = site.command(&["ledger", "alarm", "show"])?;
        assert!(!alarms.contains("Open: nothing leaves"), "{alarms}");
    }
    Ok(())
}

/// Waits until every site has compared its receipts with the restored server. Until then its datasets join no job.
async fn reconcile(stage: &TestConsortium) -> TestResult<()> {
    for site in &stage.sites {
        wait_until_so(&format!("{} has compared its receipts", site.name), || {
            site.command(&["ledger", "show"]).is_ok_and(|text| {
                text.contains("; this site returned ") && !text.contains("does not have every receipt")
            })
        })
        .await?;
    }
    Ok(())
}

/// Verifies the server's ledger.
pub(super) fn verified(stage: &TestConsortium) -> TestResult<()> {
    let output = stage.server_command()?.arg("verify").output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(()) } else { Err(text.into()) }
}

/// Runs a command of the server on a file.
fn server(stage: &TestConsortium, command: &[&str], file: &Path, passphrase: &str) -> TestResult<String> {
    let output =
        stage.server_command()?.args(command).arg(file).env("UNDERTONE_BACKUP_PASSPHRASE", passphrase).output()?;
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(text) } else { Err(text.into()) }
}

/// Removes all data of the server.
fn vacate(stage: &mut TestConsortium, postgres: bool) -> TestResult<()> {
    fs::remove_dir_all(stage.server_folder())?;
    if postgres && let Some(fresh) = TestDatabase::postgres()? {
        stage.replace_database(fresh);
    }
    Ok(())
}
