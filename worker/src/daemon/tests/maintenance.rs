//! An older copy of the ledger, and a key that is due for a change.

use tokio_util::sync::CancellationToken;
use undertone_api::dataset::Visibility;
use undertone_api::signed::Signed;
use undertone_privacy::Event;

use super::TestSite;
use crate::daemon::DaemonError;
use crate::daemon::maintenance::{change_key, compare_ledgers};
use crate::fixture::{gaussian, ledger_at, limit, release_context, stored_release};
use crate::gateway::fake::start;
use crate::site::books;
use crate::site::folder::Folder;
use crate::site::keys::SiteKey;
use crate::site::ledger::LedgerError;
use crate::site::policy::TEMPLATE;
use crate::site::store::Store;
use crate::site::witness::alarm;

/// Returns receipts that this site signed while another copy of its ledger was in use: results in the clear in these
/// rounds.
fn receipts_of_another_copy(place: &TestSite, rounds: std::ops::Range<u32>) -> Vec<Signed> {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let copy = Folder::new(dir.path());
    std::fs::copy(place.folder().key(), copy.key()).expect("the folder is writable");
    let ledger = ledger_at(&copy);
    for round in rounds {
        ledger
            .publish(
                &release_context(gaussian(4.0), 1),
                Visibility::Open,
                &Event::NonPrivate,
                &stored_release(&release_context(gaussian(4.0), 1), "open", round),
            )
            .expect("open");
    }
    Store::create(&copy.ledger()).expect("it is there").read(books::receipts).expect("it is open")
}

#[tokio::test]
async fn older_copy_of_the_ledger_is_completed_before_any_offer() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    server.state.lock().expect("no test panicked").signed = receipts_of_another_copy(&place, 1..511);
    let site = place.open();
    compare_ledgers(&site).await.expect("the server answers, in two pages");
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 510);
    compare_ledgers(&site).await.expect("the server answers");
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 510, "once");
    assert!(site.store.read(alarm::open).expect("it is open").is_none());
}

fn cause(error: &DaemonError) -> String {
    std::error::Error::source(error).map(ToString::to_string).unwrap_or_default()
}

#[tokio::test]
async fn repeated_receipts_are_refused_at_their_first_page() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    {
        let mut state = server.state.lock().expect("no test panicked");
        (state.signed, state.repeats) = (receipts_of_another_copy(&place, 1..4), true);
    }
    let site = place.open();
    let error = cause(&compare_ledgers(&site).await.expect_err("five hundred copies of one receipt"));
    assert!(error.contains("receipt 1 "), "{error}");
    assert_eq!(server.state.lock().expect("no test panicked").receipt_pages, 1, "no page is collected after it");
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 0, "nothing is imported");
    let open = site.store.read(alarm::open).expect("it is open").expect("the steward learns of it");
    let shown: serde_json::Value = serde_json::from_str(&open.evidence).expect("JSON");
    assert_eq!(shown["shown"].as_array().map(Vec::len), Some(2), "up to the contradiction");
}

#[tokio::test]
async fn contradiction_beyond_the_first_page_is_in_the_evidence() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let mut receipts = receipts_of_another_copy(&place, 1..9);
    receipts.remove(6);
    {
        let mut state = server.state.lock().expect("no test panicked");
        (state.signed, state.receipts_at_once) = (receipts.clone(), Some(5));
    }
    let site = place.open();
    let error = cause(&compare_ledgers(&site).await.expect_err("receipt 7 is missing"));
    assert!(error.contains("receipt 8 "), "{error}");
    let open = site.store.read(alarm::open).expect("it is open").expect("it was raised");
    assert!(open.evidence.contains(&receipts[5].signature) && !open.evidence.contains(&receipts[0].signature));
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 0, "all or nothing");
}

#[tokio::test]
async fn site_with_a_budget_for_words_only_imports_its_receipts() {
    let server = start(false).await;
    let policy = TEMPLATE.replacen("\n[budget.speaker]\n", "\n[budget.words]\n", 1);
    let budgets: Vec<_> = policy.lines().filter(|line| line.starts_with("[budget.")).collect();
    assert_eq!(budgets, ["[budget.words]"], "the template has changed");
    let place = TestSite::new(&server, &policy);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let copy = Folder::new(dir.path());
    std::fs::copy(place.folder().key(), copy.key()).expect("the folder is writable");
    let ledger = ledger_at(&copy);
    let mut part = release_context(gaussian(4.0), 1);
    part.charge.unit = undertone_privacy::PrivacyUnit::Words;
    ledger.reserve(&part, &limit(8.0)).expect("there is room");
    let _ = ledger.commit(&part, &part.charge.event, &stored_release(&part, "words", 1)).expect("it is reserved");
    let receipts = Store::create(&copy.ledger()).expect("it is there").read(books::receipts).expect("it is open");
    server.state.lock().expect("no test panicked").signed = receipts;
    let site = place.open();
    compare_ledgers(&site).await.expect("the server answers");
    assert!(site.store.read(alarm::open).expect("it is open").is_none(), "a budget for words is a budget");
    assert_eq!(site.ledger.books().expect("it is open").receipts.sequence, 1);
}

