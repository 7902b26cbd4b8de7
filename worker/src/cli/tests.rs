use clap::{CommandFactory, Parser};
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;
use undertone_api::signed::Signed;
use uuid::Uuid;

use super::{Cli, act};
use crate::config::{Config, Server};
use crate::dp::device::Compute;
use crate::fixture::{JOB, ORGANIZATION, OURS, WORKER, local, manifest, server_key, spec};
use crate::site::folder::Folder;
use crate::site::jobs;
use crate::site::keys::SiteKey;
use crate::site::policy::TEMPLATE;
use crate::site::store::{Store, StoreError};

/// A site as enrolment leaves it.
fn site() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    let config = Config {
        server: Server::new("http://127.0.0.1:1", None).expect("a good address"),
        server_key: server_key().verifying_key(),
        worker: WORKER,
        worker_name: "north".to_owned(),
        organization: ORGANIZATION,
        organization_name: "North Hospital".to_owned(),
        concurrent_runs: 1,
        rotate_key_days: 0,
        compute: Compute::default(),
        queries: crate::config::queries::Queries::default(),
        transcription: crate::config::transcription::Transcription::default(),
    };
    config.store(&folder).expect("the folder is writable");
    SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
    std::fs::write(folder.policy(), TEMPLATE).expect("the folder is writable");
    (dir, folder)
}

fn run(folder: &Folder, args: &[&str]) -> Result<String, (u8, String)> {
    let site = folder.root().display().to_string();
    let all = ["undertone-worker", "--site", &site].into_iter().chain(args.iter().copied());
    let cli = Cli::try_parse_from(all).expect("the arguments are right");
    let mut out = Vec::new();
    match act(&cli, &mut out) {
        Ok(()) => Ok(String::from_utf8(out).expect("text")),
        Err(failure) => Err((failure.code, super::chain(&*failure.error))),
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn commands_that_need_a_site_say_how_to_get_one() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path().join("none"));
    for args in [&["ledger", "show"][..], &["jobs"], &["approve", "1"], &["run"]] {
        let (code, said) = run(&folder, args).expect_err("there is no site");
        assert!(code == 1 && said.contains("enroll"), "{args:?}: {said}");
    }
    assert!(!folder.root().exists());
}

#[test]
fn a_site_that_is_enrolled_is_not_enrolled_again() {
    let (_dir, folder) = site();
    let (code, said) = run(&folder, &["enroll", "ute1.x"]).expect_err("it is enrolled");
    assert!(code == 1 && said.contains("already holds worker `north`"), "{said}");
}

