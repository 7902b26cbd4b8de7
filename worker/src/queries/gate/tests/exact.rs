//! Survivors and counts are those of exact counting, whatever the hashes were and whoever knows the key.

use proptest::prelude::*;

use super::{All, Given, ROOMY, Site, TINY, exactly, of_records, row};
use crate::queries::dataset::Row;
use crate::queries::sketch::{CountMin, Key, Size, Update};

/// Texts that share every cell with `victim` in a table of 4 rows and so many columns, found by somebody who knows the key.
fn colliding(victim: &str, columns: u32, key: u8, texts: usize) -> Vec<String> {
    let collides = |text: &String| {
        let mut sketch = CountMin::new(Size::new(4, columns).unwrap(), Update::Plain, Key::in_test(key));
        sketch.add(victim, 1);
        sketch.at_most(text) == 1
    };
    (0..).map(|attempt| format!("attack {attempt}")).filter(collides).take(texts).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn what_comes_through_is_what_exact_counting_says(
        rows in prop::collection::vec((0_u8..25, 1_u64..4), 1..21),
        sample: u64,
        threshold in 1_u32..6,
        memory in prop::sample::select(vec![TINY, 12, 40, ROOMY]),
        key: u8,
    ) {
        let rows: Vec<Row> = rows.into_iter().map(|(text, count)| row(&format!("query {text}"), count)).collect();
        let site = Site::new(memory, key);
        let found = site.pass(of_records(threshold), &rows, &mut Given(sample));
        prop_assert_eq!(found, exactly(&rows, threshold.into(), &mut Given(sample)));
    }

    #[test]
    fn rows_of_other_texts_change_nothing_for_a_text(
        others in prop::collection::vec((0_u8..25, 1_u64..9), 0..40), own in 1_u64..12, threshold in 2_u32..8, key: u8,
    ) {
        // Every text collides with others everywhere; the decision about one depends on its own rows only.
        let site = Site::new(TINY, key);
        let others: Vec<Row> = others.into_iter().map(|(text, count)| row(&format!("query {text}"), count)).collect();
        let with = [&others[..], &[row("mine", own)]].concat();
        let mut found = site.pass(of_records(threshold), &with, &mut All);
        prop_assert_eq!(found.remove("mine"), (own >= u64::from(threshold)).then_some(own));
        prop_assert_eq!(found, site.pass(of_records(threshold), &others, &mut All));
    }
}

#[test]
fn an_attacker_who_knows_the_key_brings_no_rare_text_through_and_keeps_no_frequent_one_out() {
    // Tables of 8 columns: the attacker's texts hit all four cells of the victim's.
    let (memory, key) = (4 * 8, 7);
    let attack = colliding("where is my card", 8, key, 3);
    for (own, threshold) in [(1, 5), (4, 5), (5, 5), (6, 5)] {
        let mut rows = vec![row("where is my card", own)];
        rows.extend(attack.iter().map(|text| row(text, 100)));
        let expected = exactly(&rows, threshold, &mut All);
        assert_eq!(expected.contains_key("where is my card"), own >= threshold);
        let backwards = rows.iter().rev().cloned().collect();
        for rows in [rows, backwards] {
            assert_eq!(Site::new(memory, key).pass(of_records(threshold as u32), &rows, &mut All), expected);
        }
    }
    // The sketch alone would have shown it: this is the attack that the second pass is for.
    let mut sketch = CountMin::new(Size::new(4, 8).unwrap(), Update::Conservative, Key::in_test(key));
    for text in &attack {
        sketch.add(text, 100);
    }
    sketch.add("where is my card", 1);
    assert_eq!(sketch.at_most("where is my card"), 301);
}

#[test]
fn thresholds_that_do_not_fit_a_byte_are_exact_too() {
    for threshold in [255_u32, 256, 300, 65_535, 65_536] {
        let rows = [row("below", u64::from(threshold) - 1), row("at", threshold.into()), row("above", 1 << 40)];
        let found = Site::new(ROOMY, 1).pass(of_records(threshold), &rows, &mut All);
        assert_eq!(found, exactly(&rows, threshold.into(), &mut All), "{threshold}");
    }
}

#[test]
fn counts_are_added_up_over_as_many_rows_as_there_are() {
    // More texts than are added up in memory at a time.
    let mut rows: Vec<Row> = (0..70_000).map(|text| row(&format!("query {}", text % 66_000), 1)).collect();
    rows.extend((0..300).map(|text| row(&format!("query {text}"), 2)));
    let found = Site::new(ROOMY, 2).pass(of_records(3), &rows, &mut All);
    assert_eq!(found.len(), 300);
    assert_eq!(found, exactly(&rows, 3, &mut All));
}
