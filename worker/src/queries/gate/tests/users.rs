//! Where users are protected: one row for each user and text, and no more texts of a user than are charged for.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use undertone_privacy::PrivacyUnit;
use undertone_privacy::kanon::Shown;

use super::{All, Gate, GateError, ROOMY, Settings, Site, Texts, asked, row, settings};
use crate::queries::dataset::Row;

fn of_users(threshold: u32, rows_per_unit: u32) -> Gate {
    let rows_per_unit = NonZeroU32::new(rows_per_unit).unwrap();
    let settings = Settings { rows_per_unit, ..settings(0.25, threshold, Shown::Counts) };
    Gate::new(settings, PrivacyUnit::User).unwrap()
}

#[test]
fn one_user_is_one_row_of_a_text_however_often_they_ask_it() {
    let mut rows: Vec<Row> = (0..50).map(|_| asked("my own strange question", 1)).collect();
    rows.push(Row { count: 1000, ..asked("my own strange question", 1) });
    rows.extend((2..5).map(|user| asked("where is my card", user)));
    let found = Site::new(ROOMY, 1).pass(of_users(2, 10), &rows, &mut All);
    assert_eq!(found, Texts::from([("where is my card".to_owned(), 3)]));
    // Counted by record the same rows would show it: a guarantee for rows says nothing about who asks the same again.
    let records = Site::new(ROOMY, 1).pass(super::of_records(2), &rows, &mut All);
    assert_eq!(records["my own strange question"], 1050);
}

#[test]
fn a_user_changes_no_more_counts_than_were_charged_for_and_each_by_one() {
    // Five users ask one text each; the sixth asks a hundred, each of them twice.
    let others: Vec<Row> = (1..6).map(|user| asked(&format!("query {user}"), user)).collect();
    let mut rows = others.clone();
    rows.extend((0..200).map(|text| asked(&format!("query {}", text % 100), 6)));
    for most in [1, 3, 7] {
        let site = Site::new(ROOMY, 2);
        let (with, without) =
            (site.pass(of_users(1, most), &rows, &mut All), site.pass(of_users(1, most), &others, &mut All));
        let texts: BTreeSet<_> = with.keys().chain(without.keys()).collect();
        let count = |counts: &Texts, text: &str| counts.get(text).copied().unwrap_or(0);
        let changed: Vec<_> = texts.iter().map(|text| count(&with, text) - count(&without, text)).collect();
        assert!(changed.iter().all(|change| *change <= 1), "{changed:?}");
        assert_eq!(changed.iter().sum::<u64>(), u64::from(most));
    }
}

#[test]
fn which_texts_of_a_user_count_is_drawn_anew_for_every_release() {
    let rows: Vec<Row> = (0..1000).map(|text| asked(&format!("query {text}"), 1)).collect();
    let site = Site::new(ROOMY, 3);
    let chosen = || site.pass(of_users(1, 5), &rows, &mut All);
    let (one, two) = (chosen(), chosen());
    assert_eq!((one.len(), two.len()), (5, 5));
    assert_ne!(one, two);
}

#[test]
fn rows_of_nobody_are_left_out_and_a_log_without_users_is_refused() {
    let rows = [row("where is my card", 9), asked("block my card", 1), asked("block my card", 2)];
    let site = Site::new(ROOMY, 4);
    assert_eq!(site.pass(of_users(1, 1), &rows, &mut All), Texts::from([("block my card".to_owned(), 2)]));
    assert!(matches!(site.try_pass(of_users(1, 1), &rows[..1], &mut All), Err(GateError::NoUsers)));
}

#[test]
fn units_that_a_log_does_not_have_are_refused() {
    let two = Settings { rows_per_unit: NonZeroU32::new(2).unwrap(), ..settings(0.25, 5, Shown::Counts) };
    assert!(matches!(Gate::new(two, PrivacyUnit::Record), Err(GateError::RowsPerRecord(2))));
    assert!(matches!(Gate::new(two, PrivacyUnit::Speaker), Err(GateError::Unit(PrivacyUnit::Speaker))));
    assert!(Gate::new(two, PrivacyUnit::User).is_ok());
}
