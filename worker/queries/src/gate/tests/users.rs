//! Protected users: one row for each user and text, and at most the charged number of texts of a user.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use undertone_privacy::PrivacyUnit;
use undertone_privacy::kanon::Shown;

use super::{Gate, GateError, KeepAll, ROOMY, Settings, TestSite, Texts, row, settings, user_row};
use crate::dataset::Row;

fn of_users(threshold: u32, rows_per_unit: u32) -> Gate {
    let rows_per_unit = NonZeroU32::new(rows_per_unit).unwrap();
    let settings = Settings { rows_per_unit, ..settings(0.25, threshold, Shown::Counts) };
    Gate::new(settings, PrivacyUnit::User).unwrap()
}

#[test]
fn repeated_text_of_one_user_counts_once() {
    let mut rows: Vec<Row> = (0..50).map(|_| user_row("my own strange question", 1)).collect();
    rows.push(Row { count: 1000, ..user_row("my own strange question", 1) });
    rows.extend((2..5).map(|user| user_row("where is my card", user)));
    let survivors = TestSite::new(ROOMY, 1).pass(of_users(2, 10), &rows, &mut KeepAll);
    assert_eq!(survivors, Texts::from([("where is my card".to_owned(), 3)]));
    // Counted by record, the same rows would show it: a guarantee for rows does not protect a user with repeated
    // questions.
    let records = TestSite::new(ROOMY, 1).pass(super::of_records(2), &rows, &mut KeepAll);
    assert_eq!(records["my own strange question"], 1050);
}

#[test]
fn user_changes_at_most_the_charged_counts_by_one() {
    // Five users ask one text each; the sixth asks a hundred, each of them twice.
    let others: Vec<Row> = (1..6).map(|user| user_row(&format!("query {user}"), user)).collect();
    let mut rows = others.clone();
    rows.extend((0..200).map(|text| user_row(&format!("query {}", text % 100), 6)));
    for most in [1, 3, 7] {
        let site = TestSite::new(ROOMY, 2);
        let with = site.pass(of_users(1, most), &rows, &mut KeepAll);
        let without = site.pass(of_users(1, most), &others, &mut KeepAll);
        let texts: BTreeSet<_> = with.keys().chain(without.keys()).collect();
        let count = |counts: &Texts, text: &str| counts.get(text).copied().unwrap_or(0);
        let changed: Vec<_> = texts.iter().map(|text| count(&with, text) - count(&without, text)).collect();
        assert!(changed.iter().all(|change| *change <= 1), "{changed:?}");
        assert_eq!(changed.iter().sum::<u64>(), u64::from(most));
    }
}

#[test]
fn texts_of_a_user_are_redrawn_for_every_release() {
    let rows: Vec<Row> = (0..1000).map(|text| user_row(&format!("query {text}"), 1)).collect();
    let site = TestSite::new(ROOMY, 3);
    let draw_survivors = || site.pass(of_users(1, 5), &rows, &mut KeepAll);
    let one = draw_survivors();
    let two = draw_survivors();
    assert_eq!((one.len(), two.len()), (5, 5));
    assert_ne!(one, two);
}

#[test]
fn rows_without_users_are_left_out() {
    let rows = [row("where is my card", 9), user_row("block my card", 1), user_row("block my card", 2)];
    let site = TestSite::new(ROOMY, 4);
    assert_eq!(site.pass(of_users(1, 1), &rows, &mut KeepAll), Texts::from([("block my card".to_owned(), 2)]));
    assert!(matches!(site.try_pass(of_users(1, 1), &rows[..1], &mut KeepAll), Err(GateError::NoUsers)));
}

#[test]
fn unknown_units_are_refused() {
    let two = Settings { rows_per_unit: NonZeroU32::new(2).unwrap(), ..settings(0.25, 5, Shown::Counts) };
    assert!(matches!(Gate::new(two, PrivacyUnit::Record), Err(GateError::RowsPerRecord(2))));
    assert!(matches!(Gate::new(two, PrivacyUnit::Speaker), Err(GateError::Unit(PrivacyUnit::Speaker))));
    assert!(Gate::new(two, PrivacyUnit::User).is_ok());
}