#[tokio::test]
async fn contradicting_receipts_raise_an_alarm() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    server.state.lock().expect("no test panicked").signed = receipts_of_another_copy(&place, 1..4);
    let site = place.open();
    let release = |round| {
        site.ledger.publish(
            &release_context(gaussian(4.0), 1),
            Visibility::Open,
            &Event::NonPrivate,
            &stored_release(&release_context(gaussian(4.0), 1), "open", round),
        )
    };
    release(9).expect("the ledgers are not compared yet");
    compare_ledgers(&site).await.expect("the server answers");
    let open = site.store.read(alarm::open).expect("it is open").expect("it was raised");
    assert!(open.problem.contains("forked") && open.evidence.contains("payload"), "{}", open.problem);
    assert!(matches!(release(10), Err(LedgerError::Alarm { .. })));
    compare_ledgers(&site).await.expect("the server answers");
    assert_eq!(site.store.read(alarm::all).expect("it is open").len(), 1, "one alarm is enough");
}

#[tokio::test]
async fn comparison_fails_without_an_answer_of_the_server() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    server.state.lock().expect("no test panicked").outage = 1;
    assert!(compare_ledgers(&place.open()).await.is_err());
}

#[tokio::test]
async fn due_key_is_replaced_when_no_job_runs() {
    let server = start(false).await;
    let mut place = TestSite::new(&server, TEMPLATE);
    let folder = place.folder();
    let stop = CancellationToken::new();
    let public = || SiteKey::load(&folder.key()).expect("there is one").public_hex();
    let rotations = || server.state.lock().expect("no test panicked").rotations;
    let old = public();
    place.config.rotate_key_days = 30;
    change_key(&folder, &place.config, true, &stop).await.expect("there is nothing to do");
    assert_eq!(rotations(), 0, "it is young");

    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    let file = std::fs::File::options().write(true).open(folder.key()).expect("it is ours");
    file.set_modified(long_ago).expect("it is ours");
    let store = Store::create(&folder.ledger()).expect("it is there");
    crate::site::jobs::record_start(&store, crate::fixture::JOB, crate::fixture::OURS, "lease").expect("it is new");
    change_key(&folder, &place.config, true, &stop).await.expect("a job runs");
    assert_eq!((rotations(), public()), (0, old.clone()));
    let reason = "it was cancelled".to_owned();
    let outcome = crate::site::jobs::RunOutcome::GaveUp { reason };
    crate::site::jobs::record_outcome(&store, crate::fixture::JOB, crate::fixture::OURS, &outcome).expect("it runs");
    crate::site::jobs::acknowledge_outcome(&store, crate::fixture::JOB, crate::fixture::OURS).expect("it has ended");
    change_key(&folder, &place.config, true, &stop).await.expect("the server takes it");
    assert_eq!(rotations(), 1);
    assert_ne!(public(), old);
    change_key(&folder, &place.config, true, &stop).await.expect("there is nothing to do");
    assert_eq!(rotations(), 1, "the next has its own time");
}

#[tokio::test]
async fn key_that_the_server_refuses_is_discarded() {
    let server = start(false).await;
    let place = TestSite::new(&server, TEMPLATE);
    let folder = place.folder();
    let stop = CancellationToken::new();
    let old = SiteKey::load(&folder.key()).expect("there is one").public_hex();
    server.state.lock().expect("no test panicked").public_key = "00".repeat(32);
    let store = Store::create(&folder.ledger()).expect("it is there");
    crate::site::rotation::prepare(&folder, &store, place.config.worker, (crate::fixture::clock())()).expect("idle");
    assert!(!change_key(&folder, &place.config, false, &stop).await.expect("it refuses"));
    assert_eq!(SiteKey::load(&folder.key()).expect("there is one").public_hex(), old);
    assert!(!folder.next_key().exists() && !folder.key_change().exists());
}
