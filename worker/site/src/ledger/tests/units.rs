//! Each limit of a lineage bounds the releases of all jobs about its unit: jobs are charged to all limits, or refused.

use time::OffsetDateTime;
use undertone_api::budget::EntryKind;
use undertone_privacy::ledger::{LedgerError as RuleError, Refusal};
use undertone_privacy::transfer::event_at;
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::{LedgerSite, job, release_context, rule};
use crate::books::{AccountKey, CertificateCheck, ChainHead, LedgerBooks, LedgerEntry, UncoveredReleases};
use crate::ledger::error::LedgerError;
use crate::ledger::release_context::ReleaseContext;
use crate::ledger::verify;
use crate::ledger::{Ledger, insert_entry};
use crate::policy::UnitLimits;
use crate::testing::{LINEAGE, gaussian, limit, sampled_gaussian, stored_release};

/// Returns a job that protects `unit`.
fn protecting(number: u128, unit: PrivacyUnit, event: Event, releases: u64) -> ReleaseContext {
    let mut part = job(number, &release_context(event, releases));
    part.charge.unit = unit;
    part
}

/// Returns limits of the job's own unit and of others.
fn limits(own: f64, others: &[(PrivacyUnit, f64)]) -> UnitLimits {
    UnitLimits { own: limit(own), others: others.iter().map(|(unit, epsilon)| (*unit, limit(*epsilon))).collect() }
}

const fn key(unit: PrivacyUnit) -> AccountKey {
    AccountKey::new(LINEAGE, unit, Adjacency::ZeroOut)
}

fn spent(books: &LedgerBooks, unit: PrivacyUnit) -> f64 {
    books.accounts.get(&key(unit)).map_or(0.0, |book| book.account.epsilon_spent())
}

fn open(books: &LedgerBooks, unit: PrivacyUnit) -> bool {
    books.accounts.get(&key(unit)).is_some_and(|book| !book.account.balance().reserved().is_zero())
}

fn pay(ledger: &Ledger, part: &ReleaseContext, round: u32) {
    drop(ledger.commit(part, &part.charge.event, &stored_release(part, "private", round)).expect("it is reserved"));
}

#[test]
fn speaker_job_is_charged_to_speaker_and_record_limits() {
    use PrivacyUnit::{Record, Speaker};
    let site = LedgerSite::new();
    let ledger = site.open();
    let part = protecting(40, Speaker, sampled_gaussian(0.1, 2.0), 3);
    ledger.reserve(&part, limits(8.0, &[(Record, 20.0)])).expect("there is room in both");
    pay(&ledger, &part, 1);
    let books = ledger.books().expect("it is open");
    assert!(open(&books, Speaker) && open(&books, Record));
    assert!(spent(&books, Record) > spent(&books, Speaker) && spent(&books, Speaker) > 0.0);
    let substituted = event_at(&part.charge.event, Speaker, Record).expect("it has a price");
    assert_eq!(books.accounts[&key(Record)].jobs[&part.job].event, substituted);
    assert_eq!(ledger.settle(&part).expect("it is over"), 2);
    let books = ledger.books().expect("it is open");
    assert!(!open(&books, Speaker) && !open(&books, Record), "both got back what was not released");
    drop(ledger);
    assert_eq!(site.verify().expect("rows, receipts and sums agree").books, books, "the rows say the same");
}

#[test]
fn job_over_the_limit_of_another_unit_is_refused_whole() {
    use PrivacyUnit::{Record, Speaker};
    let site = LedgerSite::new();
    let ledger = site.open();
    let part = protecting(40, Speaker, gaussian(4.0), 10);
    ledger.check(&part, limits(8.0, &[])).expect("alone there is room");
    let before = ledger.books().expect("it is open");
    let refused = ledger.reserve(&part, limits(8.0, &[(Record, 4.0)]));
    let Err(LedgerError::OtherUnit { unit: Record, source }) = refused else { panic!("{refused:?}") };
    assert!(matches!(rule::<()>(Err(*source)), RuleError::Refused(Refusal::OverBudget { .. })));
    assert_eq!(ledger.books().expect("it is open"), before, "nothing was charged");
}

