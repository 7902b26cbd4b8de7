//! Sketches against the vectors, against exact counts, and against an attacker with the key.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

mod vectors;

use std::collections::HashMap;

use proptest::prelude::*;

use super::{
    CellColumns, CountMin, DistinctCounter, MeanBackground, Nominator, SketchError, SketchKey, TableSize, UpdateRule,
};

fn sketch(size: (u32, u32), update: UpdateRule, key: u8) -> CountMin {
    CountMin::new(TableSize::new(size.0, size.1).unwrap(), update, SketchKey::in_test(key))
}

fn exact(rows: &[(u8, u64)]) -> HashMap<String, u64> {
    rows.iter().fold(HashMap::new(), |mut counts, (text, count)| {
        *counts.entry(text.to_string()).or_default() += count;
        counts
    })
}

proptest! {
    #[test]
    fn count_min_never_underestimates(
        rows in prop::collection::vec((any::<u8>(), 1_u64..20), 1..200), key: u8, columns in 2_u32..12, depth in 1_u32..5
    ) {
        let mut plain = sketch((depth, columns), UpdateRule::Plain, key);
        let mut careful = sketch((depth, columns), UpdateRule::Conservative, key);
        for (text, count) in &rows {
            plain.add(&text.to_string(), *count);
            careful.add(&text.to_string(), *count);
        }
        for (text, count) in exact(&rows) {
            let above = plain.at_most(&text);
            let closer = careful.at_most(&text);
            prop_assert!(count <= closer && closer <= above, "{} {} {}", count, closer, above);
            for background in [MeanBackground::All, MeanBackground::Row] {
                let mean = careful.mean_min(&text, background);
                prop_assert!(0.0 <= mean && mean <= closer as f64);
            }
        }
    }

    #[test]
    fn nominator_names_every_text_with_k_occurrences(
        rows in prop::collection::vec((any::<u8>(), 1_u64..400), 1..200), key: u8, columns in 2_u32..12,
        threshold in prop::sample::select(vec![1_u64, 2, 20, 255, 256, 1000])
    ) {
        let mut nominator = Nominator::with_size(threshold, TableSize::new(3, columns).unwrap(), SketchKey::in_test(key));
        for (text, count) in &rows {
            nominator.add(&text.to_string(), *count);
        }
        for (text, _) in exact(&rows).into_iter().filter(|(_, count)| *count >= threshold) {
            prop_assert!(nominator.names(&text));
        }
    }

    #[test]
    fn plain_sketches_merge_to_the_whole(
        rows in prop::collection::vec((any::<u8>(), 1_u64..20), 2..100), cut in 1_usize..99
    ) {
        let (left, right) = rows.split_at(cut.min(rows.len() - 1));
        let of = |rows: &[(u8, u64)]| {
            let mut sketch = sketch((3, 7), UpdateRule::Plain, 9);
            for (text, count) in rows {
                sketch.add(&text.to_string(), *count);
            }
            sketch
        };
        let mut merged = of(left);
        merged.merge(&of(right)).unwrap();
        prop_assert_eq!(merged.rows(), of(&rows).rows());
        prop_assert_eq!(merged.total(), of(&rows).total());
    }
}

#[test]
fn invalid_sketch_merge_is_refused() {
    let mut plain = sketch((3, 7), UpdateRule::Plain, 1);
    assert_eq!(plain.merge(&sketch((3, 7), UpdateRule::Plain, 2)), Err(SketchError::Keys));
    assert_eq!(plain.merge(&sketch((3, 8), UpdateRule::Plain, 1)), Err(SketchError::Sizes));
    assert_eq!(plain.merge(&sketch((3, 7), UpdateRule::Conservative, 1)), Err(SketchError::Conservative));
    let mut careful = sketch((3, 7), UpdateRule::Conservative, 1);
    assert_eq!(careful.merge(&sketch((3, 7), UpdateRule::Conservative, 1)), Err(SketchError::Conservative));
    let distinct = |error, key| DistinctCounter::for_error(error, SketchKey::in_test(key)).unwrap();
    assert_eq!(distinct(0.01, 1).merge(&distinct(0.01, 2)), Err(SketchError::Keys));
    assert_eq!(distinct(0.01, 1).merge(&distinct(0.05, 1)), Err(SketchError::Sizes));
}

