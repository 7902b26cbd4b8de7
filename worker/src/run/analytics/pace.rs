//! The longest time of a release, from public facts alone.

use std::time::{Duration, Instant};

use undertone_api::dataset::SizeClass;
use undertone_api::job::analytics::{GroupKey, KeyLayout, SelectedKeys, Spec, TableQuery, VectorLayout};
use undertone_api::table::{ColumnKind, TableColumn};

use crate::tables::chunk::UnitChunk;
use crate::tables::error::TableError;
use crate::tables::sums::{AggregateSum, ContributionSum, KeySum};

/// The made-up rows whose contributions are timed.
const TIMED_ROWS: usize = 2_000;
/// The time to read, hash and decode a row, and each of its codes, on a slow machine.
const READ_ROW: Duration = Duration::from_nanos(400);
const READ_CODE: Duration = Duration::from_nanos(100);
/// The factor between the measured time and the period of the release clock.
const MARGIN: f64 = 2.0;

/// A made-up row of codes.
type MadeUpRow = Vec<Option<i64>>;

/// Returns the time that covers the sum over a table: the contributions of made-up rows with values over the whole
/// declared ranges, for as many rows as the size class can have, on one thread. Of a job that selects keys, the time of the
/// slower sum: that of the choice, or that of the aggregates with as many keys as the job may choose, in each of which
/// made-up rows count.
///
/// # Errors
/// [`TableError::ExcessContribution`] if a made-up unit is longer than the sensitivity.
pub(super) fn slowest_release(
    rows: SizeClass,
    spec: &Spec,
    layout: &VectorLayout,
    key_layout: &KeyLayout,
) -> Result<Duration, TableError> {
    let most: Vec<Vec<usize>> =
        spec.queries.iter().map(|query| query.group_by.iter().map(most_groups).collect()).collect();
    let cycle = most.iter().flatten().copied().filter(|most| *most > 0).min().unwrap_or(1);
    let made_up: Vec<MadeUpRow> = (0..TIMED_ROWS).map(|row| make_up_row(&spec.columns, row, cycle)).collect();
    let layout = layout.clone().with_keys(&make_up_keys(spec, &most));
    let mut slowest = time_contributions(spec.columns.len(), &made_up, &AggregateSum::new(&layout, 0))?;
    if spec.selects_keys() {
        slowest = slowest.max(time_contributions(spec.columns.len(), &made_up, &KeySum::new(key_layout))?);
    }
    let per_row = slowest.as_secs_f64() / TIMED_ROWS as f64
        + READ_ROW.as_secs_f64()
        + READ_CODE.as_secs_f64() * spec.columns.len() as f64;
    Ok(Duration::try_from_secs_f64(rows.most() as f64 * per_row * MARGIN).unwrap_or(Duration::MAX))
}

/// Returns the longest of several times of the contributions of all rows, which have `columns` codes.
fn time_contributions(
    columns: usize,
    made_up: &[MadeUpRow],
    empty: &impl ContributionSum,
) -> Result<Duration, TableError> {
    let mut slowest = Duration::ZERO;
    // Units of one row, of which each row may count, and units of two, which share the limits.
    for rows in [1, 2] {
        let mut chunk = UnitChunk::new(columns);
        made_up.chunks(rows).for_each(|unit| chunk.push_unit(unit.iter().map(Vec::as_slice)));
        for _ in 0..3 {
            let mut sum = empty.clone();
            let began = Instant::now();
            sum.add_units(&chunk)?;
            slowest = slowest.max(began.elapsed());
            std::hint::black_box(sum.steps());
        }
    }
    Ok(slowest)
}

/// Returns the most groups of a chosen key; 0 for a declared one.
const fn most_groups(key: &GroupKey) -> usize {
    match key {
        GroupKey::Selected { most, .. } => *most as usize,
        _ => 0,
    }
}

/// Returns a row with codes over the declared ranges. Columns of keys have `cycle` different keys, one after another.
fn make_up_row(columns: &[TableColumn], row: usize, cycle: usize) -> MadeUpRow {
    let code = |(place, column): (usize, &TableColumn)| {
        if let ColumnKind::Key { .. } = column.kind {
            return make_up_key(&column.kind, row % cycle);
        }
        let (least, most) = column.kind.code_range();
        let width = most.abs_diff(least).saturating_add(1);
        let step = ((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (place % 24)) % width;
        Some(least.saturating_add_unsigned(step))
    };
    columns.iter().enumerate().map(code).collect()
}

/// Returns the code of a made-up key, with as many digits as the column has room for; `None` for other kinds.
fn make_up_key(kind: &ColumnKind, number: usize) -> Option<i64> {
    let ColumnKind::Key { longest } = kind else { return None };
    kind.encode_key(&(number % 10_usize.pow((*longest).clamp(1, 4))).to_string())
}

/// Returns as many made-up keys as the job may choose.
fn make_up_keys(spec: &Spec, most: &[Vec<usize>]) -> SelectedKeys {
    let codes = |column: &str, most: usize| -> Vec<i64> {
        let Some(column) = spec.columns.iter().find(|own| own.name == column) else { return Vec::new() };
        let mut codes: Vec<i64> = (0..most).filter_map(|number| make_up_key(&column.kind, number)).collect();
        codes.sort_unstable();
        codes
    };
    let of_query = |(query, most): (&TableQuery, &Vec<usize>)| {
        query.group_by.iter().zip(most).map(|(key, most)| codes(key.column(), *most)).collect()
    };
    spec.queries.iter().zip(most).map(of_query).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use undertone_api::dataset::SizeClass;
    use undertone_api::job::analytics::Spec;

    use super::{make_up_keys, make_up_row, most_groups, slowest_release};

    #[expect(clippy::unwrap_used, reason = "the spec is valid, or the test fails")]
    fn spec() -> Spec {
        serde_json::from_value(json!({
            "unit": "user",
            "participants": [{ "dataset": "00000000-0000-0000-0000-000000000001" }],
            "columns": [
                { "name": "age", "kind": "integer", "least": 0, "most": 100 },
                { "name": "code", "kind": "key", "longest": 5 },
            ],
            "queries": [
                { "name": "codes", "group_by": [{ "by": "selected", "column": "code", "most": 20 }],
                  "aggregates": [{ "aggregate": "mean", "column": "age" }] },
            ],
            "noise_multiplier": 1.0,
        }))
        .unwrap()
    }

    /// The period depends on declared facts, and on the number of rows by its size class alone.
    #[test]
    #[expect(clippy::unwrap_used, reason = "the spec has a layout, or the test fails")]
    fn time_of_a_release_grows_with_the_size_class() {
        let spec = spec();
        let (layout, keys) = (spec.layout().unwrap(), spec.key_layout().unwrap());
        let time = |class| slowest_release(SizeClass(class), &spec, &layout, &keys).unwrap();
        assert!(time(1_000_000) > 20 * time(1_000), "{:?} {:?}", time(1_000_000), time(1_000));
    }

    #[test]
    #[expect(clippy::unwrap_used, reason = "the spec has a layout, or the test fails")]
    fn made_up_rows_count_in_made_up_groups() {
        let spec = spec();
        let most = vec![vec![most_groups(&spec.queries[0].group_by[0])]];
        let layout = spec.layout().unwrap().with_keys(&make_up_keys(&spec, &most));
        for row in 0..100 {
            let row = make_up_row(&spec.columns, row, 20);
            assert!(layout.queries()[0].find_cell(&row).is_some(), "{row:?}");
            assert!(!spec.key_layout().unwrap().contribute_steps([&row[..]].into_iter()).is_empty(), "{row:?}");
        }
    }
}
