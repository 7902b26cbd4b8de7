//! Each test is one contradiction of a malicious server, or a manipulated disk.

mod own_key;
mod restored;

use std::sync::Arc;

use ed25519_dalek::SigningKey;
use time::OffsetDateTime;
use undertone_api::job::Charge;
use undertone_api::log::witness::{MOST_RECEIPTS, WitnessAnswer, WitnessError};
use undertone_api::log::{LogLeaf, leaf};
use undertone_api::signed::{Receipt, Signed};

use super::evidence::{EvidenceError, verify};
use super::{ServerContradiction, WitnessVerdict, alarm, head, judge, question, record_countersignatures};
use crate::folder::Folder;
use crate::keys::SiteKey;
use crate::ledger::Ledger;
use crate::ledger::error::LedgerError;
use crate::ledger::release_context::ReleaseContext;
use crate::outbox::{acknowledge, receipts_to_send};
use crate::store::{Store, StoreError};
use crate::testing::log::{TestLog, countersign, entry, stranger};
use crate::testing::{JOB, LINEAGE, OURS, WORKER, charge, clock, gaussian, limit, server_key, stored_release};

const AT: OffsetDateTime = OffsetDateTime::UNIX_EPOCH;

/// A site with a reservation for many releases, and the server's log.
struct WitnessSite {
    store: Arc<Store>,
    ledger: Ledger,
    log: TestLog,
    round: u32,
    _dir: tempfile::TempDir,
}

fn release_context() -> ReleaseContext {
    let charge: Charge = charge(gaussian(40.0), 500);
    ReleaseContext { job: JOB, dataset: OURS, lineage: LINEAGE, manifest: "digest".to_owned(), charge }
}

impl WitnessSite {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let folder = Folder::new(dir.path());
        let key = SiteKey::load_or_make(&folder.key()).expect("the folder is writable");
        let store = Arc::new(Store::create(&folder.ledger()).expect("the folder is writable"));
        let lock = folder.lock().expect("nobody else writes");
        let ledger = Ledger::open(Arc::clone(&store), lock, key, WORKER, clock()).expect("the rows add up");
        ledger.reserve(&release_context(), &limit(8.0)).expect("there is room");
        let mut log = TestLog::default();
        log.push(stranger(1));
        Self { store, ledger, log, round: 0, _dir: dir }
    }

    /// Pays for a release; its receipt is not sent.
    fn pay(&mut self) -> Signed {
        self.round += 1;
        let payment = self
            .ledger
            .commit(
                &release_context(),
                &release_context().charge.event,
                &stored_release(&release_context(), "private", self.round),
            )
            .expect("it is reserved");
        payment.signed
    }

    /// Pays for a release that the server accepts; the server's answer is lost.
    fn release(&mut self) -> Signed {
        let receipt = self.pay();
        self.log.charge(&receipt);
        acknowledge(&self.store, &[u64::from(self.round)]).expect("it is open");
        receipt
    }

    /// Queries the unchanged log.
    fn ask(&self) -> WitnessVerdict {
        self.answer(|_| ())
    }

    /// Queries the log, and changes its answer.
    fn answer(&self, change: impl FnOnce(&mut WitnessAnswer)) -> WitnessVerdict {
        let question = question(&self.store).expect("it is open");
        let mut answer = self.log.answer(question.known.as_ref(), &question.numbers());
        change(&mut answer);
        judge(&self.store, &server_key().verifying_key(), &question, &answer, AT).expect("it is open")
    }

    fn is_quiet(&self) -> bool {
        let quiet = self.ledger.check_quiet().is_ok();
        assert_eq!(quiet, self.store.read(alarm::open).expect("it is open").is_none());
        quiet
    }

    fn verify(&self) -> Result<super::evidence::EvidenceSummary, EvidenceError> {
        self.store.read(|db| verify(db, &server_key().verifying_key()))
    }
}

fn contradicts(judged: WitnessVerdict) -> ServerContradiction {
    match judged {
        WitnessVerdict::Contradicts(contradiction) => contradiction,
        WitnessVerdict::Holds(receipts) => panic!("{receipts} receipts were proved by a liar"),
    }
}

#[test]
fn every_receipt_is_proved_once_and_every_head_is_kept() {
    let mut site = WitnessSite::new();
    for _ in 0..3 {
        site.release();
    }
    assert_eq!(site.ask(), WitnessVerdict::Holds(3));
    assert_eq!(question(&site.store).expect("it is open").numbers(), Vec::<u64>::new());
    site.log.push(stranger(2));
    site.release();
    assert_eq!(site.ask(), WitnessVerdict::Holds(1));
    let attested = site.verify().expect("it holds");
    assert_eq!((attested.heads, attested.countersigned, attested.proved), (2, 4, 4));
    assert_eq!((attested.open, attested.head.map(|head| head.size)), (Vec::new(), Some(6)));
    let (known, _) = head(&site.store).expect("it is open").expect("there is one");
    assert_eq!(known.size, site.log.size());
    // The same head again adds nothing.
    assert_eq!(site.ask(), WitnessVerdict::Holds(0));
    assert_eq!(site.verify().expect("it holds").heads, 2);
    assert!(site.is_quiet());
}