#[test]
fn conservative_sketches_depend_on_row_order() {
    // Four texts, one in each pair of cells of a table of two rows and two columns.
    let places = [(0, 0), (0, 1), (1, 1), (1, 0)]
        .map(|(first, second)| CellColumns::from_rows(2, |row| [first, second][row as usize]));
    let of = |order: [usize; 4]| {
        let mut sketch = sketch((2, 2), UpdateRule::Conservative, 4);
        for text in order {
            sketch.add_at(&places[text], 1);
        }
        sketch.rows()
    };
    assert_eq!(of([0, 1, 2, 3]), [[1, 2], [2, 1]]);
    assert_eq!(of([3, 2, 1, 0]), [[2, 1], [2, 1]]);
}

#[test]
fn estimates_keep_their_error_bound() {
    // 2,000 texts, the i-th 20000/i times.
    let rows: Vec<(String, u64)> = (1..=2000).map(|text| (format!("query {text}"), 20_000 / text)).collect();
    let size = TableSize::for_error(0.002, 0.02).unwrap();
    let mut plain = CountMin::new(size, UpdateRule::Plain, SketchKey::in_test(5));
    let mut careful = CountMin::new(size, UpdateRule::Conservative, SketchKey::in_test(5));
    for (text, count) in &rows {
        plain.add(text, *count);
        careful.add(text, *count);
    }
    let allowed = 0.002 * plain.total() as f64;
    let beyond =
        |sketch: &CountMin| rows.iter().filter(|(text, count)| (sketch.at_most(text) - count) as f64 > allowed).count();
    assert!(beyond(&plain) <= 40 && beyond(&careful) <= beyond(&plain));
    // Count-mean-min subtracts the mean of others: unlike count-min it is too low for many texts, so no gate may use
    // it.
    let estimate = plain.mean_mins(MeanBackground::All);
    let missed = rows.iter().filter(|(text, count)| estimate(text) < *count as f64 - 0.5).count();
    assert!(missed > 100, "{missed}");
}

#[test]
fn distinct_count_is_within_its_error() {
    for (count, relative) in [(0_u32, 0.02), (1, 0.02), (1000, 0.02), (60_000, 0.01), (60_000, 0.05)] {
        let mut sketch = DistinctCounter::for_error(relative, SketchKey::in_test(6)).unwrap();
        for text in (0..count).chain(0..count / 2) {
            sketch.add(&format!("query {text}"));
        }
        assert!(sketch.relative_error() <= relative);
        let (truth, (low, high)) = (f64::from(count), sketch.bounds());
        assert!((sketch.estimate() - truth).abs() <= 3.0 * relative * truth, "{count}: {}", sketch.estimate());
        assert!(low <= truth && truth <= high, "{count}: {low} {high}");
    }
    for relative in [0.0, 0.0005, 1.0, -1.0, f64::NAN] {
        assert!(DistinctCounter::for_error(relative, SketchKey::in_test(6)).is_err(), "{relative}");
    }
}

#[test]
fn merged_sketches_count_common_texts_once() {
    let of = |texts: std::ops::Range<u32>| {
        let mut sketch = DistinctCounter::for_error(0.01, SketchKey::in_test(7)).unwrap();
        for text in texts {
            sketch.add(&text.to_string());
        }
        sketch
    };
    let mut merged = of(0..20_000);
    merged.merge(&of(10_000..30_000)).unwrap();
    assert!((merged.estimate() / 30_000.0 - 1.0).abs() < 0.03, "{}", merged.estimate());
}

#[test]
fn nominator_memory_is_bounded_for_any_log() {
    for (threshold, occurrences) in [(1, u64::MAX), (5, 1 << 40), (1_000_000, 1 << 60), (300, 10)] {
        let nominator = Nominator::new(threshold, occurrences, 1 << 20, SketchKey::in_test(8)).unwrap();
        assert!(nominator.memory() <= 1 << 20 && nominator.memory() > 1 << 11, "{threshold}");
    }
    assert!(Nominator::new(5, 100, 4, SketchKey::in_test(8)).is_err());
}
