//! The same data under another name, as another kind of dataset, or at another worker share one lifetime budget.

use std::fs;
use std::path::Path;

use undertone_api::id::{JobId, LineageId};
use uuid::Uuid;

use super::data;
use crate::fixture::{ledger_at, limit, release_context, sampled_gaussian};
use crate::site::datasets::{UnusableFolder, dataset_lineages, scan};
use crate::site::folder::Folder;
use crate::site::ledger::ReleaseContext;
use crate::site::lineage::{export, import, summarize};
use crate::site::policy::{Policy, TEMPLATE};
use crate::site::store::Store;
use crate::speech::transcribe::wav;

const NOW: time::OffsetDateTime = time::OffsetDateTime::UNIX_EPOCH;

/// Returns half a second of sound that is unique to the id.
fn sound(id: &str) -> Vec<u8> {
    let seed = id.bytes().fold(7_u32, |seed, byte| seed.wrapping_mul(31).wrapping_add(u32::from(byte)));
    let pitch = 0.05 + (seed % 1_000) as f32 / 2_000.0;
    wav::write(&(0..8_000).map(|i| (pitch * i as f32).sin() * 0.5).collect::<Vec<_>>())
}

/// Adds a recording to `corpus`, with labels for it.
fn add_recording(dir: &Path, corpus: &str, speaker: &str, id: &str) {
    let folder = dir.join(corpus).join("all").join(speaker).join("1");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(format!("{id}.wav")), sound(id)).unwrap();
    let labels = dir.join("labels.jsonl");
    let text = fs::read_to_string(&labels).unwrap_or_default();
    if !text.contains(&format!("{id:?}")) {
        let line = serde_json::json!({ "u": id, "frames": 50, "runs": [[0, 20], [1, 30]] });
        fs::write(&labels, format!("{text}{line}\n")).unwrap();
    }
}

/// Adds two utterances of each of these speakers.
fn add_corpus(dir: &Path, name: &str, speakers: &[&str]) {
    for speaker in speakers {
        for number in 0..2 {
            add_recording(dir, name, speaker, &format!("{speaker}-{number}"));
        }
    }
}

fn prepare(dir: &Path, corpus: &str, name: &str, more: &str) -> Result<String, String> {
    data(dir, &format!("prepare --input {{}}/{corpus} --alignments {{}}/labels.jsonl --classes 2 --name {name} {more}"))
}

fn folder(dir: &Path) -> Folder {
    Folder::new(dir.join("site"))
}

fn store(dir: &Path) -> Store {
    Store::create(&folder(dir).ledger()).unwrap()
}

fn lineage(dir: &Path, name: &str) -> LineageId {
    let lineages = dataset_lineages(&store(dir)).unwrap();
    lineages.iter().find(|(_, known)| known == name).unwrap_or_else(|| panic!("{name}: {lineages:?}")).0
}

/// Returns the names of the usable datasets under `data/`, and the unusable ones.
fn scan_datasets(dir: &Path) -> (Vec<String>, Vec<UnusableFolder>) {
    let policy = Policy::load_or_template(&folder(dir).policy()).unwrap();
    let (datasets, unusable) = scan(&folder(dir), &store(dir), &policy).unwrap();
    (datasets.into_iter().map(|local| local.name).collect(), unusable)
}

#[test]
fn same_recordings_need_a_declared_continuation() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "corpus", &["anna", "ben"]);
    let report = prepare(dir, "corpus", "ward", "").unwrap();
    assert!(report.contains("Organization key  created here"), "{report}");
    let message = prepare(dir, "corpus", "other", "").unwrap_err();
    assert!(message.contains("4 recordings and 2 speakers or users") && message.contains("`ward`"), "{message}");
    assert!(message.contains("--continues ward") && !dir.join("site/data/other").exists(), "{message}");
    // A part of them, under other names of files and speakers, is recognized.
    let renamed = dir.join("renamed/all/x/1");
    fs::create_dir_all(&renamed).unwrap();
    fs::copy(dir.join("corpus/all/ben/1/ben-1.wav"), renamed.join("anna-0.wav")).unwrap();
    let message = prepare(dir, "renamed", "other", "").unwrap_err();
    assert!(message.contains("1 recording of these data"), "{message}");
    let report = prepare(dir, "corpus", "other", "--continues ward").unwrap();
    assert!(!report.contains("Organization key"), "{report}");
    assert_eq!(lineage(dir, "other"), lineage(dir, "ward"));
    // Both can be replaced, with the same or other data.
    prepare(dir, "corpus", "ward", "--replace").unwrap();
    add_corpus(dir, "later", &["anna", "cleo"]);
    prepare(dir, "later", "other", "--replace").unwrap();
    assert_eq!(lineage(dir, "other"), lineage(dir, "ward"));
    let message = prepare(dir, "later", "third", "").unwrap_err();
    assert!(message.contains("--continues ward"), "what was added under another name is recognized too: {message}");
    assert_eq!(scan_datasets(dir).0, ["other", "ward"]);
}

