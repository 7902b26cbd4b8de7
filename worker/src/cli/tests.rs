mod peers;

use clap::{CommandFactory, Parser};
use time::OffsetDateTime;
use undertone_api::dataset::Visibility;
use undertone_api::id::JobId;
use undertone_api::job::{PartyTerms, Spec};
use undertone_api::signed::{ApprovalError, ApprovalKey, Signed, SignedApproval};
use uuid::Uuid;

use super::{CommandLine, format_error, run_command};
use crate::config::{Config, ServerEndpoint};
use crate::dp::device::Compute;
use crate::fixture::{JOB, ORGANIZATION, OURS, WORKER, local, manifest, server_key, spec};
use crate::site::datasets::{note_registered, scan};
use crate::site::folder::Folder;
use crate::site::jobs;
use crate::site::keys::SiteKey;
use crate::site::policy::{Policy, TEMPLATE};
use crate::site::store::{Store, StoreError};
use crate::speech::transcribe::wav;

/// Returns the configuration of an enrolled site.
pub(super) fn enrolled_config() -> Config {
    Config {
        server: ServerEndpoint::new("http://127.0.0.1:1", None).expect("a good address"),
        server_key: server_key().verifying_key(),
        worker: WORKER,
        worker_name: "north".to_owned(),
        organization: ORGANIZATION,
        organization_name: "North Hospital".to_owned(),
        concurrent_runs: 1,
        rotate_key_days: 0,
        anchor: None,
        compute: Compute::default(),
        queries: crate::config::queries::Queries::default(),
        transcription: crate::config::transcription::TranscriptionSettings::default(),
        programs: crate::speech::sandbox::Programs::default(),
    }
}

/// Makes a site in the state after enrolment.
fn site() -> (tempfile::TempDir, Folder) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path());
    enrolled_config().store(&folder).expect("the folder is writable");
    SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
    Store::create(&folder.ledger()).expect("the folder is writable");
    std::fs::write(folder.policy(), TEMPLATE).expect("the folder is writable");
    (dir, folder)
}

fn run(folder: &Folder, args: &[&str]) -> Result<String, (u8, String)> {
    let site = folder.root().display().to_string();
    let arguments = ["undertone-worker", "--site", &site].into_iter().chain(args.iter().copied());
    let command_line = CommandLine::try_parse_from(arguments).expect("the arguments are right");
    let mut out = Vec::new();
    match run_command(&command_line, &mut out) {
        Ok(()) => Ok(String::from_utf8(out).expect("text")),
        Err(failure) => Err((failure.code, format_error(&*failure.error))),
    }
}

#[test]
fn command_line_is_consistent() {
    CommandLine::command().debug_assert();
}

#[test]
fn commands_without_a_site_refer_to_enrolment() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::new(dir.path().join("none"));
    for args in [&["ledger", "show"][..], &["jobs"], &["approve", "1"], &["run"]] {
        let (code, message) = run(&folder, args).expect_err("there is no site");
        assert!(code == 1 && message.contains("enroll"), "{args:?}: {message}");
    }
    assert!(!folder.root().exists());
}

#[test]
fn enrolled_site_cannot_enrol_again() {
    let (_dir, folder) = site();
    let (code, message) = run(&folder, &["enroll", "ute1.x"]).expect_err("it is enrolled");
    assert!(code == 1 && message.contains("already holds worker `north`"), "{message}");
}

