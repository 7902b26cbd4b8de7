//! All cases of `sketch.json`: the cells of tables, their estimates, and the counterexamples to count-mean-min.
//!
//! For `HyperLogLog` the file has registers of another hash and the estimators of the literature. The library has
//! neither. The test therefore computes them independently and checks them against the file to the last digit; the
//! library must come as near to the truth on the same keys.

use datasketches::hll::{HllSketch, HllType};
use serde_json::Value;

use super::super::key::CellColumns;
use super::super::{CountMin, MeanBackground, SketchKey, TableSize, UpdateRule};
use undertone_worker_site::testing::fixture;

fn splitmix64(state: u64) -> u64 {
    let state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    state ^ (state >> 31)
}

fn integer(case: &Value, field: &str) -> u64 {
    case[field].as_u64().unwrap_or_else(|| panic!("{field} of {}", case["id"]))
}

/// A table with the hash of the vectors: row r's seed is splitmix64(seed · 1000 + r), the column splitmix64(key ⊕ that)
/// mod width.
struct VectorTable {
    sketch: CountMin,
    seed: u64,
    size: TableSize,
}

impl VectorTable {
    fn from_case(case: &Value, update: UpdateRule) -> Self {
        let size = TableSize::new(integer(case, "depth") as u32, integer(case, "width") as u32).unwrap();
        Self { sketch: CountMin::new(size, update, SketchKey::in_test(0)), seed: integer(case, "seed"), size }
    }

    fn places(&self, key: u64) -> CellColumns {
        let seed = self.seed * 1000;
        let columns = u64::from(self.size.columns());
        CellColumns::from_rows(self.size.rows(), |row| {
            (splitmix64(key ^ splitmix64(seed + u64::from(row))) % columns) as u32
        })
    }

    fn add(&mut self, key: u64, count: u64) {
        self.sketch.add_at(&self.places(key), count);
    }

    fn at_most(&self, key: u64) -> f64 {
        self.sketch.table_least(&self.places(key)) as f64
    }

    fn mean_min(&self, key: u64, background: MeanBackground) -> f64 {
        self.sketch.mean_min_at(&self.places(key), &self.sketch.sums(background))
    }
}

fn assert_near(found: f64, expected: &Value, what: &str) {
    let expected = expected.as_f64().unwrap_or_else(|| panic!("{what} is a number"));
    assert!((found - expected).abs() <= 1e-12 * expected.abs(), "{what}: {found}, not {expected}");
}

fn state(case: &Value) {
    let update = if case["conservative"].as_bool().unwrap() { UpdateRule::Conservative } else { UpdateRule::Plain };
    let mut table = VectorTable::from_case(case, update);
    for item in case["items"].as_array().unwrap() {
        table.add(item.as_u64().unwrap(), 1);
    }
    assert_eq!(serde_json::json!(table.sketch.rows()), case["table"]);
    for (key, expected) in case["estimates_min"].as_object().unwrap() {
        assert_near(table.at_most(key.parse().unwrap()), expected, "the minimum");
    }
    for (field, background) in [("estimates_cmm_N", MeanBackground::All), ("estimates_cmm_rowsum", MeanBackground::Row)]
    {
        for (key, expected) in case[field].as_object().unwrap() {
            assert_near(table.mean_min(key.parse().unwrap(), background), expected, field);
        }
    }
}

fn counterexample(case: &Value) {
    let mut table = VectorTable::from_case(case, UpdateRule::Conservative);
    for row in case["stream"].as_array().unwrap() {
        table.add(row[0].as_u64().unwrap(), row[1].as_u64().unwrap());
    }
    let query = integer(case, "query");
    assert_near(table.at_most(query), &case["cu_estimate"], "the minimum");
    assert_near(table.mean_min(query, MeanBackground::All), &case["cmm_cu_estimate_N"], "count-mean-min");
    assert_near(table.mean_min(query, MeanBackground::Row), &case["cmm_cu_estimate_rowsum"], "count-mean-min by rows");
    assert!(table.at_most(query) >= integer(case, "true_count") as f64);
}

/// Estimates by Ertl 2017, Algorithm 6, from the number of registers with each value, 0 to q + 1.
fn ertl(histogram: &[u64]) -> f64 {
    let registers: u64 = histogram.iter().sum();
    let m = registers as f64;
    let q = histogram.len() - 2;
    let share = |value: usize| histogram[value] as f64 / m;
    let mut z = m * tau(1.0 - share(q + 1));
    for value in (1..=q).rev() {
        z = f64::midpoint(z, histogram[value] as f64);
    }
    z += m * sigma(share(0));
    m * m / (2.0 * std::f64::consts::LN_2 * z)
}

fn sigma(mut x: f64) -> f64 {
    if x >= 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * y;
        y += y;
        if sum <= before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return 0.0;
    }
    let (mut y, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        y *= 0.5;
        sum -= (1.0 - x).powi(2) * y;
        if sum >= before {
            return sum / 3.0;
        }
    }
}

fn hyper_log_log(case: &Value) {
    let precision = integer(case, "p") as u32;
    let count = integer(case, "n_true");
    let hashes = || (0..count).map(|index| splitmix64((integer(case, "seed") << 40) + index));
    let mut registers = vec![0_u32; 1 << precision];
    for hash in hashes() {
        let rank = ((hash << precision).leading_zeros() + 1).min(64 - precision + 1);
        let register = &mut registers[(hash >> (64 - precision)) as usize];
        *register = (*register).max(rank);
    }
    let mut histogram = vec![0_u64; 64 - precision as usize + 2];
    for value in registers {
        histogram[value as usize] += 1;
    }
    for (value, count) in histogram.iter().enumerate() {
        let expected = case["register_histogram"].get(value.to_string()).and_then(Value::as_u64).unwrap_or(0);
        assert_eq!(*count, expected, "registers of {value} in {}", case["id"]);
    }
    let reference = ertl(&histogram);
    assert_near(reference, &case["ertl_improved"], "Ertl's estimate");
    // The library on the same keys, by its own hash of ours.
    let mut sketch = HllSketch::new(precision as u8, HllType::Hll8).unwrap();
    for hash in hashes() {
        sketch.update(hash.to_le_bytes());
    }
    let truth = count as f64;
    let error = 1.04 / f64::from(1_u32 << precision).sqrt();
    for estimate in [sketch.estimate(), sketch.composite_estimate()] {
        assert!((estimate - truth).abs() <= 3.0 * error * truth, "{}: {estimate}", case["id"]);
        assert!((estimate - reference).abs() <= 4.0 * error * truth, "{}: {estimate}", case["id"]);
    }
}

/// Needs the shared vectors (`UNDERTONE_VECTORS`).
#[test]
fn sketches_match_the_vectors() {
    let mut kinds = [0; 3];
    for case in &fixture::cases("sketch") {
        let (kind, check): (usize, fn(&Value)) = match case["kind"].as_str().unwrap() {
            "hll" => (0, hyper_log_log),
            "cmm_cu_counterexample" => (1, counterexample),
            "sketch_state" => (2, state),
            kind => panic!("a kind of case that nobody checks: {kind}"),
        };
        kinds[kind] += 1;
        check(case);
    }
    assert!(kinds.iter().all(|cases| *cases > 0), "{kinds:?}");
}