#[test]
fn continuation_never_splits_or_joins_lineages() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "one", &["anna"]);
    add_corpus(dir, "two", &["ben"]);
    add_corpus(dir, "both", &["anna", "ben"]);
    prepare(dir, "one", "ward-1", "").unwrap();
    prepare(dir, "two", "ward-2", "").unwrap();
    assert_ne!(lineage(dir, "ward-1"), lineage(dir, "ward-2"));
    assert!(prepare(dir, "one", "x", "--continues none").unwrap_err().contains("--continues none"));
    let message = prepare(dir, "two", "ward-2", "--replace --continues ward-1").unwrap_err();
    assert!(message.contains("never leaves its lineage"), "{message}");
    let message = prepare(dir, "both", "x", "--continues ward-1").unwrap_err();
    let has_texts = ["`ward-1`", "`ward-2`", "cannot be joined"].iter().all(|text| message.contains(text));
    assert!(has_texts, "{message}");
    assert!(prepare(dir, "both", "x", "").unwrap_err().contains("cannot be joined"));
    // They cannot be joined in a dataset that already has accounts.
    let message = prepare(dir, "both", "ward-2", "--replace").unwrap_err();
    assert!(message.contains("`ward-1`") && message.contains("accounts of its own"), "{message}");
    let dataset = crate::speech::dataset::Dataset::open(&dir.join("site/data/ward-2")).unwrap();
    assert_eq!(dataset.len(), 2, "what was there is there");
}

#[test]
fn same_sound_is_recognized_as_recordings_and_as_speech() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "corpus", &["anna", "ben"]);
    prepare(dir, "corpus", "ward", "").unwrap();
    fs::create_dir(dir.join("in")).unwrap();
    // Another file of the same sound: a chunk of notes between header and samples.
    let wav = sound("anna-0");
    let notes = b"LIST\x04\0\0\0INFO";
    let size = u32::from_le_bytes([wav[4], wav[5], wav[6], wav[7]]) + notes.len() as u32;
    let longer = [&wav[..4], &size.to_le_bytes(), &wav[8..36], notes, &wav[36..]].concat();
    fs::write(dir.join("in/visit.wav"), longer).unwrap();
    let message = data(dir, "add-recordings --input {}/in --name visits").unwrap_err();
    assert!(message.contains("1 recording of these data") && message.contains("--continues ward"), "{message}");
    assert!(!dir.join("site/data/visits").exists());
    data(dir, "add-recordings --input {}/in --name visits --continues ward").unwrap();
    assert_eq!(lineage(dir, "visits"), lineage(dir, "ward"));
    // The reverse direction.
    fs::write(dir.join("in/visit.wav"), sound("cleo-0")).unwrap();
    data(dir, "add-recordings --input {}/in --name letters").unwrap();
    add_corpus(dir, "more", &["cleo"]);
    let message = prepare(dir, "more", "talks", "").unwrap_err();
    assert!(message.contains("1 recording of these data") && message.contains("`letters`"), "{message}");
}

#[test]
fn replaced_and_removed_data_stay_recognized() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    fs::create_dir(dir.join("in")).unwrap();
    for id in ["a", "b"] {
        fs::write(dir.join("in/x.wav"), sound(id)).unwrap();
        data(dir, "add-recordings --input {}/in --name ward --replace").unwrap();
    }
    fs::remove_dir_all(dir.join("site/data/ward")).unwrap();
    for id in ["a", "b"] {
        fs::write(dir.join("in/x.wav"), sound(id)).unwrap();
        let message = data(dir, "add-recordings --input {}/in --name other").unwrap_err();
        assert!(message.contains("`ward`"), "{message}");
    }
    data(dir, "add-recordings --input {}/in --name ward").unwrap();
}

