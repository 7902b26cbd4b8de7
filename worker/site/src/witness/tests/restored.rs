//! A server restored from an older copy, with and without a valid statement.

use time::Duration;
use undertone_api::log::witness::WitnessError;

use super::super::restoration::{accepted_restorations, judge, new_restorations, next_batch, note_complete, rebase};
use super::super::{ServerContradiction, WitnessVerdict, alarm, question, record_countersignatures};
use super::{AT, WitnessSite, contradicts};
use crate::testing::log::{TestLog, stranger};
use crate::testing::server_key;

impl WitnessSite {
    /// Queries a server that states restorations, in the daemon's order of calls; returns `None` when no statement is
    /// new.
    fn meet(&self) -> Option<WitnessVerdict> {
        let key = server_key().verifying_key();
        let question = question(&self.store).expect("it is open");
        let ask = |known: Option<&undertone_api::signed::Signed>| {
            let mut answer = self.log.answer(known, &question.numbers());
            answer.restorations = self.log.restorations(question.restored.as_deref());
            answer
        };
        let news = new_restorations(&self.store, &ask(question.known.as_ref())).expect("it is open")?;
        let rebased = rebase(&self.store, &key, &question, &news).expect("it is open");
        let answer = ask(rebased.known.as_ref());
        let mut news = new_restorations(&self.store, &answer).expect("it is open")?;
        news.consistency = answer.consistency;
        Some(judge(&self.store, &key, &rebased, &news, AT).expect("it is open"))
    }

    /// Returns one batch to the server; returns its numbers.
    fn give_back(&mut self) -> Vec<u64> {
        let batch = next_batch(&self.store).expect("it is open");
        let countersignatures: Vec<_> = batch.receipts.iter().map(|receipt| self.log.charge(receipt)).collect();
        let contradiction = record_countersignatures(
            &self.store,
            &server_key().verifying_key(),
            &batch.receipts,
            &countersignatures,
            AT,
        )
        .expect("it is open");
        assert_eq!(contradiction, None);
        batch.numbers
    }
}

/// Sets up a site that verified two receipts, then two more; returns it with the log in between.
fn site_with_older_copy() -> (WitnessSite, TestLog) {
    let mut site = WitnessSite::new();
    site.release();
    site.release();
    assert_eq!(site.ask(), WitnessVerdict::Holds(2));
    let older = site.log.clone();
    site.release();
    site.release();
    assert_eq!(site.ask(), WitnessVerdict::Holds(2));
    (site, older)
}

#[test]
fn stated_restoration_heals_without_an_alarm() {
    let (mut site, older) = site_with_older_copy();
    site.log = older;
    site.log.restore("the disk was lost", AT + Duration::SECOND);
    assert_eq!(site.meet(), Some(WitnessVerdict::Holds(0)));
    assert!(site.is_quiet(), "a statement that holds raises nothing");
    assert_eq!(site.meet(), None, "it is accepted once");
    assert_eq!(site.ask(), WitnessVerdict::Holds(2), "those that the copy has are proved again");

    assert_eq!(site.give_back(), [3, 4]);
    assert_eq!(site.ask(), WitnessVerdict::Holds(2));
    assert!(next_batch(&site.store).expect("it is open").is_complete());
    let state = site.store.read(accepted_restorations).expect("it is open").pop().expect("one restoration");
    assert_eq!((state.returned, state.finished_at.is_some()), (2, false));
    assert_eq!(state.statement.reason, "the disk was lost");
    note_complete(&site.store, AT).expect("it is open");
    let state = site.store.read(accepted_restorations).expect("it is open").pop().expect("one restoration");
    assert!(state.finished_at.is_some());
    site.verify().expect("all that is stored holds");
    site.release();
    assert_eq!(site.ask(), WitnessVerdict::Holds(1));
    assert!(site.is_quiet());
}

