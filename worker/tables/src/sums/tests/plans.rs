//! Random jobs and rows.

use serde_json::{Value, json};
use undertone_api::job::analytics::{KeyGroups, SelectedKeys, Spec};
use undertone_api::table::TableColumn;

/// The columns of a row.
pub(super) const WIDTH: usize = 6;
/// The column of keys.
const CODE: usize = 5;

pub(super) type TableRow = [Option<i64>; WIDTH];

/// A generator of 64-bit numbers (splitmix64; Steele, Lea and Flood 2014).
pub(super) struct TestNumbers(pub(super) u64);

impl TestNumbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn choose<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize].clone()
    }
}

/// Returns the columns of each job.
fn columns() -> Value {
    json!([
        { "name": "flag", "kind": "boolean" },
        { "name": "age", "kind": "integer", "least": -5, "most": 120 },
        { "name": "weight", "kind": "real", "least": 0.0, "most": 300.0, "step": 0.01 },
        { "name": "ward", "kind": "category", "values": ["a", "b", "c"] },
        { "name": "visit", "kind": "date", "first": "2023-11-20", "last": "2024-05-20" },
        { "name": "code", "kind": "key", "longest": 3 },
    ])
}

/// Returns a job of one to three sites with one or two queries.
pub(super) fn random_spec(numbers: &mut TestNumbers) -> Spec {
    let sites = 1 + numbers.below(3);
    let dataset = |site: u64| json!({ "dataset": format!("00000000-0000-0000-0000-00000000000{site}") });
    let queries: Vec<Value> = (0..=numbers.below(2)).map(|_| random_query(numbers)).collect();
    let spec = json!({
        "unit": "user",
        "participants": (0..sites).map(dataset).collect::<Vec<_>>(),
        "columns": columns(),
        "queries": queries,
        "noise_multiplier": 1.0,
    });
    serde_json::from_value(spec).expect("a spec")
}

fn random_query(numbers: &mut TestNumbers) -> Value {
    let keys: Vec<Value> = (0..numbers.below(3)).map(|_| random_key(numbers)).collect();
    let aggregates: Vec<Value> = (0..=numbers.below(3)).map(|_| random_aggregate(numbers)).collect();
    let mut query = json!({
        "name": "query",
        "group_by": keys,
        "by_site": numbers.below(3) == 0,
        "limits": { "rows": 1 + numbers.below(4), "groups": 1 + numbers.below(4) },
        "aggregates": aggregates,
    });
    if numbers.below(2) == 0 {
        query["filter"] = random_filter(numbers, 3);
    }
    query
}

fn random_key(numbers: &mut TestNumbers) -> Value {
    numbers.choose(&[
        json!({ "by": "values", "column": "ward" }),
        json!({ "by": "values", "column": "flag" }),
        json!({ "by": "ranges", "column": "age", "edges": [0, 40, 80] }),
        // Its codes are too many for a table.
        json!({ "by": "ranges", "column": "weight", "edges": [0, 0.01, 100.5, 299] }),
        json!({ "by": "selected", "column": "code", "most": 4 }),
        json!({ "by": "dates", "column": "visit", "every": "month", "first": "2023-12-05", "last": "2024-02-10" }),
    ])
}

fn random_aggregate(numbers: &mut TestNumbers) -> Value {
    let number = numbers.choose(&["flag", "age", "weight"]);
    let ordered = numbers.choose(&["age", "weight", "visit"]);
    let levels = 2 + numbers.below(3);
    let mut aggregate = numbers.choose(&[
        json!({ "aggregate": "count" }),
        json!({ "aggregate": "count", "column": "ward" }),
        json!({ "aggregate": "count_units" }),
        json!({ "aggregate": "sum", "column": number }),
        json!({ "aggregate": "mean", "column": number }),
        json!({ "aggregate": "variance", "column": number }),
        json!({ "aggregate": "histogram", "column": "age", "edges": [0, 18, 65, 120] }),
        json!({ "aggregate": "histogram", "column": "ward" }),
        json!({ "aggregate": "survival", "time": "age", "event": "flag", "edges": [0, 18, 65, 110] }),
        json!({ "aggregate": "covariance", "columns": ["age", "flag", "weight"] }),
        json!({ "aggregate": "linear_regression", "target": "weight", "features": ["age"] }),
        json!({ "aggregate": "quantiles", "column": ordered, "probabilities": [0.5], "levels": levels }),
    ]);
    aggregate["share"] = json!(0.5 + numbers.below(4) as f64);
    aggregate
}