#[test]
fn record_job_beside_a_speaker_account_is_refused() {
    use PrivacyUnit::{Record, Speaker, Words};
    let site = LedgerSite::new();
    let ledger = site.open();
    ledger.reserve(&protecting(40, Speaker, gaussian(8.0), 1), limits(8.0, &[])).expect("there is room");
    for unit in [Record, Words] {
        // The policy no longer limits speakers; the account remains.
        let refused = ledger.reserve(&protecting(41, unit, gaussian(8.0), 1), limits(8.0, &[]));
        let Err(LedgerError::Unpriced(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("a lifetime limit for the unit `speaker`"), "{why}");
    }
    let fresh = LedgerSite::new();
    let refused = fresh.open().reserve(&protecting(41, Record, gaussian(8.0), 1), limits(8.0, &[(Speaker, 8.0)]));
    assert!(matches!(refused, Err(LedgerError::Unpriced(_))), "before the first speaker job as well: {refused:?}");
}

#[test]
fn limit_set_later_counts_what_was_released_before() {
    use PrivacyUnit::{Record, Speaker};
    let site = LedgerSite::new();
    let ledger = site.open();
    let first = protecting(40, Speaker, gaussian(4.0), 5);
    ledger.reserve(&first, limits(8.0, &[])).expect("there is room");
    (1..=5).for_each(|round| pay(&ledger, &first, round));
    let second = protecting(41, Speaker, gaussian(4.0), 1);
    let refused = ledger.reserve(&second, limits(8.0, &[(Record, 4.0)]));
    assert!(matches!(refused, Err(LedgerError::OtherUnit { .. })), "five of before count: {refused:?}");
    ledger.reserve(&second, limits(8.0, &[(Record, 40.0)])).expect("there is room for six");
    pay(&ledger, &second, 1);
    let books = ledger.books().expect("it is open");
    assert_eq!(books.accounts[&key(Record)].jobs.len(), 2);
    drop(ledger);
    assert_eq!(site.verify().expect("every row is admitted again").books.accounts, books.accounts);
}

/// Writes rows in the form of a worker that charged each job to its own account alone.
fn write_rows_of_before(site: &LedgerSite) {
    let row = |kind, part: &ReleaseContext, receipt| LedgerEntry {
        kind,
        account: part.account(),
        job: part.job,
        dataset: part.dataset,
        manifest: part.manifest.clone(),
        event: part.charge.event.clone(),
        count: if kind == EntryKind::Reserve { part.charge.releases } else { 1 },
        evaluator: "rdp-1".to_owned(),
        budget: (kind == EntryKind::Reserve).then(|| limit(8.0).budget(None).expect("a budget")),
        certificate: None,
        receipt,
        others: Vec::new(),
        at: OffsetDateTime::UNIX_EPOCH,
    };
    let speaker = protecting(40, PrivacyUnit::Speaker, gaussian(4.0), 3);
    let record = protecting(41, PrivacyUnit::Record, gaussian(2.0), 3);
    let rows = [
        row(EntryKind::Reserve, &speaker, None),
        row(EntryKind::Commit, &speaker, Some(1)),
        row(EntryKind::Reserve, &record, None),
        row(EntryKind::Commit, &record, Some(2)),
    ];
    let mut head = ChainHead::default();
    for row in rows {
        head = site.store().write(|tx| insert_entry(tx, &head, &row)).expect("it is written");
    }
}

#[test]
fn older_ledger_charges_other_units_and_lists_uncovered_ones() {
    use PrivacyUnit::{Record, Speaker};
    let site = LedgerSite::new();
    write_rows_of_before(&site);
    let books = site.store().read(LedgerBooks::read).expect("the rows add up");
    site.store()
        .read(|db| verify::cross_check(db, &books, CertificateCheck::Computed))
        .expect("they are replayed as they were admitted");
    // The record account includes the speaker's release, converted to its unit; the record's release cannot be
    // converted to the speaker account.
    let both = &books.accounts[&key(Record)];
    assert_eq!(both.jobs.len(), 2);
    assert_eq!(both.account.reservations().map(undertone_privacy::ledger::Reservation::committed).sum::<u64>(), 2);
    assert!(books.uncovered_releases(key(Record)).is_empty());
    assert_eq!(books.uncovered_releases(key(Speaker)), [UncoveredReleases { protects: Record, jobs: 1, releases: 1 }]);
    assert_eq!(books.accounts[&key(Speaker)].jobs.len(), 1, "nothing is reset or charged twice");

    let ledger = site.open();
    let refused = ledger.reserve(&protecting(42, Record, gaussian(8.0), 1), limits(8.0, &[]));
    assert!(matches!(refused, Err(LedgerError::Unpriced(_))), "{refused:?}");
    // An older reservation pays on both accounts from now on.
    let spent_before = spent(&ledger.books().expect("it is open"), Record);
    pay(&ledger, &protecting(40, Speaker, gaussian(4.0), 3), 2);
    assert!(spent(&ledger.books().expect("it is open"), Record) > spent_before);
    let books = ledger.books().expect("it is open");
    drop(ledger);
    assert_eq!(site.store().read(LedgerBooks::read).expect("the rows add up"), books);
}

#[test]
fn row_that_omits_an_account_is_refused() {
    use PrivacyUnit::{Record, Speaker};
    let site = LedgerSite::new();
    let ledger = site.open();
    ledger.reserve(&protecting(40, Speaker, gaussian(8.0), 1), limits(8.0, &[(Record, 20.0)])).expect("there is room");
    let part = protecting(41, Speaker, gaussian(8.0), 1);
    let books = ledger.books().expect("it is open");
    drop(ledger);
    let row = LedgerEntry {
        kind: EntryKind::Reserve,
        account: part.account(),
        job: part.job,
        dataset: part.dataset,
        manifest: part.manifest.clone(),
        event: part.charge.event.clone(),
        count: 1,
        evaluator: undertone_privacy::EVALUATOR_VERSION.to_owned(),
        budget: Some(limit(8.0).budget(None).expect("a budget")),
        certificate: None,
        receipt: None,
        others: Vec::new(),
        at: OffsetDateTime::UNIX_EPOCH,
    };
    let _ = site.store().write(|tx| insert_entry(tx, &books.entries, &row)).expect("it is written");
    let refused = site.try_open().map(drop).expect_err("it does not charge the record account");
    assert!(refused.to_string().contains("does not charge the account of the unit Record"), "{refused}");
}