#[test]
fn second_restoration_to_before_the_first_heals_too() {
    let (mut site, older) = site_with_older_copy();
    site.log = older.clone();
    site.log.restore("the disk was lost", AT + Duration::SECOND);
    assert_eq!(site.meet(), Some(WitnessVerdict::Holds(0)));
    assert_eq!(site.ask(), WitnessVerdict::Holds(2));
    site.give_back();
    assert_eq!(site.ask(), WitnessVerdict::Holds(2));
    site.log = older;
    site.log.restore("the new disk was lost too", AT + Duration::MINUTE);
    assert_eq!(site.meet(), Some(WitnessVerdict::Holds(0)));
    assert_eq!(site.ask(), WitnessVerdict::Holds(2));
    assert_eq!(site.give_back(), [3, 4]);
    assert_eq!(site.ask(), WitnessVerdict::Holds(2));
    assert!(site.is_quiet());
}

#[test]
fn shorter_log_without_a_statement_raises_an_alarm() {
    let (mut site, older) = site_with_older_copy();
    site.log = older;
    assert_eq!(site.meet(), None);
    let shorter = contradicts(site.ask());
    assert!(matches!(shorter, ServerContradiction::Answer(WitnessError::Shorter { .. })), "{shorter}");
    assert!(!site.is_quiet());
}

#[test]
fn restoration_of_another_history_raises_an_alarm() {
    let (mut site, older) = site_with_older_copy();
    site.log = older.with(1, stranger(77));
    site.log.restore("the disk was lost", AT + Duration::SECOND);
    let forked = contradicts(site.meet().expect("it is new"));
    assert!(matches!(forked, ServerContradiction::Answer(WitnessError::Forked { .. })), "{forked}");
    assert!(!site.is_quiet());
    assert!(site.store.read(accepted_restorations).expect("it is open").is_empty());
}

#[test]
fn statement_that_the_log_does_not_have_raises_an_alarm() {
    let (mut site, older) = site_with_older_copy();
    let mut stated = older.clone();
    stated.restore("the disk was lost", AT + Duration::SECOND);
    let size = stated.size();
    site.log = stated.with(size - 1, stranger(78));
    site.log.restore("another statement", AT + Duration::MINUTE);
    let key = server_key().verifying_key();
    let question = question(&site.store).expect("it is open");
    let mut answer = site.log.answer(None, &[]);
    answer.restorations = stated.restorations(None);
    answer.restorations[0].consistency = site.log.answer(None, &[]).consistency;
    let rebased = rebase(&site.store, &key, &question, &answer).expect("it is open");
    answer.consistency = site.log.answer(rebased.known.as_ref(), &[]).consistency;
    let verdict = judge(&site.store, &key, &rebased, &answer, AT).expect("it is open");
    let unproved = contradicts(verdict);
    assert!(matches!(unproved, ServerContradiction::Answer(WitnessError::Restoration { .. })), "{unproved}");
    assert!(site.store.read(alarm::open).expect("it is open").is_some());
}

#[test]
fn receipt_missing_from_the_restored_log_raises_an_alarm() {
    let mut site = WitnessSite::new();
    for _ in 0..2 {
        let receipt = site.release();
        let countersignature = site.log.charge(&receipt);
        record_countersignatures(&site.store, &server_key().verifying_key(), &[receipt], &[countersignature], AT)
            .expect("it is open");
    }
    // The site verified no head; the copy claims leaves up to the position of the receipts.
    let mut log = TestLog::default();
    (1..=3).for_each(|leaf| log.push(stranger(leaf)));
    site.log = log;
    site.log.restore("the disk was lost", AT + Duration::SECOND);
    assert_eq!(site.meet(), Some(WitnessVerdict::Holds(0)));
    assert_eq!(contradicts(site.ask()), ServerContradiction::Lost(1));
}

#[test]
fn statement_older_than_the_last_raises_an_alarm() {
    let (mut site, older) = site_with_older_copy();
    site.log = older.clone();
    site.log.restore("the disk was lost", AT + Duration::MINUTE);
    assert_eq!(site.meet(), Some(WitnessVerdict::Holds(0)));
    site.log = older;
    site.log.restore("an older statement", AT + Duration::SECOND);
    assert_eq!(contradicts(site.meet().expect("it is new")), ServerContradiction::Restoration);
}