/// Returns a condition with parts up to a depth.
fn random_filter(numbers: &mut TestNumbers, depth: u32) -> Value {
    if depth > 1 && numbers.below(2) == 0 {
        let parts: Vec<Value> = (0..numbers.below(4)).map(|_| random_filter(numbers, depth - 1)).collect();
        return match numbers.below(3) {
            0 => json!({ "op": "not", "of": random_filter(numbers, depth - 1) }),
            1 => json!({ "op": "and", "of": parts }),
            _ => json!({ "op": "or", "of": parts }),
        };
    }
    let comparison = numbers.choose(&["equal", "not_equal", "less", "at_most", "greater", "at_least"]);
    let age = numbers.below(130);
    let ages: Vec<u64> = (0..=numbers.below(40)).map(|_| numbers.below(130)).collect();
    let column = numbers.choose(&["flag", "age", "weight", "ward", "visit", "code"]);
    numbers.choose(&[
        json!({ "op": "compare", "column": "age", "comparison": comparison, "value": age }),
        json!({ "op": "in", "column": "age", "values": ages }),
        json!({ "op": "in", "column": "ward", "values": ["a", "c"] }),
        json!({ "op": "between", "column": "visit", "low": "2023-12-24", "high": "2024-03-01" }),
        json!({ "op": "is_null", "column": column }),
    ])
}

/// Returns up to eight rows, often equal ones: then a unit reaches its limit in one cell.
pub(super) fn random_rows(numbers: &mut TestNumbers, spec: &Spec) -> Vec<TableRow> {
    let row = random_row(numbers, &spec.columns);
    (0..numbers.below(9))
        .map(|_| if numbers.below(2) == 0 { row } else { random_row(numbers, &spec.columns) })
        .collect()
}

fn random_row(numbers: &mut TestNumbers, columns: &[TableColumn]) -> TableRow {
    let mut row = [None; WIDTH];
    for (code, column) in row.iter_mut().zip(columns) {
        let (least, most) = column.kind.code_range();
        let width = most.abs_diff(least) + 1;
        // Codes beyond the range must not add more either. Few keys are codes of no key.
        *code = match numbers.below(12) {
            0 => None,
            1 => Some(numbers.choose(&[most.saturating_add(1_000_000), least - 1, i64::MIN])),
            2 | 3 => Some(least),
            4 | 5 => Some(most),
            6 => Some(least + numbers.below(width).cast_signed()),
            _ if column.name == "code" => random_code(numbers, column),
            _ => Some(least + numbers.below(width).cast_signed()),
        };
    }
    row
}

/// Returns the code of one of thirty keys.
fn random_code(numbers: &mut TestNumbers, column: &TableColumn) -> Option<i64> {
    column.kind.encode_key(&format!("A{}", numbers.below(30)))
}

/// Returns chosen keys for each key of a query that selects them: often fewer than the most.
pub(super) fn select_keys(numbers: &mut TestNumbers, spec: &Spec) -> SelectedKeys {
    let layout = spec.layout().expect("a valid plan");
    let mut selected = SelectedKeys::new();
    for query in layout.queries() {
        let mut keys = Vec::new();
        for key in &query.keys {
            let count = if matches!(key, KeyGroups::Selected { .. }) { numbers.below(6) } else { 0 };
            let mut codes: Vec<i64> = (0..count).filter_map(|_| random_code(numbers, &spec.columns[CODE])).collect();
            codes.sort_unstable();
            codes.dedup();
            keys.push(codes);
        }
        selected.push(keys);
    }
    selected
}