#[test]
fn a_terminal_decides_about_exactly_the_manifest_it_was_shown() {
    let (_dir, folder) = site();
    let charge = spec().cost(&local(Visibility::Private).as_seen(OURS, ORGANIZATION, WORKER));
    let signed = Signed::new(&manifest(spec(), charge), &server_key()).expect("it has a JSON form");
    let store = Store::open(&folder.ledger()).expect("the folder is writable");
    jobs::remember(&store, JOB, OURS, &signed, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    let shown = run(&folder, &["jobs"]).expect("it can be shown");
    assert!(shown.contains("senones") && shown.contains("not yet") && shown.contains("12 releases"), "{shown}");
    let approved = run(&folder, &["approve", &JOB.to_string()]).expect("it is there");
    assert!(approved.contains(&signed.digest()), "{approved}");
    assert!(
        approved.contains("With this job it would be epsilon ") && approved.contains("Who learns what"),
        "{approved}"
    );
    let decided = jobs::decision(&store, JOB, OURS, &signed.digest()).expect("it is open").expect("it was made");
    assert!(decided.decision.approve && decided.by == "terminal");
    run(&folder, &["refuse", &JOB.to_string(), "--reason", "not this month"]).expect("it is there");
    assert!(run(&folder, &["jobs"]).expect("it can be shown").contains("refused (terminal): not this month"));
    let unknown = JobId(Uuid::from_u128(99)).to_string();
    assert!(run(&folder, &["approve", &unknown[20..]]).is_err());
}

#[test]
fn a_terminal_sees_a_job_in_full_holds_it_and_lets_it_go_on() {
    let (_dir, folder) = site();
    let charge = spec().cost(&local(Visibility::Private).as_seen(OURS, ORGANIZATION, WORKER));
    let signed = Signed::new(&manifest(spec(), charge), &server_key()).expect("it has a JSON form");
    let store = Store::open(&folder.ledger()).expect("the folder is writable");
    jobs::remember(&store, JOB, OURS, &signed, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    let (job, short) = (JOB.to_string(), &JOB.to_string()[..30]);
    let whole = run(&folder, &["jobs", short]).expect("it is there");
    for shown in
        [&signed.digest(), "Who takes part", "\"rounds\"", "12 releases for each", "Decided: not yet", "own ledger"]
    {
        assert!(whole.contains(shown), "{shown} in {whole}");
    }
    for line in [
        "This job by itself: epsilon ",
        "This site's own ledger has spent and reserved epsilon 0.0000 of ",
        "With this job it would be epsilon ",
        "Who learns what",
        "BOUNDED BY",
        "clipped and summed gradients with noise added at the site a round",
        "the average with one other party's vector, which that party can subtract",
        "the trained model and what was measured with it",
        "Recordings and logs never leave the site.",
    ] {
        assert!(whole.contains(line), "{line} is missing: {whole}");
    }
    let row = |who: &str| {
        let row = whole.lines().find(|line| line.starts_with(who)).unwrap_or_default();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let alone = whole.split("This job by itself: epsilon ").nth(1).and_then(|rest| rest.split(' ').next());
    let bound = format!("epsilon {} in all", alone.unwrap_or_default());
    assert_eq!(row("this server")[1..4], ["protected at the site", "10 times", bound.as_str()], "{whole}");
    assert_eq!(row("whoever gets the model")[1..4], ["computed from what is protected", "once", bound.as_str()]);
    assert_eq!(row("every member who may see jobs")[1..4], ["facts, no records", "once", "-"]);
    assert!(run(&folder, &["hold", &job, "--reason", " "]).is_err(), "a reason is needed");
    assert!(run(&folder, &["release", &job]).is_err(), "nobody holds it");
    run(&folder, &["hold", &job, "--reason", "a fire drill"]).expect("it is there");
    assert!(run(&folder, &["jobs"]).expect("it can be shown").contains("held (terminal): a fire drill"));
    assert!(run(&folder, &["hold", &job, "--reason", "again"]).is_err(), "it is held");
    run(&folder, &["approve", &job]).expect("it is there");
    assert!(run(&folder, &["jobs", &job]).expect("it is there").contains("Held by the terminal"), "a yes ends no hold");
    run(&folder, &["release", &job]).expect("it is held");
    assert!(!run(&folder, &["jobs"]).expect("it can be shown").contains("held"));
}

#[test]
fn a_damaged_ledger_fails_verification_with_its_own_code() {
    let (_dir, folder) = site();
    assert!(run(&folder, &["ledger", "verify"]).expect("an empty ledger holds").contains("0 receipts"));
    let store = Store::open(&folder.ledger()).expect("it is there");
    let row = "INSERT INTO receipt (sequence, payload, signature, digest) VALUES (1, '{}', '', '')";
    store
        .write(|tx| tx.execute(row, []).map(|_| ()).map_err(|error| StoreError::Row(error.to_string())))
        .expect("somebody has the file");
    assert!(matches!(run(&folder, &["ledger", "verify"]), Err((3, _))));
}

#[test]
fn the_policy_is_shown_as_the_worker_understands_it() {
    let (_dir, folder) = site();
    let shown = run(&folder, &["policy", "show"]).expect("it is a policy");
    assert!(shown.contains("(any other)") && shown.contains("steward") && shown.contains("8/1e-6"), "{shown}");
    std::fs::write(folder.policy(), "nonsense").expect("the folder is writable");
    let (_, said) = run(&folder, &["policy", "show"]).expect_err("it is none");
    assert!(said.contains("nothing may run") && said.contains("because"), "{said}");
}

/// Writes a row of the site's database as a process of this site does.
fn write(store: &Store, sql: &str) {
    store
        .write(|tx| tx.execute_batch(sql).map_err(|error| StoreError::Row(error.to_string())))
        .expect("the database is open");
}

#[test]
fn an_open_alarm_is_shown_everywhere_until_it_is_cleared_with_a_reason() {
    let (_dir, folder) = site();
    assert!(run(&folder, &["ledger", "alarm", "show"]).expect("there is none").contains("never"));
    let (_, said) = run(&folder, &["ledger", "alarm", "clear", "--reason", "x"]).expect_err("there is none");
    assert!(said.contains("no alarm"), "{said}");
    let store = Store::open(&folder.ledger()).expect("the folder is writable");
    write(&store, r#"INSERT INTO alarm (problem, evidence, at) VALUES ('its end is missing', '{"head": 7}', 'today')"#);
    let (code, said) = run(&folder, &["ledger", "verify"]).expect_err("it is open");
    assert!(code == 4 && said.contains("its end is missing") && said.contains("clear --reason"), "{code}: {said}");
    assert!(run(&folder, &["ledger", "show"]).expect("it can be shown").contains("its end is missing"));
    let shown = run(&folder, &["ledger", "alarm", "show"]).expect("it can be shown");
    assert!(shown.contains("Open: nothing leaves") && shown.contains("\"head\": 7"), "{shown}");
    assert!(run(&folder, &["ledger", "alarm", "clear", "--reason", " "]).is_err(), "a reason is needed");
    run(&folder, &["ledger", "alarm", "clear", "--reason", "restored; the operator wrote"]).expect("it is open");
    let shown = run(&folder, &["ledger", "alarm", "show"]).expect("it can be shown");
    assert!(shown.contains("restored; the operator wrote") && !shown.contains("Open"), "{shown}");
    run(&folder, &["ledger", "verify"]).expect("nothing is wrong any more");
}

#[test]
fn an_export_is_written_once_to_a_file_of_its_own() {
    let (dir, folder) = site();
    let file = dir.path().join("evidence.json");
    let name = file.display().to_string();
    run(&folder, &["ledger", "export", &name]).expect("the folder is writable");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let export: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(export["site_key"], SiteKey::load(&folder.key()).expect("it is there").public_hex());
    assert!(run(&folder, &["ledger", "export", &name]).is_err(), "nothing is overwritten");
    // It is verified where there is no site.
    let elsewhere = Folder::new(dir.path().join("none"));
    let server = hex::encode(server_key().verifying_key().as_bytes());
    let said = run(&elsewhere, &["ledger", "verify", "--file", &name, "--server-key", &server]).expect("it holds");
    assert!(said.contains("0 receipts") && said.contains(&format!("{server}, as it was given")), "{said}");
    let refused = run(&elsewhere, &["ledger", "verify", "--file", &name, "--site-key", &server]);
    assert!(matches!(refused, Err((3, _))), "it is another site's: {refused:?}");
}