#[test]
fn receipt_in_transit_is_requested_again_without_an_alarm() {
    let mut site = WitnessSite::new();
    let receipt = site.pay();
    assert_eq!(site.ask(), WitnessVerdict::Holds(0));
    assert!(site.is_quiet());
    assert_eq!(site.verify().expect("it holds").open, [1]);
    // The receipt arrives, and this site crashes before it has recorded that.
    site.log.charge(&receipt);
    assert_eq!(question(&site.store).expect("it is open").numbers(), [1]);
    assert_eq!(site.ask(), WitnessVerdict::Holds(1));
    assert_eq!(receipts_to_send(&site.store, u64::MAX, None).expect("it is open"), [], "what is charged was sent");
}

#[test]
fn receipts_that_the_server_must_have_are_requested_first() {
    let mut site = WitnessSite::new();
    for _ in 0..=MOST_RECEIPTS {
        site.pay();
    }
    site.release();
    let numbers = question(&site.store).expect("it is open").numbers();
    assert_eq!((numbers.len(), numbers.last()), (MOST_RECEIPTS, Some(&(MOST_RECEIPTS as u64 + 2))));
    assert_eq!(numbers[0], 1);
}

#[test]
fn older_log_raises_an_alarm_with_both_heads() {
    let mut site = WitnessSite::new();
    site.release();
    site.ask();
    let older = site.log.clone();
    site.release();
    site.ask();
    let newer = site.log.head().expect("it is not empty");
    site.log = older.clone();
    assert_eq!(contradicts(site.ask()), WitnessError::Shorter { known: 3, now: 2 }.into());
    assert!(!site.is_quiet());
    let raised = site.store.read(alarm::open).expect("it is open").expect("it was raised");
    let evidence: serde_json::Value = serde_json::from_str(&raised.evidence).expect("it is JSON");
    let document = |signed: &Signed| serde_json::to_value(signed).expect("it has a JSON form");
    assert_eq!(evidence["known"], document(&newer));
    assert_eq!(evidence["head"], document(&older.head().expect("it is not empty")));
    assert!(raised.problem.contains("older copy"), "{}", raised.problem);
}

#[test]
fn empty_log_after_a_head_is_a_shorter_one() {
    let mut site = WitnessSite::new();
    site.ask();
    site.log = TestLog::default();
    assert_eq!(contradicts(site.ask()), WitnessError::Shorter { known: 1, now: 0 }.into());
}

#[test]
fn another_log_of_the_same_size_or_longer_is_a_fork() {
    for more in 0..3 {
        let mut site = WitnessSite::new();
        site.release();
        site.ask();
        site.log = site.log.with(0, stranger(99));
        for number in 0..more {
            site.log.push(stranger(number));
        }
        let (known, now) = (2, 2 + more as u64);
        assert_eq!(contradicts(site.ask()), WitnessError::Forked { known, now }.into());
        assert!(!site.is_quiet());
    }
}

#[test]
fn leaf_that_charges_something_else_raises_an_alarm() {
    type Change = fn(&mut leaf::EntryRecord);
    let changes: [Change; 8] = [
        |entry| entry.count = 0,
        |entry| "settle".clone_into(&mut entry.kind),
        |entry| entry.round = Some(7),
        |entry| entry.attempt = Some(2),
        |entry| entry.series = Some("open".to_owned()),
        |entry| entry.event = r#"{"kind":"gaussian","noise_multiplier":400.0}"#.to_owned(),
        |entry| entry.receipt = Some("00".repeat(32)),
        |entry| entry.job = uuid::Uuid::from_u128(77),
    ];
    for change in changes {
        let mut site = WitnessSite::new();
        let receipt = site.release();
        let document: Receipt = serde_json::from_str(&receipt.payload).expect("it is a receipt");
        let mut entry = entry(&document, &receipt.digest());
        change(&mut entry);
        site.log = site.log.with(1, LogLeaf::Entry(entry).content());
        assert_eq!(contradicts(site.ask()), WitnessError::Altered(1).into());
        assert!(!site.is_quiet());
    }
}

