//! Long-term operation of a site: it follows its server to another certificate, rotates its key, and is restored from a
//! backup. Neither the server nor an older copy of its ledger makes it spend twice.

use std::fs;
use std::process::Command;

use support::stage::{TestDatabase, TestResult, TestSite, wait_until_so};
use support::workspace;

use support::scene;

const ROUNDS: u32 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn site_survives_new_server_certificate_and_own_key_rotation() -> TestResult<()> {
    let mut stage = scene::set_with(TestDatabase::Sqlite, &[("UNDERTONE_TLS__MODE", "on")]).await?;
    let pinned = fs::read_to_string(stage.sites[1].folder().join("config.toml"))?;
    assert!(pinned.contains("https://127.0.0.1") && pinned.contains("certificate = "), "{pinned}");
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    scene::run_small_job(&stage, ROUNDS).await?;

    scene::wait_for_proofs(&stage, ROUNDS).await?;

    // Without notice to the sites, the server loses its certificate and makes another one.
    for site in &mut stage.sites {
        site.stop()?;
    }
    stage.kill_server();
    let before = fs::read_to_string(stage.server_folder().join("certificate.pem"))?;
    for file in ["certificate.pem", "certificate.key", "certificate.since"] {
        fs::remove_file(stage.server_folder().join(file))?;
    }
    stage.start_server()?;
    assert_ne!(before, fs::read_to_string(stage.server_folder().join("certificate.pem"))?);

    // One site rotates its key over a certificate that it has never seen.
    let output = stage.sites[1].command(&["rotate-key"])?;
    assert!(output.contains("Change 1 of this site's key"), "{output}");
    let report = doctor(&stage.sites[1])?;
    for check in ["server", "certificate", "clock", "copy", "ledger", "receipts"] {
        assert!(is_ok(&report, check), "{check}: {report:#}");
    }
    for site in &mut stage.sites {
        site.start(&[])?;
    }
    scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, 2 * ROUNDS).await?;
    // The server verifies the signatures of either key too.
    let output = stage.server_command()?.arg("verify").output()?;
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn restored_site_imports_its_receipts_before_any_release() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;
    let file = stage.sites[1].folder().with_extension("backup").to_string_lossy().into_owned();
    stage.sites[1].command(&["backup", &file, "--unsealed"])?;
    scene::run_small_job(&stage, ROUNDS).await?;
    scene::wait_for_proofs(&stage, ROUNDS).await?;
    let spent = account(&stage.sites[1])?;

    stage.sites[1].stop()?;
    let output = stage.sites[1].command(&["restore", &file, "--replace"])?;
    assert!(output.contains("0 receipts") && output.contains("The replaced site is in"), "{output}");
    let report = doctor(&stage.sites[1])?;
    assert!(!is_ok(&report, "restored") && !is_ok(&report, "copy"), "{report:#}");
    assert!(stage.sites[1].command(&["ledger", "show"])?.contains("Nothing leaves until"));

    stage.sites[1].start(&[])?;
    wait_until_so("the receipts are back", || {
        stage.sites[1].command(&["ledger", "show"]).is_ok_and(|output| {
            output.contains(&format!("the server returned {ROUNDS} receipts that it lacked"))
                && !output.contains("Nothing leaves until")
        })
    })
    .await?;
    assert_eq!(account(&stage.sites[1])?, spent, "what was spent is spent");
    wait_until_so("the ledger holds", || stage.sites[1].command(&["ledger", "verify"]).is_ok()).await?;
    scene::run_small_job(&stage, ROUNDS).await?;
    let ledger_text = stage.sites[1].command(&["ledger", "show"])?;
    assert!(ledger_text.contains(&format!("of {}", 2 * ROUNDS)), "{ledger_text}");
    Ok(())
}

/// Returns the report of `doctor` at a site, regardless of its exit code.
fn doctor(site: &TestSite) -> TestResult<serde_json::Value> {
    let output = Command::new(workspace::program("undertone-worker")?)
        .arg("--site")
        .arg(site.folder())
        .args(["doctor", "--json", "--quick"])
        .output()?;
    serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}{}", text(&output.stdout), text(&output.stderr)).into())
}

fn is_ok(report: &serde_json::Value, check: &str) -> bool {
    let all = report["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of = || all.iter().filter(|finding| finding["check"] == check);
    of().count() > 0 && of().all(|finding| finding["state"] == "ok")
}

/// Returns the spending in the site's ledger: dataset, unit and ε.
fn account(site: &TestSite) -> TestResult<Vec<String>> {
    let ledger_text = site.command(&["ledger", "show"])?;
    let row = ledger_text.lines().nth(2).ok_or_else(|| format!("no account: {ledger_text}"))?;
    Ok(row.split_whitespace().take(3).map(str::to_owned).collect())
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
