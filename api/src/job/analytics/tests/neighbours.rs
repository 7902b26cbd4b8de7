//! Brute force over neighbouring tables: no unit changes the vector by more than the sensitivity that is charged.
//!
//! The reference evaluator below computes the vector of a table from the definitions of the plan, row by row, without
//! the code of the layout; it shares with it the offsets and weights of blocks alone.

use std::collections::BTreeMap;

use crate::job::analytics::{
    AggregateMeasure, BlockStatistic, CentredColumn, Comparison, ContributionLimits, DatePeriod, FilterValue, GroupKey,
    RADIUS, RowFilter, TableAggregate, TableQuery, VectorLayout,
};
use crate::table::{CalendarDate, ColumnKind, TableColumn};

type TableRow = [Option<i64>; 5];

/// The pairs of neighbouring tables that the test compares.
const PAIRS: usize = 1_000_000;
/// The threads that share them.
const THREADS: usize = 4;
/// The participants of a plan.
const SITES: usize = 3;
/// The pairs for each plan.
const PAIRS_OF_A_PLAN: usize = 1_000;

/// A generator of 64-bit numbers (splitmix64; Steele, Lea and Flood 2014).
struct TestNumbers(u64);

impl TestNumbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Returns a number of a range, often one of its ends.
    fn draw(&mut self, least: i64, most: i64) -> i64 {
        match self.below(4) {
            0 => least,
            1 => most,
            _ => least + (self.next() % (most.abs_diff(least) + 1)).cast_signed(),
        }
    }
}

fn columns() -> Vec<TableColumn> {
    let date = |text| CalendarDate::parse(text).expect("a date");
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    vec![
        column("flag", ColumnKind::Boolean),
        column("age", ColumnKind::Integer { least: -5, most: 120 }),
        column("weight", ColumnKind::Real { least: 0.0, most: 300.0, step: 0.01 }),
        column("ward", ColumnKind::Category { values: ["a", "b", "c"].map(str::to_owned).to_vec() }),
        column("visit", ColumnKind::Date { first: date("2023-11-20"), last: date("2024-05-20") }),
    ]
}

fn random_row(numbers: &mut TestNumbers, columns: &[TableColumn]) -> TableRow {
    let mut row = [None; 5];
    for (code, column) in row.iter_mut().zip(columns) {
        // Codes beyond the range must not add more either.
        let (least, most) = column.kind.code_range();
        *code = match numbers.below(12) {
            0 => None,
            1 => Some(most.saturating_add(1_000_000)),
            _ => Some(numbers.draw(least, most)),
        };
    }
    row
}

fn random_measure(numbers: &mut TestNumbers) -> AggregateMeasure {
    let column = ["flag", "age", "weight"][numbers.below(3) as usize].to_owned();
    match numbers.below(10) {
        0 => AggregateMeasure::Count { column: None },
        1 => AggregateMeasure::Count { column: Some("ward".to_owned()) },
        2 => AggregateMeasure::CountUnits,
        3 => AggregateMeasure::Sum { column },
        4 => AggregateMeasure::Mean { column },
        5 => AggregateMeasure::Variance { column },
        6 => AggregateMeasure::Histogram { column: "age".to_owned(), edges: vec![0.0, 18.0, 65.0, 120.0] },
        7 => {
            let edges = vec![0.0, 18.0, 65.0, 110.0];
            AggregateMeasure::Survival { time: "age".to_owned(), event: "flag".to_owned(), edges }
        }
        8 => {
            let skipped = numbers.below(4) as usize;
            let columns = ["flag", "age", "weight"].iter().enumerate().filter(|(place, _)| *place != skipped);
            let mut columns: Vec<String> = columns.map(|(_, name)| (*name).to_owned()).collect();
            if numbers.below(2) == 0 {
                let target = columns.remove(0);
                AggregateMeasure::LinearRegression { target, features: columns }
            } else {
                AggregateMeasure::Covariance { columns }
            }
        }
        _ => {
            let levels = 2 + numbers.below(3) as u32;
            let column = ["age", "weight", "visit"][numbers.below(3) as usize].to_owned();
            AggregateMeasure::Quantiles { column, probabilities: vec![0.5], levels }
        }
    }
}

fn random_key(numbers: &mut TestNumbers) -> GroupKey {
    match numbers.below(4) {
        0 => GroupKey::Values { column: "ward".to_owned() },
        1 => GroupKey::Values { column: "flag".to_owned() },
        2 => GroupKey::Ranges { column: "age".to_owned(), edges: vec![0.0, 40.0, 80.0] },
        _ => GroupKey::Dates {
            column: "visit".to_owned(),
            every: DatePeriod::Month,
            first: CalendarDate::parse("2023-12-05").expect("a date"),
            last: CalendarDate::parse("2024-02-10").expect("a date"),
        },
    }
}

fn random_filter(numbers: &mut TestNumbers) -> Option<RowFilter> {
    let compare = |value| RowFilter::Compare {
        column: "age".to_owned(),
        comparison: Comparison::AtLeast,
        value: FilterValue::Integer(value),
    };
    match numbers.below(4) {
        0 => Some(compare(18)),
        1 => Some(RowFilter::Not { of: Box::new(RowFilter::IsNull { column: "weight".to_owned() }) }),
        _ => None,
    }
}

