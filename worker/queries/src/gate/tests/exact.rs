//! Survivors and counts equal those of exact counting, for every outcome of the hashes, even to an attacker with the
//! key.

use proptest::prelude::*;

use super::{KeepAll, KeepBits, ROOMY, TINY, TestSite, count_exactly, of_records, row};
use crate::dataset::Row;
use crate::sketch::{CountMin, SketchKey, TableSize, UpdateRule};

/// Finds texts that share every cell with `victim` in a table of 4 rows and `columns` columns, given the key.
fn colliding(victim: &str, columns: u32, key: u8, texts: usize) -> Vec<String> {
    let collides = |text: &String| {
        let mut sketch = CountMin::new(TableSize::new(4, columns).unwrap(), UpdateRule::Plain, SketchKey::in_test(key));
        sketch.add(victim, 1);
        sketch.at_most(text) == 1
    };
    (0..).map(|attempt| format!("attack {attempt}")).filter(collides).take(texts).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn survivors_equal_exact_counts(
        rows in prop::collection::vec((0_u8..25, 1_u64..4), 1..21),
        sample: u64,
        threshold in 1_u32..6,
        memory in prop::sample::select(vec![TINY, 12, 40, ROOMY]),
        key: u8,
    ) {
        let rows: Vec<Row> = rows.into_iter().map(|(text, count)| row(&format!("query {text}"), count)).collect();
        let site = TestSite::new(memory, key);
        let survivors = site.pass(of_records(threshold), &rows, &mut KeepBits(sample));
        prop_assert_eq!(survivors, count_exactly(&rows, threshold.into(), &mut KeepBits(sample)));
    }

    #[test]
    fn other_texts_do_not_change_a_survivor(
        others in prop::collection::vec((0_u8..25, 1_u64..9), 0..40), own in 1_u64..12, threshold in 2_u32..8, key: u8,
    ) {
        // Every text collides with others in all rows; the decision about one depends on its own rows only.
        let site = TestSite::new(TINY, key);
        let others: Vec<Row> = others.into_iter().map(|(text, count)| row(&format!("query {text}"), count)).collect();
        let with = [&others[..], &[row("mine", own)]].concat();
        let mut survivors = site.pass(of_records(threshold), &with, &mut KeepAll);
        prop_assert_eq!(survivors.remove("mine"), (own >= u64::from(threshold)).then_some(own));
        prop_assert_eq!(survivors, site.pass(of_records(threshold), &others, &mut KeepAll));
    }
}

#[test]
fn leaked_key_does_not_change_survivors() {
    // Tables of 8 columns: the attacker's texts hit all four cells of the victim's.
    let (memory, key) = (4 * 8, 7);
    let attack = colliding("where is my card", 8, key, 3);
    for (own, threshold) in [(1, 5), (4, 5), (5, 5), (6, 5)] {
        let mut rows = vec![row("where is my card", own)];
        rows.extend(attack.iter().map(|text| row(text, 100)));
        let expected = count_exactly(&rows, threshold, &mut KeepAll);
        assert_eq!(expected.contains_key("where is my card"), own >= threshold);
        let backwards = rows.iter().rev().cloned().collect();
        for rows in [rows, backwards] {
            assert_eq!(TestSite::new(memory, key).pass(of_records(threshold as u32), &rows, &mut KeepAll), expected);
        }
    }
    // The sketch alone would show the text: this attack is the reason for the second pass.
    let mut sketch = CountMin::new(TableSize::new(4, 8).unwrap(), UpdateRule::Conservative, SketchKey::in_test(key));
    for text in &attack {
        sketch.add(text, 100);
    }
    sketch.add("where is my card", 1);
    assert_eq!(sketch.at_most("where is my card"), 301);
}

#[test]
fn thresholds_beyond_one_byte_are_exact() {
    for threshold in [255_u32, 256, 300, 65_535, 65_536] {
        let rows = [row("below", u64::from(threshold) - 1), row("at", threshold.into()), row("above", 1 << 40)];
        let survivors = TestSite::new(ROOMY, 1).pass(of_records(threshold), &rows, &mut KeepAll);
        assert_eq!(survivors, count_exactly(&rows, threshold.into(), &mut KeepAll), "{threshold}");
    }
}

#[test]
fn counts_add_up_beyond_the_memory_table() {
    // More texts than the table adds up in memory at a time.
    let mut rows: Vec<Row> = (0..70_000).map(|text| row(&format!("query {}", text % 66_000), 1)).collect();
    rows.extend((0..300).map(|text| row(&format!("query {text}"), 2)));
    let survivors = TestSite::new(ROOMY, 2).pass(of_records(3), &rows, &mut KeepAll);
    assert_eq!(survivors.len(), 300);
    assert_eq!(survivors, count_exactly(&rows, 3, &mut KeepAll));
}
