use undertone_api::signed::ApprovalKey;

use super::disk::{FEW_MIB, LEAST_MIB, check_space};
use super::server::{FAR, SKEW, check_skew};
use super::{CheckResults, CheckState, DoctorCommand};
use crate::config::Config;
use crate::site::books::ChainHead;
use crate::site::consent::{self, CredentialNotice};
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::policy::TEMPLATE;
use crate::site::store::Store;

fn site() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    // Others may enter the temporary folder, but not the site's own folder below it.
    let folder = Folder::new(dir.path().join("site"));
    folder.create().expect("the folder is writable");
    crate::fixture::config().store(&folder).expect("the folder is writable");
    SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
    std::fs::write(folder.policy(), TEMPLATE).expect("the folder is writable");
    Store::create(&folder.ledger()).expect("the folder is writable");
    (dir, folder)
}

/// Returns the states by check, without the server.
fn check_states(folder: &Folder) -> Vec<(&'static str, CheckState)> {
    let doctor = DoctorCommand { json: false, quick: true, offline: true };
    let results = match doctor.run_checks(folder, &crate::fixture::clock()) {
        Ok(results) => results,
        Err(failure) => panic!("{}", failure.error),
    };
    results.checks.iter().map(|result| (result.check, result.state)).collect()
}

fn state(folder: &Folder, check: &str) -> CheckState {
    let states = check_states(folder);
    states
        .iter()
        .filter(|(name, _)| *name == check)
        .map(|(_, state)| *state)
        .max()
        .unwrap_or_else(|| panic!("{check}: {states:?}"))
}

#[test]
fn each_fault_is_reported_under_its_check() {
    let (_dir, folder) = site();
    for check in ["config", "policy", "folder", "key", "sync", "ledger", "receipts", "alarm", "budget", "device"] {
        assert_eq!(state(&folder, check), CheckState::Ok, "{check}");
    }
    assert_eq!(state(&folder, "worker"), CheckState::Warn, "it is not running");
    let running = folder.lock().expect("it is free");
    assert_eq!(state(&folder, "worker"), CheckState::Ok);
    drop(running);

    std::fs::write(folder.policy(), "[jobs]\nkinds = 3").expect("the folder is writable");
    assert_eq!(state(&folder, "policy"), CheckState::Fail);
    std::fs::create_dir_all(folder.datasets().join("ward-7")).expect("the folder is writable");
    assert_eq!(state(&folder, "dataset"), CheckState::Fail);
    crate::site::witness::alarm::raise(
        &Store::create(&folder.ledger()).expect("it is there"),
        "the log was cut",
        "{}",
        time::OffsetDateTime::UNIX_EPOCH,
    )
    .expect("it is kept");
    assert_eq!(state(&folder, "alarm"), CheckState::Fail);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        mode(folder.root(), 0o755);
        assert_eq!(state(&folder, "folder"), CheckState::Warn);
        mode(&folder.key(), 0o644);
        assert_eq!(state(&folder, "key"), CheckState::Fail);
    }
    std::fs::remove_file(folder.config()).expect("it is there");
    assert_eq!(state(&folder, "config"), CheckState::Fail);
    std::fs::write(folder.ledger(), "not a database, for sure").expect("the folder is writable");
    assert_eq!(state(&folder, "ledger"), CheckState::Fail);
}

#[test]
fn missing_anchor_warns_and_ledger_behind_anchor_fails() {
    let (dir, folder) = site();
    assert_eq!(state(&folder, "anchor"), CheckState::Warn);
    let path = dir.path().join("elsewhere").join("anchor");
    std::fs::create_dir(dir.path().join("elsewhere")).expect("the folder is writable");
    let config = Config { anchor: Some(path.clone()), ..crate::fixture::config() };
    config.store(&folder).expect("the folder is writable");
    assert_eq!(state(&folder, "anchor"), CheckState::Fail, "it was not begun");
    let anchor = config.ledger_anchor().expect("it is configured");
    anchor.begin(&ChainHead { sequence: 0, hash: String::new() }).expect("the folder is writable");
    assert_eq!(state(&folder, "anchor"), CheckState::Ok);
    std::fs::remove_file(&path).expect("it is there");
    anchor.begin(&ChainHead { sequence: 2, hash: "ab".repeat(32) }).expect("the folder is writable");
    assert_eq!(state(&folder, "anchor"), CheckState::Fail);
}

