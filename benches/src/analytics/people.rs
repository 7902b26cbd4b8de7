//! The rows: made-up people, one row each, the same for each size.

use undertone_api::table::{CalendarDate, TableSchema};

/// The codes of a row, in the order of the schema: age, sex, region, income, tenths of the weight, smoker, day of the
/// visit since 1970-01-01.
pub(super) type PersonRow = [i64; 7];

/// The first day of a visit, and the days of two years.
const FIRST_DAY: i64 = 19_723;
const DAYS: u64 = 731;
/// The regions.
pub(super) const REGIONS: u64 = 8;
/// The age from which the second query counts.
pub(super) const OLD: i64 = 65;
/// The edges of the histogram of ages.
pub(super) const EDGES: [i64; 9] = [0, 15, 30, 45, 60, 75, 90, 105, 120];
/// The probabilities of the quantiles.
pub(super) const PROBABILITIES: [f64; 3] = [0.25, 0.5, 0.75];

/// A query of the measurement.
#[derive(Debug, Clone, Copy)]
pub(super) struct BenchQuery {
    pub(super) name: &'static str,
    pub(super) sql: &'static str,
}

const fn query(name: &'static str, sql: &'static str) -> BenchQuery {
    BenchQuery { name, sql }
}

/// The twelve queries.
pub(super) const QUERIES: [BenchQuery; 12] = [
    query("count of rows", "SELECT count(*) FROM t"),
    query("count of units with a filter", "SELECT count(DISTINCT person) FROM t WHERE age >= 65"),
    query("count by sex", "SELECT sex, count(*) FROM t GROUP BY sex"),
    query("sum", "SELECT sum(income) FROM t"),
    query("mean", "SELECT avg(age) FROM t"),
    query("mean by region", "SELECT region, avg(income) FROM t GROUP BY region"),
    query("variance", "SELECT variance(weight) FROM t"),
    query("histogram of numbers", "SELECT histogram(age, 0, 15, 30, 45, 60, 75, 90, 105, 120) FROM t"),
    query("histogram of categories with a filter", "SELECT histogram(region) FROM t WHERE smoker"),
    query("quantiles", "SELECT quantiles(age, 0.25, 0.5, 0.75) FROM t"),
    query("count by month", "SELECT date_trunc('month', visit), count(*) FROM t GROUP BY date_trunc('month', visit)"),
    query("correlation", "SELECT covariance(age, weight) FROM t"),
];

/// Returns the declared columns.
pub(super) fn schema() -> Result<TableSchema, serde_json::Error> {
    serde_json::from_value(serde_json::json!({
        "unit_column": "person",
        "columns": [
            { "name": "age", "kind": "integer", "least": 0, "most": 120 },
            { "name": "sex", "kind": "category", "values": ["f", "m", "o"] },
            { "name": "region", "kind": "category", "values": ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"] },
            { "name": "income", "kind": "integer", "least": 0, "most": 200_000 },
            { "name": "weight", "kind": "real", "least": 0.0, "most": 200.0, "step": 0.1 },
            { "name": "smoker", "kind": "boolean" },
            { "name": "visit", "kind": "date", "first": "2024-01-01", "last": "2025-12-31" },
        ],
    }))
}

/// Returns the row of a person.
pub(super) fn person(number: u64) -> PersonRow {
    let mut state = number.wrapping_mul(0x2545_F491_4F6C_DD1D);
    let mut draw = |end: u64| {
        // splitmix64 (Steele, Lea and Flood 2014)
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) % end).cast_signed()
    };
    let age = 18 + draw(40) + draw(40);
    let sex = [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 2][draw(20) as usize];
    let region = draw(REGIONS);
    let income = 20_000 + draw(40_000) + draw(40_000) + draw(60_000);
    let weight = 450 + 3 * age + draw(200) + draw(200);
    let smoker = i64::from(draw(5) == 0);
    [age, sex, region, income, weight, smoker, FIRST_DAY + draw(DAYS)]
}

/// Returns the row as a line of CSV, after the unit.
pub(super) fn format_row(row: &PersonRow) -> String {
    let [age, sex, region, income, weight, smoker, visit] = *row;
    let sex = ["f", "m", "o"][sex as usize];
    let date = CalendarDate::from_days(visit).map_or_else(|_| String::new(), |date| date.to_string());
    format!("{age},{sex},r{region},{income},{}.{},{},{date}", weight / 10, weight % 10, smoker == 1)
}

/// Returns the place of a visit's month among the two years.
pub(super) fn month(day: i64) -> usize {
    CalendarDate::from_days(day).map_or(0, |date| {
        let (year, month, _) = date.to_parts();
        (year as usize - 2024) * 12 + usize::from(month) - 1
    })
}
