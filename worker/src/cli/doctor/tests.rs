use undertone_api::signed::ApprovalKey;

use super::disk::{FEW_MIB, LEAST_MIB, judge};
use super::server::{FAR, SKEW, skew};
use super::{Doctor, Findings, State};
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
fn look(folder: &Folder) -> Vec<(&'static str, State)> {
    let doctor = Doctor { json: false, quick: true, offline: true };
    let found = match doctor.look(folder, &crate::fixture::clock()) {
        Ok(found) => found,
        Err(failure) => panic!("{}", failure.error),
    };
    found.checks.iter().map(|finding| (finding.check, finding.state)).collect()
}

fn state(folder: &Folder, check: &str) -> State {
    let all = look(folder);
    all.iter()
        .filter(|(name, _)| *name == check)
        .map(|(_, state)| *state)
        .max()
        .unwrap_or_else(|| panic!("{check}: {all:?}"))
}

#[test]
fn each_thing_that_is_broken_is_found_by_its_name() {
    let (_dir, folder) = site();
    for check in ["config", "policy", "folder", "key", "sync", "ledger", "receipts", "alarm", "budget", "device"] {
        assert_eq!(state(&folder, check), State::Ok, "{check}");
    }
    assert_eq!(state(&folder, "worker"), State::Warn, "it is not running");
    let running = folder.lock().expect("nobody holds it");
    assert_eq!(state(&folder, "worker"), State::Ok);
    drop(running);

    std::fs::write(folder.policy(), "[jobs]\nkinds = 3").expect("the folder is writable");
    assert_eq!(state(&folder, "policy"), State::Fail);
    std::fs::create_dir_all(folder.datasets().join("ward-7")).expect("the folder is writable");
    assert_eq!(state(&folder, "dataset"), State::Fail);
    crate::site::witness::alarm::raise(
        &Store::create(&folder.ledger()).expect("it is there"),
        "the log was cut",
        "{}",
        time::OffsetDateTime::UNIX_EPOCH,
    )
    .expect("it is kept");
    assert_eq!(state(&folder, "alarm"), State::Fail);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &std::path::Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        };
        mode(folder.root(), 0o755);
        assert_eq!(state(&folder, "folder"), State::Warn);
        mode(&folder.key(), 0o644);
        assert_eq!(state(&folder, "key"), State::Fail);
    }
    std::fs::remove_file(folder.config()).expect("it is there");
    assert_eq!(state(&folder, "config"), State::Fail);
    std::fs::write(folder.ledger(), "not a database, for sure").expect("the folder is writable");
    assert_eq!(state(&folder, "ledger"), State::Fail);
}

#[test]
fn missing_anchor_is_a_warning_and_a_ledger_behind_its_anchor_a_failure() {
    let (dir, folder) = site();
    assert_eq!(state(&folder, "anchor"), State::Warn);
    let path = dir.path().join("elsewhere").join("anchor");
    std::fs::create_dir(dir.path().join("elsewhere")).expect("the folder is writable");
    let config = Config { anchor: Some(path.clone()), ..crate::fixture::config() };
    config.store(&folder).expect("the folder is writable");
    assert_eq!(state(&folder, "anchor"), State::Fail, "it was not begun");
    let anchor = config.ledger_anchor().expect("it is configured");
    anchor.begin(&ChainHead { sequence: 0, hash: String::new() }).expect("the folder is writable");
    assert_eq!(state(&folder, "anchor"), State::Ok);
    std::fs::remove_file(&path).expect("it is there");
    anchor.begin(&ChainHead { sequence: 2, hash: "ab".repeat(32) }).expect("the folder is writable");
    assert_eq!(state(&folder, "anchor"), State::Fail);
}

