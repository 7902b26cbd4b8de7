//! Add-remove and zero-out charges of one lineage and unit share one account: a change of the relation grants no second
//! budget.

use undertone_api::signed::Receipt;
use undertone_privacy::ledger::{LedgerError as RuleError, Refusal};
use undertone_privacy::{Adjacency, Event};

use super::{LedgerSite, job, release_context, rule};
use crate::books::{self, AccountKey};
use crate::ledger::release_context::ReleaseContext;
use crate::testing::{LINEAGE, gaussian, limit, stored_release};

/// Returns a part that charges under `adjacency`.
fn make_context(number: u128, adjacency: Adjacency, event: Event, releases: u64) -> ReleaseContext {
    let mut part = job(number, &release_context(event, releases));
    part.charge.adjacency = adjacency;
    part
}

#[test]
fn zero_out_charges_continue_the_add_remove_account() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let before = make_context(40, Adjacency::AddRemove, gaussian(1.0), 1);
    ledger.reserve(&before, &limit(6.0)).expect("there is room");
    let _ = ledger.commit(&before, &gaussian(1.0), &stored_release(&before, "private", 1)).expect("it is reserved");
    let after = make_context(41, Adjacency::ZeroOut, gaussian(1.0), 1);
    let refused = ledger.reserve(&after, &limit(6.0));
    assert!(matches!(rule(refused), RuleError::Refused(Refusal::OverBudget { .. })), "the budget is not granted twice");

    let small = make_context(42, Adjacency::ZeroOut, gaussian(8.0), 2);
    ledger.reserve(&small, &limit(6.0)).expect("there is room for this");
    let _ = ledger.commit(&small, &gaussian(8.0), &stored_release(&small, "private", 1)).expect("it is reserved");
    drop(ledger);
    let verified = site.verify().expect("rows, receipts and sums agree");
    let accounts: Vec<_> = verified.books.accounts.iter().collect();
    let [(key, book)] = accounts[..] else { panic!("one account, not {}", accounts.len()) };
    assert_eq!(*key, AccountKey::new(LINEAGE, before.charge.unit, Adjacency::ZeroOut));
    assert_eq!((key.adjacency(), book.jobs.len()), (Adjacency::AddRemove, 2));
    let receipts: Vec<Receipt> = site
        .store()
        .read(books::receipts)
        .expect("they are there")
        .iter()
        .map(|signed| signed.open(&site.key.public()).expect("the site signed it"))
        .collect();
    let relations: Vec<_> = receipts.iter().map(|receipt| receipt.adjacency).collect();
    assert_eq!(relations, [Adjacency::AddRemove, Adjacency::ZeroOut], "a receipt says what was charged");
}

#[test]
fn limit_that_is_raised_after_a_release_is_a_second_promise() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let promised = || {
        let rows = site.store().read(books::entries).expect("they are there");
        let promises = books::promises(&rows);
        promises
            .into_values()
            .map(|one| one.all().iter().map(|limit| limit.epsilon.get()).collect())
            .collect::<Vec<Vec<_>>>()
    };
    let part = |number| make_context(number, Adjacency::ZeroOut, gaussian(8.0), 1);
    ledger.reserve(&part(40), &limit(2.0)).expect("there is room");
    ledger.reserve(&part(41), &limit(6.0)).expect("there is room");
    assert_eq!(promised(), [[6.0]], "nothing was released under the first limit");
    let _ = ledger.commit(&part(41), &gaussian(8.0), &stored_release(&part(41), "private", 1)).expect("it is reserved");
    ledger.reserve(&part(42), &limit(9.0)).expect("there is room");
    assert_eq!(promised(), [[6.0, 9.0]]);
}

#[test]
fn key_is_read_as_its_account_whatever_its_row_says() {
    let read = |adjacency: &str| {
        let row = format!(r#"{{"lineage":"{LINEAGE}","unit":"speaker","adjacency":"{adjacency}"}}"#);
        serde_json::from_str::<AccountKey>(&row).expect("a key")
    };
    assert_eq!(read("add_remove"), read("zero_out"));
    assert_ne!(read("add_remove"), read("replace_one"));
}

#[test]
fn older_rows_serialize_unchanged() {
    let site = LedgerSite::new();
    let ledger = site.open();
    let new = make_context(40, Adjacency::ZeroOut, gaussian(4.0), 1);
    ledger.reserve(&new, &limit(8.0)).expect("there is room");
    drop(ledger);
    let rows = site.store().read(books::entries).expect("they are there");
    let payload = serde_json::to_value(&rows[0]).expect("a row is JSON");
    assert_eq!(payload["adjacency"], "add_remove", "an account has one name, for earlier versions too");
}