#[test]
fn speaker_with_other_recordings_is_recognized_by_id() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "one", &["anna", "ben"]);
    add_recording(dir, "two", "ben", "ben-7");
    add_recording(dir, "two", "cleo", "cleo-7");
    prepare(dir, "one", "ward", "").unwrap();
    let message = prepare(dir, "two", "other", "").unwrap_err();
    assert!(message.contains("1 speaker or user of these data") && message.contains("ids of their own"), "{message}");
    prepare(dir, "two", "other", "--continues ward").unwrap();
    assert_eq!(lineage(dir, "other"), lineage(dir, "ward"));
}

/// Writes a log of queries of these users, whose texts begin with `word`.
fn log(dir: &Path, name: &str, word: &str, users: std::ops::Range<u32>) {
    let rows = users.flat_map(|user| (0..3).map(move |n| (user, n)));
    let text: String = std::iter::once("text,patient\n".to_owned())
        .chain(rows.map(|(user, n)| format!("{word} {user} {n},P{user}\n")))
        .collect();
    fs::write(dir.join(name), text).unwrap();
}

#[test]
fn query_logs_are_recognized_by_users_and_by_passages() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    log(dir, "march.csv", "march", 0..40);
    log(dir, "april.csv", "april", 39..80);
    let prepare =
        |log: &str, name: &str, more: &str| data(dir, &format!("prepare --queries {{}}/{log} --name {name} {more}"));
    prepare("march.csv", "march", "--user-column patient").unwrap();
    let message = prepare("april.csv", "april", "--user-column patient").unwrap_err();
    assert!(message.contains("1 speaker or user of these data") && message.contains("--continues march"), "{message}");
    // Without the column nothing shows that the users are the same; the rows differ.
    prepare("april.csv", "texts", "").unwrap();
    // An excerpt of the same rows, with another spelling and without its column.
    let text = fs::read_to_string(dir.join("march.csv")).unwrap();
    let lines: Vec<&str> = text.lines().take(1).chain(text.lines().skip(20).take(30)).collect();
    let excerpt = lines.join("\n") + "\n";
    fs::write(dir.join("excerpt.csv"), excerpt.replace("march", "MARCH")).unwrap();
    let message = prepare("excerpt.csv", "excerpt", "--case keep").unwrap_err();
    assert!(message.contains("23 passages of rows") && message.contains("`march`"), "{message}");
    // Rows that were read are not read again.
    let report = prepare("excerpt.csv", "excerpt", "--case keep --continues march").unwrap();
    assert_eq!(lineage(dir, "excerpt"), lineage(dir, "march"));
    assert!(dir.join("site/data/excerpt/lineage.json").exists(), "{report}");
}

#[test]
fn private_data_under_another_name_stay_private() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "corpus", &["anna"]);
    prepare(dir, "corpus", "ward", "").unwrap();
    let message = prepare(dir, "corpus", "commons", "--visibility public").unwrap_err();
    assert!(message.contains("`ward`") && message.contains("not public"), "{message}");
    let message = prepare(dir, "corpus", "shared", "--visibility open --continues ward").unwrap_err();
    assert!(message.contains("`ward`") && message.contains("private"), "{message}");
    // Public data have no account to evade.
    add_corpus(dir, "published", &["zoe"]);
    prepare(dir, "published", "readings", "--visibility public").unwrap();
    prepare(dir, "published", "copy", "--visibility public").unwrap();
    prepare(dir, "published", "private-copy", "").unwrap();
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for item in fs::read_dir(from).unwrap().flatten() {
        if item.path().is_dir() {
            copy_folder(&item.path(), &to.join(item.file_name()));
        } else {
            fs::copy(item.path(), to.join(item.file_name())).unwrap();
        }
    }
}