/// A dataset prepared by an earlier version stays usable, and the steward is shown how to declare its classes. One
/// prepared by rules for public data only is not usable.
#[test]
fn datasets_of_undeclared_preparation_are_pointed_out() {
    let (_dir, folder) = site();
    let at = folder.dataset("ward-7").expect("a good name");
    std::fs::create_dir_all(&at).expect("the folder is writable");
    let describe = |preparation: &str| {
        let counts = r#"{"utterances":4,"speakers":2,"frames":40}"#;
        let text = format!(
            r#"{{"format":1,"name":"ward-7","inputs":13,"classes":40,"utterances":4,"speakers":2,"frames":40,"train":{counts},
                "test":{counts},"sample_rate":16000,"features":"","labels":"","created":"","digest":""{preparation}}}"#
        );
        std::fs::write(at.join("meta.json"), text).expect("the folder is writable");
    };
    describe("");
    assert_eq!(state(&folder, "dataset"), State::Warn);
    describe(r#","preparation":{"across_units":[],"across_records":[],"class_source":"declared"}"#);
    assert_eq!(state(&folder, "dataset"), State::Ok);
    describe(r#","preparation":{"across_units":["--least-frames"],"across_records":[],"class_source":"labels"}"#);
    assert_eq!(state(&folder, "dataset"), State::Fail);
    crate::site::policy::declare(&folder.policy(), "ward-7", undertone_api::dataset::Visibility::Public)
        .expect("nothing is said of it");
    assert_eq!(state(&folder, "dataset"), State::Ok);
}

#[test]
fn a_ledger_of_an_older_version_is_not_touched() {
    let (_dir, folder) = site();
    let bytes = {
        let store = Store::create(&folder.ledger()).expect("it is there");
        store.set_version(1).expect("it is ours");
        drop(store);
        std::fs::read(folder.ledger()).expect("it is there")
    };
    assert_eq!(state(&folder, "ledger"), State::Warn);
    assert_eq!(std::fs::read(folder.ledger()).expect("it is there"), bytes);
}

#[test]
fn a_missing_approval_key_is_told_with_both_remedies_and_so_is_a_reset() {
    let (_dir, folder) = site();
    let doctor = Doctor { json: false, quick: true, offline: true };
    let finding = |check: &str| {
        let Ok(found) = doctor.look(&folder, &crate::fixture::clock()) else { panic!("it looks") };
        found.checks.into_iter().find(|finding| finding.check == check)
    };
    let approval = finding("approval").expect("it is looked at");
    assert_eq!(approval.state, State::Warn);
    let remedy = approval.remedy.expect("there is one");
    assert!(remedy.contains("approval-keys add") && remedy.contains("approval = \"server\""), "{remedy}");
    let store = Store::create(&folder.ledger()).expect("it is there");
    let now = crate::fixture::clock()();
    let public_key = hex::encode(SiteKey::load(&folder.key()).expect("it is there").public().to_bytes());
    consent::pin_key(&store, &ApprovalKey::Ed25519 { public_key }, "Ada", now).expect("it is a key");
    assert_eq!(state(&folder, "approval"), State::Ok);
    assert_eq!(finding("credentials"), None);
    let text = "The password of Ada was reset by an operator's link.".to_owned();
    let notice = CredentialNotice { id: uuid::Uuid::from_u128(1), text, at: now };
    consent::keep_notice(&store, &notice, now).expect("it is open");
    let reset = finding("credentials").expect("it is told");
    assert!(reset.state == State::Warn && reset.said.contains("The password of Ada"), "{reset:?}");
    let server = TEMPLATE.replace("approval = \"steward\"", "approval = \"server\"");
    std::fs::write(folder.policy(), server).expect("the folder is writable");
    assert!(finding("approval").expect("it is looked at").said.contains("server's word"));
}

#[test]
fn clocks_may_differ_by_seconds_and_not_by_minutes() {
    for (seconds, wanted) in
        [(0, State::Ok), (SKEW, State::Ok), (-SKEW - 1, State::Warn), (FAR, State::Warn), (-FAR - 1, State::Fail)]
    {
        let mut found = Findings::default();
        skew(seconds, &mut found);
        assert_eq!(found.worst(), wanted, "{seconds}");
        assert_eq!(found.checks[0].remedy.is_some(), wanted != State::Ok);
    }
}

#[test]
fn little_room_is_told_before_there_is_none() {
    for (free, spill, wanted) in [
        (LEAST_MIB - 1, 0, State::Fail),
        (LEAST_MIB, 0, State::Warn),
        (FEW_MIB, 0, State::Ok),
        (FEW_MIB, FEW_MIB + 1, State::Warn),
    ] {
        let mut found = Findings::default();
        judge(free, spill, &mut found);
        assert_eq!(found.worst(), wanted, "{free} MiB, {spill} to spill");
    }
}

#[test]
fn the_exit_code_is_that_of_the_worst_finding_and_json_says_the_same() {
    let (_dir, folder) = site();
    let doctor = Doctor { json: true, quick: true, offline: true };
    let mut out = Vec::new();
    let code = |answer: Result<(), crate::cli::Failure>| answer.err().map(|failure| failure.code);
    assert_eq!(code(doctor.run(&folder, &crate::fixture::clock(), &mut out)), Some(1), "it is not running");
    let said: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(said["fail"], 0);
    assert!(
        said["checks"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["check"] == "ledger" && one["state"] == "ok"))
    );
    std::fs::remove_file(folder.policy()).expect("it is there");
    assert_eq!(code(doctor.run(&folder, &crate::fixture::clock(), &mut Vec::new())), Some(2));
}

#[test]
fn late_releases_are_shown_with_their_job() {
    let (_dir, folder) = site();
    assert_eq!(state(&folder, "release clock"), State::Ok);
    let part = folder.work(crate::fixture::JOB, crate::fixture::OURS);
    std::fs::create_dir_all(&part).expect("the folder is writable");
    let keep = |late: u64| {
        let record = serde_json::json!({ "period_millis": 2_000, "releases": 40, "late": late });
        std::fs::write(part.join("release_clock.json"), record.to_string()).expect("the folder is writable");
    };
    keep(0);
    assert_eq!(state(&folder, "release clock"), State::Ok);
    keep(3);
    assert_eq!(state(&folder, "release clock"), State::Warn);
}
