//! Sums in columns beside the definition of a contribution, unit by unit, for random plans and rows.

mod plans;
mod stored;

use undertone_api::job::analytics::{RADIUS, Spec, VectorLayout};

use super::{AggregateSum, ContributionSum, KeySum, MOST_THREADS, choose_threads};
use crate::chunk::UnitChunk;
use plans::{TableRow, TestNumbers, WIDTH, random_rows, random_spec, select_keys};

/// The units of the test of aggregates: each makes two neighbouring tables, with its rows and without.
const UNITS: usize = 1_000_000;
/// The threads that share them.
const THREADS: usize = 4;
/// The units of a plan.
const UNITS_OF_A_PLAN: usize = 1_000;

/// Returns the squared norm of a contribution.
fn squared_norm(entries: &[(usize, i64)]) -> u128 {
    entries.iter().map(|(_, steps)| u128::from(steps.unsigned_abs()).pow(2)).sum()
}

/// Returns the rows as slices of codes.
fn slices(rows: &[TableRow]) -> impl Iterator<Item = &[Option<i64>]> {
    rows.iter().map(|row| &row[..])
}

/// Returns the layout of the aggregates of a spec, with chosen keys.
fn aggregate_layout(numbers: &mut TestNumbers, spec: &Spec) -> VectorLayout {
    spec.layout().expect("a valid plan").with_keys(&select_keys(numbers, spec))
}

/// Compares tables that differ in one unit, for random plans. Returns the greatest part of the sensitivity that a unit
/// has.
fn compare_neighbours(units: usize, seed: u64) -> f64 {
    let numbers = &mut TestNumbers(seed);
    let mut greatest = 0.0_f64;
    for _ in 0..units.div_ceil(UNITS_OF_A_PLAN) {
        let spec = random_spec(numbers);
        let layout = aggregate_layout(numbers, &spec);
        let charged = layout.squared_sensitivity();
        assert!(charged <= u128::from(RADIUS).pow(2), "{spec:?}");
        let site = numbers.below(spec.participants.len() as u64) as usize;
        let empty = AggregateSum::new(&layout, site);
        let mut sum = empty.clone();
        let mut expected = vec![0_i64; layout.length()];
        let mut all = UnitChunk::new(WIDTH);
        for _ in 0..UNITS_OF_A_PLAN {
            let rows = random_rows(numbers, &spec);
            let entries = layout.contribute_steps(site, slices(&rows));
            for (place, steps) in &entries {
                expected[*place] += steps;
            }
            let mut chunk = UnitChunk::new(WIDTH);
            chunk.push_unit(slices(&rows));
            sum.add_units(&chunk).expect("within the sensitivity");
            assert!(sum.steps() == expected, "{spec:?} {rows:?}");
            let squared = squared_norm(&entries);
            assert!(squared <= charged, "{squared} of {charged}: {spec:?} {rows:?}");
            greatest = greatest.max(squared as f64 / charged as f64);
            all.push_unit(slices(&rows));
        }
        let mut together = empty;
        together.add_units(&all).expect("within the sensitivity");
        assert!(together.steps() == expected, "all units in one chunk: {spec:?}");
    }
    greatest
}

#[test]
fn neighbouring_tables_differ_by_the_defined_contribution() {
    let greatest = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS as u64)
            .map(|part| scope.spawn(move || compare_neighbours(UNITS / THREADS, 220 + part)))
            .collect();
        parts.into_iter().map(|part| part.join().expect("the sums are those of the definition")).fold(0.0, f64::max)
    });
    assert!(greatest > 0.95, "some unit nearly reaches the charge: {greatest}");
}

#[test]
fn choices_of_keys_sum_the_defined_contributions() {
    let numbers = &mut TestNumbers(23);
    let mut choices = 0;
    for _ in 0..200 {
        let spec = random_spec(numbers);
        let layout = spec.key_layout().expect("a valid plan");
        choices += layout.choices().len();
        let mut sum = KeySum::new(&layout);
        let mut expected = vec![0_i64; layout.length()];
        for _ in 0..20 {
            // Some units on their own, others together.
            let mut chunk = UnitChunk::new(WIDTH);
            for _ in 0..=numbers.below(9) {
                let rows = random_rows(numbers, &spec);
                let entries = layout.contribute_steps(slices(&rows));
                assert!(squared_norm(&entries) <= layout.squared_sensitivity(), "{spec:?} {rows:?}");
                for (place, steps) in &entries {
                    expected[*place] += steps;
                }
                chunk.push_unit(slices(&rows));
            }
            sum.add_units(&chunk).expect("within the sensitivity");
        }
        assert!(sum.steps() == expected, "{spec:?}");
    }
    assert!(choices > 20, "{choices} choices: the test is blind");
}

#[test]
fn threads_have_a_greatest_number() {
    assert_eq!([0, 1, 2, 16, 500].map(choose_threads), [1, 1, 2, MOST_THREADS, MOST_THREADS]);
}