#[test]
fn terminal_decides_about_the_shown_manifest() {
    let (_dir, folder) = site();
    let charge = spec().cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
    let signed = Signed::new(&manifest(spec(), charge), &server_key()).expect("it has a JSON form");
    let store = Store::create(&folder.ledger()).expect("the folder is writable");
    jobs::remember(&store, JOB, OURS, &signed, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    let list = run(&folder, &["jobs"]).expect("it can be shown");
    assert!(list.contains("senones") && list.contains("not yet") && list.contains("12 releases"), "{list}");
    let report = run(&folder, &["approve", &JOB.to_string()]).expect("it is there");
    assert!(report.contains(&signed.digest()), "{report}");
    assert!(report.contains("With this job it would be epsilon ") && report.contains("Disclosures"), "{report}");
    let answer = jobs::decision(&store, JOB, OURS, &signed.digest()).expect("it is open").expect("it was made");
    assert!(answer.decision.approve && answer.by == "terminal");
    run(&folder, &["refuse", &JOB.to_string(), "--reason", "not this month"]).expect("it is there");
    assert!(run(&folder, &["jobs"]).expect("it can be shown").contains("refused (terminal): not this month"));
    let unknown = JobId(Uuid::from_u128(99)).to_string();
    assert!(run(&folder, &["approve", &unknown[20..]]).is_err());
}

#[test]
fn terminal_shows_holds_and_releases_a_job() {
    let (_dir, folder) = site();
    let charge = spec().cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
    let signed = Signed::new(&manifest(spec(), charge), &server_key()).expect("it has a JSON form");
    let store = Store::create(&folder.ledger()).expect("the folder is writable");
    jobs::remember(&store, JOB, OURS, &signed, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    let job = JOB.to_string();
    let whole = run(&folder, &["jobs", &job[..30]]).expect("it is there");
    for text in
        [&signed.digest(), "Participants", "\"rounds\"", "12 releases for each", "Decided: not yet", "own ledger"]
    {
        assert!(whole.contains(text), "{text} in {whole}");
    }
    for line in [
        "This job alone: epsilon ",
        "This site's own ledger has spent and reserved epsilon 0.0000 of ",
        "With this job it would be epsilon ",
        "Disclosures",
        "BOUND",
        "clipped and summed gradients with noise added at the site a round",
        "the average with one other party's vector, which that party can subtract",
        "the trained model and what was measured with it",
        "Recordings and logs stay at the site, except for the information in this table.",
    ] {
        assert!(whole.contains(line), "{line} is missing: {whole}");
    }
    let row = |observer: &str| {
        let row = whole.lines().find(|line| line.starts_with(observer)).unwrap_or_default();
        row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let epsilon = whole.split("This job alone: epsilon ").nth(1).and_then(|rest| rest.split(' ').next());
    let bound = format!("epsilon {} in all", epsilon.unwrap_or_default());
    assert_eq!(row("this server")[1..4], ["protected at the site", "10 times", bound.as_str()], "{whole}");
    assert_eq!(row("whoever gets the model")[1..4], ["computed from what is protected", "once", bound.as_str()]);
    assert_eq!(row("every member who may see jobs")[1..4], ["facts, no records", "once", "-"]);
    assert!(run(&folder, &["hold", &job, "--reason", " "]).is_err(), "a reason is needed");
    assert!(run(&folder, &["release", &job]).is_err(), "it is not held");
    run(&folder, &["hold", &job, "--reason", "a fire drill"]).expect("it is there");
    assert!(run(&folder, &["jobs"]).expect("it can be shown").contains("held (terminal): a fire drill"));
    assert!(run(&folder, &["hold", &job, "--reason", "again"]).is_err(), "it is held");
    run(&folder, &["approve", &job]).expect("it is there");
    assert!(
        run(&folder, &["jobs", &job]).expect("it is there").contains("Held by the terminal"),
        "an approval ends no hold"
    );
    run(&folder, &["release", &job]).expect("it is held");
    assert!(!run(&folder, &["jobs"]).expect("it can be shown").contains("held"));
}

#[test]
fn terminal_shows_a_transcription_above_the_cost_limit() {
    let (dir, folder) = site();
    let input = dir.path().join("in");
    std::fs::create_dir(&input).expect("the folder is writable");
    std::fs::write(input.join("a.wav"), wav::write(&vec![0.25; 16_000])).expect("the folder is writable");
    run(&folder, &["data", "add-recordings", "--input", &input.display().to_string(), "--name", "ward-7"])
        .expect("it is a recording");
    let provider = "name = \"one\"\nprotocol = \"deepgram\"\nurl = \"https://one.example\"\n\
                    price = { currency = \"USD\", per_minute = \"0.006\" }\n";
    let mut config = Config::load(&folder).expect("it was just written");
    config.transcription.providers = vec![toml::from_str(provider).expect("it is a provider")];
    config.store(&folder).expect("the folder is writable");
    let policy = TEMPLATE.replacen(
        "kinds = [\"dp_sgd\"]",
        "kinds = [\"transcription\"]\nmost_cost_per_job = { USD = \"0.01\" }",
        1,
    ) + "\n[budget.words]\nepsilon = 8.0\ndelta = 1e-6\n";
    std::fs::write(folder.policy(), policy).expect("the folder is writable");
    let store = Store::create(&folder.ledger()).expect("the folder is writable");
    let rules = Policy::load(&folder.policy()).expect("it was just written");
    let (datasets, _) = scan(&folder, &store, &rules).expect("the folder can be read");
    note_registered(&store, &datasets[0].name, OURS).expect("it is free");
    let spec: Spec = serde_json::from_value(serde_json::json!({ "kind": "transcription", "spec": {
        "participant": { "dataset": OURS, "epsilon": 1.0, "delta": 1e-7, "distance": 10 },
        "providers": [{ "name": "one", "protocol": "deepgram" }],
        "vocabulary": { "from": "public", "words": ["medicine", "window"] },
    } }))
    .expect("it is a spec");
    let charge = spec.cost(&datasets[0].to_dataset(OURS, ORGANIZATION, WORKER));
    let signed = Signed::new(&manifest(spec, charge), &server_key()).expect("it has a JSON form");
    jobs::remember(&store, JOB, OURS, &signed, OffsetDateTime::UNIX_EPOCH).expect("it is open");
    let whole = run(&folder, &["jobs", &JOB.to_string()]).expect("it is there");
    for line in [
        "By this site's own prices, external recognizers cost at most USD ",
        "policy refuses the job: by this site's own prices",
    ] {
        assert!(whole.contains(line), "{line} is not in {whole}");
    }
}

#[test]
fn steward_key_is_pinned_by_fingerprint_and_signs_reviews() {
    let (dir, folder) = site();
    let file = dir.path().join("steward.key").display().to_string();
    let output = run(&folder, &["steward-key", "make", &file]).expect("the folder is writable");
    assert!(run(&folder, &["steward-key", "make", &file]).is_err(), "a key is never overwritten");
    let line = output.split_whitespace().find(|word| word.starts_with("uak1.")).expect("its line");
    let fingerprint = output.split_whitespace().last().expect("its fingerprint");
    assert!(run(&folder, &["steward-key", "show", &file]).expect("it is there").contains(fingerprint));
    let failure = run(&folder, &["approval-keys", "add", line]).expect_err("it was not compared");
    assert!(failure.1.contains("--fingerprint"), "{}", failure.1);
    let other = "0000-0000-0000-0000-0000-0000-0000-0000";
    assert!(run(&folder, &["approval-keys", "add", line, "--fingerprint", other]).is_err());
    assert!(run(&folder, &["approval-keys", "list"]).expect("it can be shown").contains("No approval key"));
    let upper = fingerprint.to_uppercase();
    run(&folder, &["approval-keys", "add", line, "--fingerprint", &upper, "--label", "Ada"]).expect("it is the key");
    let list = run(&folder, &["approval-keys", "list"]).expect("it can be shown");
    assert!(list.contains(fingerprint) && list.contains("Ada"), "{list}");

    let charge = spec().cost(&local(Visibility::Private).to_dataset(OURS, ORGANIZATION, WORKER));
    let signed = Signed::new(&manifest(spec(), charge), &server_key()).expect("it has a JSON form");
    let review = dir.path().join("review.json");
    // The digest in the file comes from the server, and is false.
    let text = serde_json::json!({ "job": JOB, "dataset": OURS, "manifest": &signed, "digest": "00", "learned": [] });
    std::fs::write(&review, text.to_string()).expect("the folder is writable");
    let review = review.display().to_string();
    let output = run(&folder, &["steward-key", "sign", "--key", &file, &review]).expect("it is a review");
    assert!(output.contains("senones") && output.contains(&signed.digest()), "{output}");
    let approval: SignedApproval = serde_json::from_str(output.lines().last().expect("a line")).expect("an approval");
    let key = ApprovalKey::parse_line(line).expect("it is a key");
    assert_eq!(
        approval.approves(&signed.digest(), JOB, OURS, std::slice::from_ref(&key)),
        Ok((key.fingerprint(), PartyTerms::default()))
    );
    let output = run(&folder, &["steward-key", "sign", "--key", &file, &review, "--refuse"]).expect("it is a review");
    let refusal: SignedApproval = serde_json::from_str(output.lines().last().expect("a line")).expect("a refusal");
    assert_eq!(refusal.approves(&signed.digest(), JOB, OURS, &[key]), Err(ApprovalError::Refusal));
    let wrong = hex::encode(SiteKey::load(&folder.key()).expect("it is there").public().to_bytes());
    assert!(run(&folder, &["steward-key", "sign", "--key", &file, &review, "--server-key", &wrong]).is_err());

    run(&folder, &["approval-keys", "remove", fingerprint]).expect("it is pinned");
    assert!(run(&folder, &["approval-keys", "remove", fingerprint]).is_err(), "it is not pinned any more");
}

#[test]
fn certificate_of_another_server_fails_with_code_3() {
    let (dir, folder) = site();
    let path = dir.path().join("certificate.json");
    let name = path.display().to_string();
    assert!(matches!(run(&folder, &["certificate", &name]), Err((1, _))), "there is no file");
    let empty = serde_json::json!({ "payload": "{}", "signature": "" });
    std::fs::write(&path, empty.to_string()).expect("the folder is writable");
    let (code, message) = run(&folder, &["certificate", &name]).expect_err("it has no evidence");
    assert!(code == 1 && message.contains("is not a certificate file"), "{message}");
    let file =
        serde_json::json!({ "payload": "{}", "signature": "", "evidence": { "manifest": empty, "receipts": [] } });
    std::fs::write(&path, file.to_string()).expect("the folder is writable");
    let (code, message) = run(&folder, &["certificate", &name]).expect_err("its signature is no signature");
    assert!(code == 3 && message.contains("does not hold"), "{message}");

    std::fs::write(folder.config(), "server = 1").expect("the folder is writable");
    let (code, message) = run(&folder, &["certificate", &name]).expect_err("the configuration is no configuration");
    assert!(code == 1 && message.contains("config.toml"), "{message}");
    let key = hex::encode(server_key().verifying_key().to_bytes());
    let (code, _) = run(&folder, &["certificate", &name, "--server-key", &key]).expect_err("no signature");
    assert_eq!(code, 3, "a named key needs no configuration");
    std::fs::remove_file(folder.config()).expect("the folder is writable");
    let (code, _) = run(&folder, &["certificate", &name]).expect_err("no signature");
    assert_eq!(code, 3, "without a site the key of the file counts");
}

#[test]
fn damaged_ledger_fails_verification_with_code_3() {
    let (_dir, folder) = site();
    assert!(run(&folder, &["ledger", "verify"]).expect("an empty ledger holds").contains("0 receipts"));
    let store = Store::create(&folder.ledger()).expect("it is there");
    let row = "INSERT INTO receipt (sequence, payload, signature, digest) VALUES (1, '{}', '', '')";
    store
        .write_in_test(|tx| tx.execute(row, []).map(|_| ()).map_err(|error| StoreError::Row(error.to_string())))
        .expect("the file is locked");
    assert!(matches!(run(&folder, &["ledger", "verify"]), Err((3, _))));
}

#[test]
fn ledger_that_lacks_the_anchored_receipt_fails_verification() {
    let (_dir, folder) = site();
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let path = elsewhere.path().join("anchor");
    let config = Config { anchor: Some(path.clone()), ..Config::load(&folder).expect("it was stored") };
    config.store(&folder).expect("the folder is writable");
    let (code, message) = run(&folder, &["ledger", "verify"]).expect_err("it was not begun");
    assert!(code == 3 && message.contains("ledger anchor begin"), "{message}");
    run(&folder, &["ledger", "anchor", "begin"]).expect("there is none");
    let report = run(&folder, &["ledger", "verify"]).expect("it agrees");
    assert!(report.contains("agrees: it holds receipt 0"), "{report}");
    let text = std::fs::read_to_string(&path).expect("it was written");
    std::fs::write(&path, text.replace("\"receipts\":0", "\"receipts\":2")).expect("it is ours");
    let (code, message) = run(&folder, &["ledger", "verify"]).expect_err("it is an older copy");
    assert!(code == 3 && message.contains("older copy"), "{message}");
}

#[test]
fn policy_show_prints_the_interpreted_policy() {
    let (_dir, folder) = site();
    let table = run(&folder, &["policy", "show"]).expect("it is a policy");
    assert!(table.contains("(any other)") && table.contains("steward") && table.contains("8/1e-6"), "{table}");
    std::fs::write(folder.policy(), "nonsense").expect("the folder is writable");
    let (_, message) = run(&folder, &["policy", "show"]).expect_err("it is none");
    assert!(message.contains("nothing may run") && message.contains("because"), "{message}");
}

#[test]
fn policy_show_prints_every_key() {
    let (_dir, folder) = site();
    let table = run(&folder, &["policy", "show"]).expect("it is a policy");
    let row = |table: &str, key: &str| {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(key));
        line.unwrap_or_else(|| panic!("{key} is not in {table}")).to_owned()
    };
    assert!(row(&table, "jobs.most_cost_per_job").contains("no limit"), "{table}");
    let lines = "kinds = [\"dp_sgd\", \"transcription\"]\nmost_cost_per_job = { USD = \"50\" }";
    let text = TEMPLATE
        .replacen("kinds = [\"dp_sgd\"]", lines, 1)
        .replacen("least_colluding = 1", "least_colluding = 7", 1)
        .replacen("voices_may_leave = false", "voices_may_leave = true", 1)
        + "\n[budget.record]\nepsilon = 4.0\ndelta = 1e-7\n\n[budget.user]\nepsilon = 3.0\ndelta = 1e-7\n\n[budget.words]\nepsilon = 2.0\ndelta = 1e-8\n\n\
           [datasets.ward]\nvisibility = \"open\"\napproval = \"manual\"\n";
    std::fs::write(folder.policy(), text).expect("the folder is writable");
    let table = run(&folder, &["policy", "show"]).expect("it is a policy");
    let policy = Policy::load(&folder.policy()).expect("it was just written");
    let whole = serde_json::to_value(&policy).expect("it has a JSON form");
    let keys = |table: &serde_json::Value| -> Vec<String> {
        table.as_object().expect("it is a table").keys().cloned().collect()
    };
    assert_eq!(keys(&whole["jobs"]).len(), 13, "one more: show it, and count it here");
    for key in keys(&whole["jobs"]) {
        row(&table, &format!("jobs.{key}"));
    }
    for (key, value) in [
        ("jobs.kinds", "dp_sgd, transcription"),
        ("jobs.least_colluding", "7"),
        ("jobs.voices_may_leave", "yes"),
        ("jobs.most_epsilon_automatic", "4"),
        ("jobs.most_cost_per_job", "USD 50.0000"),
        ("transcription.sensitive.languages", "en"),
    ] {
        assert!(row(&table, key).contains(value), "{key}: {table}");
    }
    let head = table.lines().find(|line| line.starts_with("DATASET")).expect("there are datasets");
    assert_eq!(keys(&whole["budget"]), ["record", "speaker", "user", "words"]);
    for column in keys(&whole["budget"]).into_iter().chain(keys(&whole["datasets"]["ward"])) {
        assert!(column == "budget" || head.contains(&column.to_uppercase()), "{column} is not in {head}");
    }
    assert!(table.contains("2/1e-8"), "{table}");
}

/// Writes a row of the site's database, as a process of this site would.
fn write(store: &Store, sql: &str) {
    store
        .write_in_test(|tx| tx.execute_batch(sql).map_err(|error| StoreError::Row(error.to_string())))
        .expect("the database is open");
}

#[test]
fn open_alarm_is_shown_until_it_is_cleared() {
    let (_dir, folder) = site();
    assert!(run(&folder, &["ledger", "alarm", "show"]).expect("there is none").contains("never"));
    let (_, message) = run(&folder, &["ledger", "alarm", "clear", "--reason", "x"]).expect_err("there is none");
    assert!(message.contains("no alarm"), "{message}");
    let store = Store::create(&folder.ledger()).expect("the folder is writable");
    write(&store, r#"INSERT INTO alarm (problem, evidence, at) VALUES ('its end is missing', '{"head": 7}', 'today')"#);
    let (code, message) = run(&folder, &["ledger", "verify"]).expect_err("it is open");
    assert!(
        code == 4 && message.contains("its end is missing") && message.contains("clear --reason"),
        "{code}: {message}"
    );
    assert!(run(&folder, &["ledger", "show"]).expect("it can be shown").contains("its end is missing"));
    let list = run(&folder, &["ledger", "alarm", "show"]).expect("it can be shown");
    assert!(list.contains("Open: nothing leaves") && list.contains("\"head\": 7"), "{list}");
    assert!(run(&folder, &["ledger", "alarm", "clear", "--reason", " "]).is_err(), "a reason is needed");
    run(&folder, &["ledger", "alarm", "clear", "--reason", "restored; the operator wrote"]).expect("it is open");
    let list = run(&folder, &["ledger", "alarm", "show"]).expect("it can be shown");
    assert!(list.contains("restored; the operator wrote") && !list.contains("Open"), "{list}");
    run(&folder, &["ledger", "verify"]).expect("nothing is wrong any more");
}

#[test]
fn export_writes_a_new_file_that_verifies() {
    let (dir, folder) = site();
    let file = dir.path().join("evidence.json");
    let name = file.display().to_string();
    run(&folder, &["ledger", "export", &name]).expect("the folder is writable");
    let text = std::fs::read_to_string(&file).expect("it is there");
    let export: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(export["site_key"], SiteKey::load(&folder.key()).expect("it is there").public_hex());
    assert!(run(&folder, &["ledger", "export", &name]).is_err(), "nothing is overwritten");
    // Verification needs no site.
    let elsewhere = Folder::new(dir.path().join("none"));
    let server = hex::encode(server_key().verifying_key().as_bytes());
    let report = run(&elsewhere, &["ledger", "verify", "--file", &name, "--server-key", &server]).expect("it holds");
    assert!(
        report.contains("0 receipts") && report.contains(&format!("{server}, as given in the command")),
        "{report}"
    );
    let failure = run(&elsewhere, &["ledger", "verify", "--file", &name, "--site-key", &server]);
    assert!(matches!(failure, Err((3, _))), "it is another site's: {failure:?}");
}

#[test]
fn unsealed_backup_requires_the_option() {
    let (_dir, folder) = site();
    let outside = tempfile::tempdir().expect("a temporary folder");
    let file = outside.path().join("site.backup");
    let path = file.to_string_lossy().into_owned();
    let (_, message) = run(&folder, &["backup", &path]).expect_err("neither a passphrase nor --unsealed");
    assert!(message.contains("--unsealed") && message.contains("nothing was written"), "{message}");
    assert!(!file.exists());
    let report = run(&folder, &["backup", &path, "--unsealed"]).expect("it was asked for");
    assert!(report.contains("KEY is in it in plain text"), "{report}");
    let secret = outside.path().join("passphrase");
    std::fs::write(&secret, "a passphrase of a test\n").expect("written");
    let sealed = outside.path().join("sealed.backup").to_string_lossy().into_owned();
    let secret = secret.to_string_lossy().into_owned();
    let report = run(&folder, &["backup", &sealed, "--passphrase-file", &secret]).expect("sealed");
    assert!(report.contains("It is sealed."), "{report}");
    let both = ["undertone-worker", "backup", "x", "--unsealed", "--passphrase-file", &secret];
    assert!(CommandLine::try_parse_from(both).is_err(), "one of the two");
}