#[test]
fn copied_folder_keeps_its_lineage_or_is_unusable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "corpus", &["anna"]);
    prepare(dir, "corpus", "ward", "").unwrap();
    copy_folder(&dir.join("site/data/ward"), &dir.join("site/data/copy"));
    copy_folder(&dir.join("site/data/ward"), &dir.join("site/data/stripped"));
    fs::remove_file(dir.join("site/data/stripped/lineage.json")).unwrap();
    let (datasets, unusable) = scan_datasets(dir);
    assert_eq!(datasets, ["copy", "ward"]);
    assert_eq!(lineage(dir, "copy"), lineage(dir, "ward"));
    let text: Vec<String> = unusable.iter().map(|bad| format!("{}: {}", bad.name, bad.error)).collect();
    assert!(text.len() == 1 && text[0].starts_with("stripped: ") && text[0].contains("whole dataset"), "{text:?}");
    // A folder of one lineage replaces one of another.
    add_corpus(dir, "two", &["ben"]);
    prepare(dir, "two", "other", "").unwrap();
    fs::remove_dir_all(dir.join("site/data/other")).unwrap();
    fs::remove_dir_all(dir.join("site/data/stripped")).unwrap();
    fs::rename(dir.join("site/data/copy"), dir.join("site/data/other")).unwrap();
    let (datasets, unusable) = scan_datasets(dir);
    assert_eq!(datasets, ["ward"]);
    assert!(unusable[0].error.to_string().contains("another name"), "{}", unusable[0].error);
}

#[test]
fn names_of_one_lineage_share_a_budget() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "corpus", &["anna"]);
    prepare(dir, "corpus", "ward", "").unwrap();
    prepare(dir, "corpus", "other", "--continues ward").unwrap();
    let folder = folder(dir);
    crate::site::keys::SiteKey::load_or_make(&folder.key()).unwrap();
    let ledger = ledger_at(&folder);
    let job = |number, name: &str| ReleaseContext {
        job: JobId(Uuid::from_u128(number)),
        lineage: lineage(dir, name),
        ..release_context(sampled_gaussian(0.125, 4.0), 12)
    };
    let small = limit(1.0);
    let mut jobs = 0;
    while ledger.reserve(&job(100 + jobs, "ward"), &small).is_ok() {
        jobs += 1;
        assert!(jobs < 1_000, "the limit holds at last");
    }
    assert!(jobs > 0);
    assert!(ledger.check(&job(1, "other"), &small).is_err(), "under the other name as well");
    // Before lineages, the second name had a separate account.
    let second = ReleaseContext { lineage: LineageId(Uuid::from_u128(77)), ..job(1, "other") };
    assert!(ledger.check(&second, &small).is_ok());
}

#[test]
fn tightest_limit_of_a_lineage_holds_under_every_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("policy.toml");
    let more = "\n[datasets.\"ward\"]\nbudget.speaker = { epsilon = 2.0, delta = 1e-7 }\n";
    fs::write(&path, format!("{TEMPLATE}{more}")).unwrap();
    let line = LineageId(Uuid::from_u128(1));
    let names =
        [(line, "ward".to_owned()), (line, "other".to_owned()), (LineageId(Uuid::from_u128(2)), "third".to_owned())];
    let policy = Policy::load(&path).unwrap().with_lineages(&names);
    let epsilon = |name: &str| policy.rules(name).limits.speaker.unwrap().epsilon.get().to_string();
    assert_eq!([epsilon("ward"), epsilon("other"), epsilon("third")], ["2", "2", "8"]);
    assert_eq!(policy.rules("other").limits.record, policy.rules("third").limits.record);
}

/// Makes an enrolled site, otherwise like the site of `prepare`.
fn enrolled_site(dir: &Path, worker: &str) -> Folder {
    let folder = folder(dir);
    folder.create().unwrap();
    let mut config = crate::fixture::config();
    config.worker_name = worker.to_owned();
    config.store(&folder).unwrap();
    crate::site::store::Store::create(&folder.ledger()).unwrap();
    fs::write(folder.policy(), TEMPLATE).unwrap();
    folder
}

fn secret(text: &str) -> age::secrecy::SecretString {
    age::secrecy::SecretString::from(text.to_owned())
}