fn random_query(numbers: &mut TestNumbers) -> TableQuery {
    let keys = numbers.below(3);
    let aggregates = 1 + numbers.below(3);
    TableQuery {
        name: "query".to_owned(),
        filter: random_filter(numbers),
        group_by: (0..keys).map(|_| random_key(numbers)).collect(),
        by_site: numbers.below(3) == 0,
        limits: ContributionLimits { rows: 1 + numbers.below(4) as u32, groups: 1 + numbers.below(4) as u32 },
        aggregates: (0..aggregates)
            .map(|_| TableAggregate { measure: random_measure(numbers), share: 0.5 + numbers.below(4) as f64 })
            .collect(),
    }
}

/// Returns the cell of a row in a query, from its definition.
fn reference_cell(query: &TableQuery, row: &TableRow) -> Option<usize> {
    let keeps = match &query.filter {
        None => true,
        Some(RowFilter::Compare { .. }) => row[1].is_some_and(|age| age >= 18),
        Some(_) => row[2].is_some(),
    };
    if !keeps {
        return None;
    }
    let mut cell = 0;
    for key in &query.group_by {
        let (group, groups) = match key {
            GroupKey::Values { column } if column == "ward" => {
                (row[3].filter(|code| (0..3).contains(code))? as usize, 3)
            }
            GroupKey::Values { .. } => (row[0].filter(|code| (0..2).contains(code))? as usize, 2),
            GroupKey::Ranges { .. } => match row[1]? {
                0..40 => (0, 2),
                40..=80 => (1, 2),
                _ => return None,
            },
            GroupKey::Selected { .. } => unreachable!("random queries have declared keys"),
            GroupKey::Dates { .. } => {
                let date = CalendarDate::from_days(row[4]?).ok()?;
                match date.to_parts() {
                    (2023, 12, _) => (0, 3),
                    (2024, 1, _) => (1, 3),
                    (2024, 2, _) => (2, 3),
                    _ => return None,
                }
            }
        };
        cell = cell * groups + group;
    }
    Some(cell)
}

/// Returns the number of groups of a query at one site.
fn reference_groups(query: &TableQuery) -> usize {
    let groups = |key: &GroupKey| match key {
        GroupKey::Values { column } if column == "ward" => 3,
        GroupKey::Values { .. } | GroupKey::Ranges { .. } => 2,
        GroupKey::Selected { .. } => unreachable!("random queries have declared keys"),
        GroupKey::Dates { .. } => 3,
    };
    query.group_by.iter().map(groups).product()
}

/// Returns the integers that a row adds to a cell of a block, from the definition of its statistic.
fn reference_entries(statistic: &BlockStatistic, codes: &[i64], is_first: bool) -> Vec<(usize, f64)> {
    let code = codes.first().copied().unwrap_or_default();
    let part = |place: usize, columns: &[CentredColumn]| {
        let CentredColumn { centre, span } = columns[place];
        let (distance, span) = ((codes[place] - centre) as f64, span as f64);
        (distance.clamp(-span, span), span)
    };
    match statistic {
        BlockStatistic::Rows => vec![(0, 1.0)],
        BlockStatistic::Units => {
            if is_first {
                vec![(0, 1.0)]
            } else {
                Vec::new()
            }
        }
        BlockStatistic::Sum { centre, shift, most, .. } => {
            let term = ((code - centre) as f64 / f64::from(1_u32 << shift)).round();
            vec![(0, term.clamp(-(*most as f64), *most as f64))]
        }
        BlockStatistic::Squares { centre, shift, most, .. } => {
            let term = (((code - centre) as f64).powi(2) / f64::from(1_u32 << shift)).round();
            vec![(0, term.min(*most as f64))]
        }
        BlockStatistic::Bins(_) => match code {
            0..18 => vec![(0, 1.0)],
            18..65 => vec![(1, 1.0)],
            65..=120 => vec![(2, 1.0)],
            _ => Vec::new(),
        },
        BlockStatistic::Tree { least, leaf, levels } => {
            let leaves = 1_i64 << levels;
            let own = (code - least).div_euclid(leaf.cast_signed()).clamp(0, leaves - 1);
            (1..=*levels)
                .map(|level| {
                    let before = (1..level).map(|level| 1_usize << level).sum::<usize>();
                    (before + (own / (leaves / (1_i64 << level))) as usize, 1.0)
                })
                .collect()
        }
        BlockStatistic::LifeTable(_) => {
            let interval = match code {
                0..18 => 0,
                18..65 => 1,
                65..=110 => 2,
                111.. => return vec![(6, 1.0)],
                _ => return Vec::new(),
            };
            vec![(if codes[1] >= 1 { interval } else { 3 + interval }, 1.0)]
        }
        BlockStatistic::Sums { columns, most } => {
            let term = |place: usize| {
                let (distance, span) = part(place, columns);
                (place, (distance * *most as f64 / span).round())
            };
            (0..columns.len()).map(term).collect()
        }
        BlockStatistic::Products { columns, most } => {
            let pairs = (0..columns.len()).flat_map(|first| (first..columns.len()).map(move |second| (first, second)));
            let term = |(first, second): (usize, usize)| {
                let ((one, span), (other, other_span)) = (part(first, columns), part(second, columns));
                (one * other * *most as f64 / (span * other_span)).round()
            };
            pairs.map(term).enumerate().collect()
        }
    }
}

