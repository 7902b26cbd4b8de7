//! `undertone-server doctor` beside a running server.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use support::stage::{TestConsortium, TestDatabase, TestResult};

/// Runs `doctor` and returns the exit status with the report.
fn examine(stage: &TestConsortium) -> TestResult<(Option<i32>, Value)> {
    let output = stage.server_command()?.args(["doctor", "--json"]).output()?;
    let report = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok((output.status.code(), report))
}

fn state<'a>(report: &'a Value, check: &str) -> &'a str {
    let checks = report["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let of_check = checks.iter().filter(|result| result["check"] == check);
    of_check.map(|result| result["state"].as_str().unwrap_or_default()).next_back().unwrap_or_default()
}

fn examine_and_break(database: TestDatabase) -> TestResult<()> {
    let (mut stage, _) = TestConsortium::vacant(database)?;
    let (status, report) = examine(&stage)?;
    assert_eq!(status, Some(0), "{report:#}");
    for check in ["server", "workers", "database", "migrations", "writer", "log", "store", "keys"] {
        assert_eq!(state(&report, check), "ok", "{check}: {report:#}");
    }

    // The server continues, and a second run has the same result.
    assert_eq!(examine(&stage)?.1["fail"], 0);
    stage.server()?.wait_for("serving", support::stage::PATIENCE)?;

    let key = stage.server_folder().join("signing.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644))?;
    let (status, report) = examine(&stage)?;
    assert_eq!((status, &report["fail"]), (Some(1), &Value::from(1)), "{report:#}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))?;

    stage.kill_server();
    let (status, report) = examine(&stage)?;
    assert_eq!((status, state(&report, "server")), (Some(0), "warn"), "{report:#}");
    Ok(())
}

#[test]
fn doctor_finds_a_fault_and_disturbs_no_server_on_sqlite() -> TestResult<()> {
    examine_and_break(TestDatabase::Sqlite)
}

#[test]
fn doctor_finds_a_fault_and_disturbs_no_server_on_postgres() -> TestResult<()> {
    let Some(database) = TestDatabase::postgres()? else {
        eprintln!("no PostgreSQL: set UNDERTONE_TEST_DATABASE_URL, or run `make test`");
        return Ok(());
    };
    examine_and_break(database)
}