#[test]
fn accepted_receipt_that_is_gone_raises_an_alarm() {
    let mut site = WitnessSite::new();
    site.release();
    site.log.countersigned.clear();
    assert_eq!(contradicts(site.ask()), ServerContradiction::Lost(1));
    // The same holds for a countersigned receipt, even if this site never recorded its arrival.
    let mut site = WitnessSite::new();
    let receipt = site.pay();
    let countersignature = site.log.charge(&receipt);
    let key = server_key().verifying_key();
    assert_eq!(
        record_countersignatures(&site.store, &key, &[receipt], &[countersignature], AT).expect("it is open"),
        None
    );
    site.log.countersigned.clear();
    assert_eq!(contradicts(site.ask()), ServerContradiction::Lost(1));
}

#[test]
fn countersignature_of_something_else_raises_an_alarm() {
    let (mut site, key) = (WitnessSite::new(), server_key().verifying_key());
    let (receipt, other) = (site.pay(), site.pay());
    let document: Receipt = serde_json::from_str(&receipt.payload).expect("it is a receipt");
    let swapped = countersign(&document, &other.digest(), 1);
    let contradiction = record_countersignatures(&site.store, &key, std::slice::from_ref(&receipt), &[swapped], AT)
        .expect("it is open");
    assert_eq!(contradiction, Some(WitnessError::Swapped(1).into()));
    assert!(!site.is_quiet());

    let (mut site, strange) = (WitnessSite::new(), SigningKey::from_bytes(&[9; 32]));
    let receipt = site.pay();
    let mut forged = countersign(&document, &receipt.digest(), 1);
    forged.signature = Signed::new(&document, &strange).expect("it has a JSON form").signature;
    let contradiction = record_countersignatures(&site.store, &key, &[receipt], &[forged], AT).expect("it is open");
    assert!(
        matches!(contradiction, Some(ServerContradiction::Answer(WitnessError::Signed { .. }))),
        "{contradiction:?}"
    );
    assert!(!site.is_quiet());
}

#[test]
fn two_places_for_one_receipt_raise_an_alarm() {
    let (mut site, key) = (WitnessSite::new(), server_key().verifying_key());
    let receipt = site.release();
    let document: Receipt = serde_json::from_str(&receipt.payload).expect("it is a receipt");
    let elsewhere = countersign(&document, &receipt.digest(), 5);
    assert_eq!(
        record_countersignatures(&site.store, &key, std::slice::from_ref(&receipt), &[elsewhere], AT)
            .expect("it is open"),
        None
    );
    assert_eq!(contradicts(site.ask()), ServerContradiction::Twice(1));
    assert!(!site.is_quiet());
    assert_eq!(site.store.read(super::evidence::positions).expect("it is open"), [(1, 5)], "nothing was replaced");
}

#[test]
fn forged_or_corrupted_answer_proves_nothing() {
    type Change = fn(&mut WitnessAnswer);
    let changes: [Change; 5] = [
        |answer| {
            answer.head.iter_mut().for_each(|head| head.payload = head.payload.replace("\"size\":3", "\"size\":4"));
        },
        |answer| answer.receipts[0].countersignature.signature = "00".repeat(64),
        |answer| answer.receipts[0].inclusion[0][0] ^= 1,
        |answer| answer.receipts[0].position = 0,
        |answer| answer.receipts[0].leaf.push(' '),
    ];
    for change in changes {
        let mut site = WitnessSite::new();
        site.release();
        site.release();
        contradicts(site.answer(change));
        let attested = site.verify().expect("nothing of it was kept");
        assert_eq!((attested.heads, attested.proved), (0, 0));
    }
}

#[test]
fn while_an_alarm_is_open_nothing_is_reserved_paid_or_published() {
    let mut site = WitnessSite::new();
    site.release();
    site.log.countersigned.clear();
    contradicts(site.ask());
    let before = site.ledger.books().expect("it is open");
    let is_alarm = |answer: Result<(), LedgerError>| matches!(answer, Err(LedgerError::Alarm { id: 1, .. }));
    let event = release_context().charge.event;
    assert!(is_alarm(site.ledger.check(&release_context(), &limit(8.0))));
    assert!(is_alarm(site.ledger.reserve(&release_context(), &limit(8.0))));
    assert!(is_alarm(
        site.ledger.commit(&release_context(), &event, &stored_release(&release_context(), "private", 2)).map(|_| ())
    ));
    let open = undertone_api::dataset::Visibility::Open;
    let published = site.ledger.publish(
        &release_context(),
        open,
        &undertone_privacy::Event::NonPrivate,
        &stored_release(&release_context(), "open", 1),
    );
    assert!(is_alarm(published.map(|_| ())));
    assert_eq!(site.ledger.books().expect("it is open"), before);
    // Settling a job releases nothing.
    assert_eq!(site.ledger.settle(&release_context()).expect("it is reserved"), 499);
}