/// Adds the contribution of a unit of a site to a vector, from the definition of the limits, and lists the changed coordinates.
fn add_reference(
    (layout, site): (&VectorLayout, usize),
    queries: &[TableQuery],
    unit: &[TableRow],
    vector: &mut [i128],
    changed: &mut Vec<usize>,
) {
    for (index, query) in queries.iter().enumerate() {
        let mut cells: BTreeMap<usize, Vec<&TableRow>> = BTreeMap::new();
        for row in unit {
            let Some(cell) = reference_cell(query, row) else { continue };
            if cells.contains_key(&cell) || cells.len() < query.limits.groups as usize {
                cells.entry(cell).or_default().push(row);
            }
        }
        let first = if query.by_site { site * reference_groups(query) } else { 0 };
        for (cell, rows) in cells {
            for (place, row) in rows.into_iter().take(query.limits.rows as usize).enumerate() {
                for block in layout.blocks().iter().filter(|block| block.query == index) {
                    let codes: Option<Vec<i64>> = block.columns.iter().map(|column| row[*column]).collect();
                    let Some(codes) = codes else { continue };
                    for (coordinate, value) in reference_entries(&block.statistic, &codes, place == 0) {
                        let coordinate = block.offset + (first + cell) * block.width + coordinate;
                        vector[coordinate] += value as i128 * i128::from(block.weight);
                        changed.push(coordinate);
                    }
                }
            }
        }
    }
    changed.sort_unstable();
    changed.dedup();
}

fn compare_neighbours(pairs: usize, seed: u64) -> f64 {
    let numbers = &mut TestNumbers(seed);
    let columns = columns();
    let mut greatest = 0.0_f64;
    let mut changed = Vec::new();
    for _ in 0..pairs.div_ceil(PAIRS_OF_A_PLAN) {
        let count = 1 + numbers.below(2);
        let queries: Vec<TableQuery> = (0..count).map(|_| random_query(numbers)).collect();
        let layout = VectorLayout::new(&columns, &queries, SITES).expect("a valid plan");
        let site = numbers.below(SITES as u64) as usize;
        let kept = layout.own_coordinates(site);
        let charged = layout.squared_sensitivity();
        assert!(charged <= u128::from(RADIUS).pow(2), "{queries:?}");
        let random_unit = |numbers: &mut TestNumbers| -> Vec<TableRow> {
            let row = random_row(numbers, &columns);
            let rows = numbers.below(9);
            // Often the same row again: then a unit reaches its limit in one cell.
            (0..rows).map(|_| if numbers.below(2) == 0 { row } else { random_row(numbers, &columns) }).collect()
        };
        let others: Vec<Vec<TableRow>> = (0..3).map(|_| random_unit(numbers)).collect();
        let mut without = vec![0; layout.length()];
        for unit in &others {
            add_reference((&layout, site), &queries, unit, &mut without, &mut changed);
        }
        let mut with = without.clone();
        for _ in 0..PAIRS_OF_A_PLAN {
            let unit = random_unit(numbers);
            changed.clear();
            add_reference((&layout, site), &queries, &unit, &mut with, &mut changed);
            let change: Vec<(usize, i128)> =
                changed.iter().map(|place| (*place, with[*place] - without[*place])).filter(|one| one.1 != 0).collect();
            let squared: u128 = change.iter().map(|(_, change)| change.unsigned_abs().pow(2)).sum();
            assert!(change.iter().all(|(place, _)| kept.iter().any(|kept| kept.contains(place))), "{queries:?}");
            assert!(squared <= charged, "{squared} of {charged}: {queries:?} {unit:?}");
            greatest = greatest.max(squared as f64 / charged as f64);
            let own = layout.contribute_steps(site, unit.iter().map(|row| &row[..]));
            let own = own.into_iter().filter(|(_, steps)| *steps != 0).map(|(place, steps)| (place, i128::from(steps)));
            assert!(own.eq(change), "{queries:?} {unit:?}");
            for place in &changed {
                with[*place] = without[*place];
            }
        }
    }
    greatest
}

#[test]
fn neighbouring_tables_never_exceed_the_sensitivity() {
    let greatest = std::thread::scope(|scope| {
        let parts: Vec<_> = (0..THREADS as u64)
            .map(|part| scope.spawn(move || compare_neighbours(PAIRS / THREADS, 22 + part)))
            .collect();
        parts.into_iter().map(|part| part.join().expect("no sensitivity is exceeded")).fold(0.0, f64::max)
    });
    assert!(greatest > 0.95, "some unit nearly reaches the charge: {greatest}");
}