/// A dataset prepared by an earlier version stays usable, and the steward is shown how to declare its classes. One
/// prepared by rules for public data only is not usable.
#[test]
fn undeclared_preparation_is_a_warning() {
    let (_dir, folder) = site();
    let path = folder.dataset("ward-7").expect("a good name");
    std::fs::create_dir_all(&path).expect("the folder is writable");
    let describe = |preparation: &str| {
        let counts = r#"{"utterances":4,"speakers":2,"frames":40}"#;
        let text = format!(
            r#"{{"format":1,"name":"ward-7","inputs":13,"classes":40,"utterances":4,"speakers":2,"frames":40,"train":{counts},
                "test":{counts},"sample_rate":16000,"features":"","labels":"","created":"","digest":""{preparation}}}"#
        );
        std::fs::write(path.join("meta.json"), text).expect("the folder is writable");
    };
    describe("");
    assert_eq!(state(&folder, "dataset"), CheckState::Warn);
    describe(r#","preparation":{"across_units":[],"across_records":[],"class_source":"declared"}"#);
    assert_eq!(state(&folder, "dataset"), CheckState::Ok);
    describe(r#","preparation":{"across_units":["--least-frames"],"across_records":[],"class_source":"labels"}"#);
    assert_eq!(state(&folder, "dataset"), CheckState::Fail);
    crate::site::policy::declare(&folder.policy(), "ward-7", undertone_api::dataset::Visibility::Public)
        .expect("the policy has no entry for it");
    assert_eq!(state(&folder, "dataset"), CheckState::Ok);
}

#[test]
fn ledger_of_an_older_version_is_unchanged() {
    let (_dir, folder) = site();
    let bytes = {
        let store = Store::create(&folder.ledger()).expect("it is there");
        store.set_version(1).expect("it is ours");
        drop(store);
        std::fs::read(folder.ledger()).expect("it is there")
    };
    assert_eq!(state(&folder, "ledger"), CheckState::Warn);
    assert_eq!(std::fs::read(folder.ledger()).expect("it is there"), bytes);
}

#[test]
fn missing_approval_key_and_credential_reset_are_warnings() {
    let (_dir, folder) = site();
    let doctor = DoctorCommand { json: false, quick: true, offline: true };
    let result_of = |check: &str| {
        let Ok(results) = doctor.run_checks(&folder, &crate::fixture::clock()) else { panic!("the checks run") };
        results.checks.into_iter().find(|result| result.check == check)
    };
    let approval = result_of("approval").expect("it is checked");
    assert_eq!(approval.state, CheckState::Warn);
    let remedy = approval.remedy.expect("there is one");
    assert!(remedy.contains("approval-keys add") && remedy.contains("approval = \"server\""), "{remedy}");
    let store = Store::create(&folder.ledger()).expect("it is there");
    let now = crate::fixture::clock()();
    let public_key = hex::encode(SiteKey::load(&folder.key()).expect("it is there").public().to_bytes());
    consent::pin_key(&store, &ApprovalKey::Ed25519 { public_key }, "Ada", now).expect("it is a key");
    assert_eq!(state(&folder, "approval"), CheckState::Ok);
    assert_eq!(result_of("credentials"), None);
    let text = "The password of Ada was reset by an operator's link.".to_owned();
    let notice = CredentialNotice { id: uuid::Uuid::from_u128(1), text, at: now };
    consent::keep_notice(&store, &notice, now).expect("it is open");
    let reset = result_of("credentials").expect("it is reported");
    assert!(reset.state == CheckState::Warn && reset.message.contains("The password of Ada"), "{reset:?}");
    let server = TEMPLATE.replace("approval = \"steward\"", "approval = \"server\"");
    std::fs::write(folder.policy(), server).expect("the folder is writable");
    assert!(result_of("approval").expect("it is checked").message.contains("server's statement"));
}

#[test]
fn clock_skew_is_accepted_up_to_seconds() {
    for (seconds, expected) in [
        (0, CheckState::Ok),
        (SKEW, CheckState::Ok),
        (-SKEW - 1, CheckState::Warn),
        (FAR, CheckState::Warn),
        (-FAR - 1, CheckState::Fail),
    ] {
        let mut results = CheckResults::default();
        check_skew(seconds, &mut results);
        assert_eq!(results.worst(), expected, "{seconds}");
        assert_eq!(results.checks[0].remedy.is_some(), expected != CheckState::Ok);
    }
}

#[test]
fn low_disk_space_is_reported() {
    for (free, spill, expected) in [
        (LEAST_MIB - 1, 0, CheckState::Fail),
        (LEAST_MIB, 0, CheckState::Warn),
        (FEW_MIB, 0, CheckState::Ok),
        (FEW_MIB, FEW_MIB + 1, CheckState::Warn),
    ] {
        let mut results = CheckResults::default();
        check_space(free, spill, &mut results);
        assert_eq!(results.worst(), expected, "{free} MiB, {spill} to spill");
    }
}

#[test]
fn exit_code_and_json_report_the_worst_check() {
    let (_dir, folder) = site();
    let doctor = DoctorCommand { json: true, quick: true, offline: true };
    let mut out = Vec::new();
    let code = |answer: Result<(), crate::cli::CommandFailure>| answer.err().map(|failure| failure.code);
    assert_eq!(code(doctor.run(&folder, &crate::fixture::clock(), &mut out)), Some(1), "it is not running");
    let report: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(report["fail"], 0);
    assert!(
        report["checks"]
            .as_array()
            .is_some_and(|checks| checks.iter().any(|check| check["check"] == "ledger" && check["state"] == "ok"))
    );
    std::fs::remove_file(folder.policy()).expect("it is there");
    assert_eq!(code(doctor.run(&folder, &crate::fixture::clock(), &mut Vec::new())), Some(2));
}

#[test]
fn late_releases_are_shown_with_their_job() {
    let (_dir, folder) = site();
    assert_eq!(state(&folder, "release clock"), CheckState::Ok);
    let part = folder.work(crate::fixture::JOB, crate::fixture::OURS);
    std::fs::create_dir_all(&part).expect("the folder is writable");
    let keep = |late: u64| {
        let record = serde_json::json!({ "period_millis": 2_000, "releases": 40, "late": late });
        std::fs::write(part.join("release_clock.json"), record.to_string()).expect("the folder is writable");
    };
    keep(0);
    assert_eq!(state(&folder, "release clock"), CheckState::Ok);
    keep(3);
    assert_eq!(state(&folder, "release clock"), CheckState::Warn);
}