#[test]
fn cleared_alarm_resumes_releases_and_requires_new_proofs() {
    let mut site = WitnessSite::new();
    let first = site.release();
    site.ask();
    let older = site.log.clone();
    let second = site.release();
    site.ask();
    site.log = older;
    contradicts(site.ask());
    assert_eq!(
        alarm::clear(&site.store, "the server was restored from last night's backup", AT).expect("it is open"),
        1
    );
    assert!(site.is_quiet());
    assert_eq!(alarm::clear(&site.store, "again", AT).expect("it is open"), 0, "there is nothing to clear");

    // The first receipt is proved in the present log; the second is missing there and is sent again.
    assert_eq!(site.ask(), WitnessVerdict::Holds(1));
    let send = |site: &WitnessSite| {
        let all = receipts_to_send(&site.store, u64::MAX, None).expect("it is open");
        all.into_iter().map(|(_, signed)| signed).collect::<Vec<_>>()
    };
    assert_eq!(send(&site), std::slice::from_ref(&second));
    assert_ne!(first, second);
    let countersignature = site.log.charge(&second);
    let key = server_key().verifying_key();
    assert_eq!(
        record_countersignatures(&site.store, &key, &[second], &[countersignature], AT).expect("it is open"),
        None
    );
    assert_eq!(site.ask(), WitnessVerdict::Holds(1));
    assert_eq!(send(&site), []);
    let attested = site.verify().expect("both epochs hold");
    assert_eq!((attested.proved, attested.open.len(), attested.heads), (2, 0, 4));
    // The server must keep a receipt that it accepted again after the clearing.
    site.log.countersigned.remove(&2);
    site.release();
    assert_eq!(site.ask(), WitnessVerdict::Holds(1), "what is proved is not asked for again: the heads hold it");
}

#[test]
fn changed_stored_document_is_reported() {
    let changes = [
        ("head", "UPDATE head SET payload = replace(payload, '\"size\":4', '\"size\":5') WHERE size = 4", "head of 5"),
        ("head", "UPDATE head SET signature = '' WHERE size = 2", "head of 2"),
        ("head", "UPDATE head SET consistency = '' WHERE size = 4", "head of 4"),
        ("head", "DELETE FROM head WHERE size = 2", "proof of receipt 1"),
        (
            "countersignature",
            "UPDATE countersignature SET receipt = 9 WHERE receipt = 2",
            "countersignature of receipt 9",
        ),
        (
            "countersignature",
            "UPDATE countersignature SET signature = '' WHERE receipt = 3",
            "countersignature of receipt 3",
        ),
        (
            "proof",
            "UPDATE proof SET leaf = replace(leaf, '\"count\":1', '\"count\":0') WHERE receipt = 2",
            "proof of receipt 2",
        ),
        ("proof", "UPDATE proof SET inclusion = '' WHERE receipt = 3", "proof of receipt 3"),
        ("proof", "UPDATE proof SET head = 2 WHERE receipt = 3", "proof of receipt 3"),
    ];
    for (table, change, named) in changes {
        let mut site = WitnessSite::new();
        for _ in 0..3 {
            site.release();
            site.ask();
        }
        assert_eq!(site.verify().expect("it holds").proved, 3);
        // The owner of the file can drop its triggers.
        let sql = format!("DROP TRIGGER {table}_no_update; DROP TRIGGER {table}_no_delete; {change};");
        site.store
            .write(|tx| {
                tx.execute_batch(&sql).map_err(|error| StoreError::Row(error.to_string()))?;
                assert!(tx.changes() > 0 || change.starts_with("DELETE"), "{change}");
                Ok::<_, StoreError>(())
            })
            .expect(change);
        let message = site.verify().expect_err(change).to_string();
        assert!(message.contains(named), "{change}: {message}");
    }
}

#[test]
fn export_holds_everything_and_no_more() {
    let mut site = WitnessSite::new();
    site.release();
    site.ask();
    site.log.countersigned.clear();
    site.release();
    site.log.countersigned.clear();
    contradicts(site.ask());
    let text = site
        .store
        .read(|db| super::evidence::export(db, "site key", &server_key().verifying_key()))
        .expect("it is open");
    let export: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let count = |field: &str| export[field].as_array().map(Vec::len);
    assert_eq!(export["format"], "undertone/site-evidence/1");
    assert_eq!(count("rotations"), Some(0), "it has had one key");
    for (field, many) in [("receipts", 2), ("heads", 1), ("countersignatures", 1), ("proofs", 1), ("alarms", 1)] {
        assert_eq!(count(field), Some(many), "{field}");
    }
    assert_eq!(export["alarms"][0]["problem"], ServerContradiction::Lost(2).to_string());
    assert_eq!(export["receipts"][0]["signature"].as_str().map(str::len), Some(128));
}