#[test]
fn imported_lineages_are_recognized() {
    let north = tempfile::tempdir().unwrap();
    let east = tempfile::tempdir().unwrap();
    let one = enrolled_site(north.path(), "north");
    let other = enrolled_site(east.path(), "east");
    for dir in [north.path(), east.path()] {
        add_corpus(dir, "corpus", &["anna", "ben"]);
    }
    prepare(north.path(), "corpus", "ward", "").unwrap();
    add_corpus(north.path(), "published", &["zoe"]);
    prepare(north.path(), "published", "readings", "--visibility public").unwrap();
    let file = north.path().join("lineages");
    assert_eq!(export(&one, &file, secret("a long passphrase"), NOW).unwrap(), 1, "public data are not exported");
    assert!(export(&one, &file, secret("a long passphrase"), NOW).is_err(), "it is there already");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(import(&other, &file, secret("another passphrase"), NOW).is_err());
    let summary = import(&other, &file, secret("a long passphrase"), NOW).unwrap();
    assert_eq!((summary.lineages, summary.datasets, summary.keys), (1, 1, 1));
    let message = prepare(east.path(), "corpus", "calls", "").unwrap_err();
    assert!(message.contains("`ward` of the worker `north`") && message.contains("--continues ward"), "{message}");
    let report = prepare(east.path(), "corpus", "calls", "--continues ward").unwrap();
    assert!(!report.contains("created here"), "it has the organization's key: {report}");
    assert_eq!(lineage(east.path(), "calls"), lineage(north.path(), "ward"));
    // The export in the other direction contains the other site's additions.
    add_corpus(east.path(), "more", &["cleo"]);
    prepare(east.path(), "more", "calls", "--replace").unwrap();
    let back = east.path().join("lineages");
    export(&other, &back, secret("a long passphrase"), NOW).unwrap();
    let summary = import(&one, &back, secret("a long passphrase"), NOW).unwrap();
    assert_eq!((summary.keys, summary.shared.len()), (0, 0));
    add_corpus(north.path(), "more", &["cleo"]);
    let message = prepare(north.path(), "more", "third", "").unwrap_err();
    assert!(message.contains("--continues ward"), "{message}");
    // A file of another organization is rejected.
    let mut config = crate::fixture::config();
    config.organization = undertone_api::id::OrganizationId(Uuid::from_u128(99));
    config.store(&one).unwrap();
    let error = import(&one, &back, secret("a long passphrase"), NOW).unwrap_err();
    assert!(error.to_string().contains("another organization"), "{error}");
}

#[test]
fn lineages_under_different_keys_are_compared_later() {
    let north = tempfile::tempdir().unwrap();
    let east = tempfile::tempdir().unwrap();
    let one = enrolled_site(north.path(), "north");
    let other = enrolled_site(east.path(), "east");
    for dir in [north.path(), east.path()] {
        add_corpus(dir, "corpus", &["anna"]);
    }
    prepare(north.path(), "corpus", "ward", "").unwrap();
    // The data are not recognized: nothing was imported, and the keys differ.
    prepare(east.path(), "corpus", "calls", "").unwrap();
    let file = north.path().join("lineages");
    export(&one, &file, secret("a long passphrase"), NOW).unwrap();
    let summary = import(&other, &file, secret("a long passphrase"), NOW).unwrap();
    assert!(summary.shared.is_empty(), "under another key: {:?}", summary.shared);
    assert_eq!(summarize(&store(east.path())).unwrap().1.len(), 2);
    // A second preparation is compared under both keys and refused: each dataset already has accounts.
    let message = prepare(east.path(), "corpus", "calls", "--replace").unwrap_err();
    assert!(message.contains("`ward` of the worker `north`") && message.contains("accounts of its own"), "{message}");
}

#[test]
fn restored_site_recognizes_its_lineages() {
    use crate::site::restore::{backup, restore};
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let site = enrolled_site(dir, "north");
    crate::site::keys::SiteKey::load_or_make(&site.key()).unwrap();
    add_corpus(dir, "corpus", &["anna"]);
    prepare(dir, "corpus", "ward", "").unwrap();
    let file = dir.join("site.backup");
    backup(&site, &file, Some(secret("a long passphrase")), NOW).unwrap();
    // Another machine, without the data.
    let new = tempfile::tempdir().unwrap();
    restore(&folder(new.path()), &file, Some(secret("a long passphrase")), false, NOW).unwrap();
    add_corpus(new.path(), "corpus", &["anna"]);
    let message = prepare(new.path(), "corpus", "other", "").unwrap_err();
    assert!(message.contains("`ward`"), "{message}");
    prepare(new.path(), "corpus", "ward", "").unwrap();
    assert_eq!(lineage(new.path(), "ward"), lineage(dir, "ward"));
}

/// A site of a worker before lineages: no fingerprints, ids by lineage, digests of replaced recordings in a file.
#[test]
fn older_site_keeps_lineages_and_lists_unknown_sources() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "corpus", &["anna"]);
    prepare(dir, "corpus", "ward", "").unwrap();
    log(dir, "log.csv", "log", 0..20);
    data(dir, "prepare --queries {}/log.csv --name log").unwrap();
    fs::create_dir(dir.join("in")).unwrap();
    fs::write(dir.join("in/x.wav"), sound("x")).unwrap();
    data(dir, "add-recordings --input {}/in --name calls").unwrap();
    for name in ["ward", "log", "calls"] {
        fs::remove_file(dir.join("site/data").join(name).join("lineage.json")).unwrap();
    }
    let old = hex::encode(<sha2::Sha256 as sha2::Digest>::digest(sound("y")));
    fs::write(dir.join("site/data/calls/replaced"), format!("{old}\n")).unwrap();
    for file in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        drop(fs::remove_file(dir.join("site").join(file)));
    }
    let ids = crate::site::store::before_lineages(&folder(dir).ledger(), &["ward", "log", "calls"]);
    let (names, unusable) = scan_datasets(dir);
    assert!(unusable.is_empty(), "{unusable:?}");
    assert_eq!(names, ["calls", "log", "ward"]);
    let policy = Policy::load_or_template(&folder(dir).policy()).unwrap();
    let (locals, _) = scan(&folder(dir), &store(dir), &policy).unwrap();
    for local in &locals {
        let (_, line, id) = ids.iter().find(|(name, ..)| *name == local.name).unwrap();
        assert_eq!((local.lineage.0, local.id.map(|id| id.0)), (*line, Some(*id)), "{}", local.name);
    }
    let list = data(dir, "list").unwrap();
    assert!(list.contains("Unknown sources: log, ward."), "{list}");
    // Still recognized: speakers, current and replaced recordings, and the rows of a short log.
    assert!(prepare(dir, "corpus", "other", "").unwrap_err().contains("1 speaker or user of these data"));
    for id in ["x", "y"] {
        fs::write(dir.join("in/x.wav"), sound(id)).unwrap();
        assert!(data(dir, "add-recordings --input {}/in --name other").unwrap_err().contains("`calls`"));
    }
    assert!(data(dir, "prepare --queries {}/log.csv --name other").unwrap_err().contains("53 passages of rows"));
    // A second preparation makes their sources known.
    prepare(dir, "corpus", "ward", "--replace").unwrap();
    data(dir, "prepare --queries {}/log.csv --name log --replace").unwrap();
    assert!(!data(dir, "list").unwrap().contains("Unknown sources"));
}

#[test]
fn first_of_two_older_datasets_stays_usable() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    add_corpus(dir, "corpus", &["anna"]);
    for name in ["b-first", "a-second"] {
        let elsewhere = tempfile::tempdir().unwrap();
        add_corpus(elsewhere.path(), "corpus", &["anna"]);
        prepare(elsewhere.path(), "corpus", name, "").unwrap();
        let to = dir.join("site/data").join(name);
        copy_folder(&elsewhere.path().join("site/data").join(name), &to);
        fs::remove_file(to.join("lineage.json")).unwrap();
    }
    crate::site::store::before_lineages(&folder(dir).ledger(), &["b-first", "a-second"]);
    let (names, unusable) = scan_datasets(dir);
    assert_eq!(names, ["b-first"]);
    assert!(unusable[0].error.to_string().contains("accounts of its own"), "{}", unusable[0].error);
}

#[test]
fn public_speech_is_compared_by_fingerprints() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    enrolled_site(dir, "north");
    fs::create_dir(dir.join("in")).unwrap();
    fs::write(dir.join("in/x.wav"), sound("x")).unwrap();
    data(dir, "add-recordings --input {}/in --name ward").unwrap();
    let message = data(dir, "add-recordings --input {}/in --name readings --visibility public").unwrap_err();
    assert!(message.contains("`ward`"), "{message}");
    let open = |name: &str| crate::site::speech::open(&folder(dir), Some(name));
    fs::write(dir.join("in/x.wav"), sound("y")).unwrap();
    data(dir, "add-recordings --input {}/in --name readings --visibility public").unwrap();
    assert_eq!(open("readings").unwrap().meta().recordings.len(), 1);
    assert!(open("ward").is_err(), "it is private");
}
