//! The choice of keys: what is found, what a unit can change, and what it costs.

use std::collections::BTreeSet;

use serde_json::json;
use undertone_privacy::NoiseMultiplier;
use undertone_privacy::special::normal_quantile;

use super::datasets;
use crate::job::JobKind as _;
use crate::job::analytics::{BUCKETS, KEYS, KeyLayout, RADIUS, SelectedKeys, Spec, VECTOR};

/// Splitmix64 (Steele, Lea and Flood 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

/// Returns a job that counts units by code, of adults, and by code and sex.
fn spec() -> Spec {
    let parties = datasets().map(|dataset| json!({ "dataset": dataset.id }));
    serde_json::from_value(json!({
        "unit": "user",
        "participants": parties,
        "columns": [
            { "name": "code", "kind": "key", "longest": 5 },
            { "name": "age", "kind": "integer", "least": 0, "most": 120 },
        ],
        "queries": [
            { "name": "codes", "filter": { "op": "compare", "column": "age", "comparison": "at_least", "value": 18 },
              "group_by": [{ "by": "selected", "column": "code", "most": 3 }], "limits": { "groups": 2 },
              "aggregates": [{ "aggregate": "count_units" }] },
            { "name": "codes by age",
              "group_by": [{ "by": "ranges", "column": "age", "edges": [0, 60, 120] },
                           { "by": "selected", "column": "code", "most": 10 }],
              "aggregates": [{ "aggregate": "count" }] },
        ],
        "noise_multiplier": 2.0,
    }))
    .unwrap()
}

fn code(spec: &Spec, text: &str) -> i64 {
    spec.columns[0].kind.encode_key(text).unwrap()
}

/// Returns the sums of units with one row each, in multiples of C, with the noise of `sites` sites.
fn sums(spec: &Spec, layout: &KeyLayout, units: &[(&str, i64, usize)], sites: u32, seed: u64) -> Vec<f64> {
    let mut sums = vec![0.0; layout.length()];
    for (text, age, count) in units {
        let row = [Some(code(spec, text)), Some(*age)];
        for (place, steps) in layout.contribute_steps([&row[..]].into_iter()) {
            sums[place] += steps as f64 / RADIUS as f64 * *count as f64;
        }
    }
    let deviation = spec.noise_multiplier.get() * f64::from(sites).sqrt();
    let mut state = seed;
    if seed > 0 {
        for sum in &mut sums {
            *sum += deviation * normal_quantile((next(&mut state) >> 11) as f64 / (1_u64 << 53) as f64 + 1e-17);
        }
    }
    sums
}

fn texts(spec: &Spec, codes: &[i64]) -> Vec<String> {
    codes.iter().map(|code| spec.columns[0].kind.display_code(*code)).collect()
}

#[test]
fn most_frequent_keys_are_chosen_in_the_order_of_their_texts() {
    let mut spec = spec();
    spec.noise_multiplier = NoiseMultiplier::new(1.0 / 1024.0).unwrap();
    let layout = spec.key_layout().unwrap();
    let units = [("Z", 40, 50), ("A1", 40, 20), ("B2", 40, 30), ("C3", 40, 40), ("D4", 10, 90)];
    let selected = spec.select_keys(&sums(&spec, &layout, &units, 1, 0), 1).unwrap();
    assert_eq!(texts(&spec, &selected[0][0]), ["B2", "C3", "Z"], "three of the adults");
    assert_eq!(selected[1][0], Vec::<i64>::new(), "a declared key has no chosen ones");
    assert_eq!(texts(&spec, &selected[1][1]), ["A1", "B2", "C3", "D4", "Z"]);
    assert!(spec.select_keys(&[0.0; 3], 1).is_err(), "a vector of another length");
}

#[test]
fn chosen_keys_name_the_groups_of_the_report() {
    let spec = spec();
    let layout = spec.layout().unwrap();
    let selected: SelectedKeys = vec![vec![vec![code(&spec, "A1"), code(&spec, "B2")]], vec![vec![], vec![]]];
    let mut sums = vec![0.0; layout.length()];
    let block = &layout.blocks()[0];
    sums[block.coordinates(1).start] = 500.0 * block.factor();
    let report = spec.report_keys(&selected, &sums, 2).unwrap();
    let groups: Vec<&[String]> = report.queries[0].cells.iter().map(|cell| &cell.groups[..]).collect();
    assert_eq!(groups, [["A1"], ["B2"]], "places without a chosen key are not listed");
    assert!((report.queries[0].cells[1].aggregates[0].numbers[0].value.unwrap() - 500.0).abs() < 1e-6);
    assert!(report.queries[1].cells.is_empty());
    // A row counts in the group of its key, and a key that was not chosen in none.
    let layout = layout.with_keys(&selected);
    let cell = |text: &str, age| layout.queries()[0].find_cell(&[Some(code(&spec, text)), Some(age)]);
    assert_eq!([cell("A1", 30), cell("B2", 30), cell("C3", 30), cell("A1", 3)], [Some(0), Some(1), None, None]);
}

#[test]
fn no_unit_changes_the_choice_by_more_than_the_sensitivity() {
    let mut state = 7;
    let mut greatest = 0.0_f64;
    for groups in [1, 2, 5, 1000] {
        let mut spec = spec();
        spec.queries.iter_mut().for_each(|query| query.limits.groups = groups);
        let layout = spec.key_layout().unwrap();
        let charged = layout.squared_sensitivity();
        assert!(charged <= u128::from(RADIUS).pow(2), "{groups}");
        let most = spec.columns[0].kind.code_range().1;
        for _ in 0..2_000 {
            let rows: Vec<[Option<i64>; 2]> = (0..next(&mut state) % 12)
                .map(|_| {
                    let random = next(&mut state);
                    let text = format!("{:X}", random % 40);
                    let key = match random >> 60 {
                        0 => None,
                        // Codes of no key, and beyond the range, must not add more either.
                        1 => Some((random >> 8).cast_signed() % most),
                        2 => Some(i64::MIN),
                        _ => Some(code(&spec, &text)),
                    };
                    [key, Some((random >> 32).cast_signed() % 90)]
                })
                .collect();
            let entries = layout.contribute_steps(rows.iter().map(|row| &row[..]));
            assert!(entries.is_sorted_by(|one, next| one.0 < next.0), "each coordinate once");
            let squared: u128 = entries.iter().map(|(_, steps)| u128::from(steps.unsigned_abs()).pow(2)).sum();
            assert!(squared <= charged, "{squared} of {charged}: {rows:?}");
            greatest = greatest.max(squared as f64 / charged as f64);
        }
    }
    assert!(greatest > 0.999, "some unit reaches the charge: {greatest}");
}

#[test]
fn keys_of_a_unit_in_one_bucket_count_once() {
    let mut spec = spec();
    spec.queries.truncate(1);
    spec.queries[0].filter = None;
    let layout = spec.key_layout().unwrap();
    let bucket = |text: &str| {
        let row = [Some(code(&spec, text)), None];
        layout.contribute_steps([&row[..]].into_iter())[0].0 / (layout.length() / BUCKETS)
    };
    // Among more texts than buckets two share one.
    let mut seen = std::collections::BTreeMap::new();
    let (one, other) = (0..)
        .map(|number| format!("{number}"))
        .find_map(|text| seen.insert(bucket(&text), text.clone()).map(|before| (before, text)))
        .unwrap();
    let rows = [[Some(code(&spec, &one)), None], [Some(code(&spec, &other)), None]];
    let both = layout.contribute_steps(rows.iter().map(|row| &row[..]));
    assert_eq!(both, layout.contribute_steps([&rows[0][..]].into_iter()));
}

#[test]
fn key_of_the_stated_units_is_found_in_nine_of_ten_choices() {
    let mut spec = spec();
    spec.queries.truncate(1);
    let layout = spec.key_layout().unwrap();
    let sites = 2;
    let least = layout.least_units(spec.noise_multiplier.get(), sites).ceil() as usize;
    assert!(least > 20 && least < 200, "{least}");
    let mut found = 0;
    let mut invented = BTreeSet::new();
    for seed in 1..=60 {
        let sums = sums(&spec, &layout, &[("I21.4", 40, least), ("E11", 40, least / 10)], sites, seed * 7919);
        let selected = spec.select_keys(&sums, sites).unwrap();
        let texts = texts(&spec, &selected[0][0]);
        found += usize::from(texts.contains(&"I21.4".to_owned()));
        invented.extend(texts.into_iter().filter(|text| text != "I21.4"));
    }
    assert!((49..=60).contains(&found), "{found} of 60");
    assert!(invented.len() <= 1, "{invented:?}");
}

#[test]
fn choice_of_keys_is_a_second_release_at_the_same_price() {
    let spec = spec();
    let datasets = datasets();
    let charge = spec.cost(&datasets[0]).unwrap();
    assert_eq!((charge.releases, charge.event.clone()), (2, spec.event()));
    let of_series = |series| spec.release(&datasets[0], series);
    assert_eq!([of_series(KEYS), of_series(VECTOR)], [Some(spec.event()), Some(spec.event())]);
    assert_eq!(of_series("another"), None);
    let series = spec.series(&datasets);
    let names: Vec<_> = series.iter().map(|one| (one.name.as_str(), one.length)).collect();
    let lengths = [spec.key_layout().unwrap().length(), spec.layout().unwrap().length()].map(|length| length as u64);
    assert_eq!(names, [(KEYS, Some(lengths[0])), (VECTOR, Some(lengths[1]))]);
    for one in &series {
        let norm = spec.most_norm(&datasets[0], one).unwrap();
        let noise = 2.0 * (one.length.unwrap() as f64).sqrt();
        assert!(norm > noise && norm < 3.0 * noise + 10_000.0, "{}: {norm}", one.name);
    }
    let (declared, _) = super::example();
    assert!(!declared.selects_keys() && declared.series(&datasets).len() == 1);
    assert_eq!(declared.release(&datasets[0], KEYS), None, "no query selects keys");
}

#[test]
fn limits_of_the_choice_name_their_fields() {
    let mut datasets = datasets();
    for dataset in &mut datasets {
        dataset.table.as_mut().unwrap().columns = spec().columns;
    }
    let fields = |change: &dyn Fn(&mut serde_json::Value)| -> Vec<String> {
        let mut value = serde_json::to_value(spec()).unwrap();
        change(&mut value);
        let spec: Spec = serde_json::from_value(value).unwrap();
        spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
    };
    assert_eq!(fields(&|_| ()), [""; 0]);
    for most in [0, 1001] {
        let found = fields(&|spec| spec["queries"][0]["group_by"][0]["most"] = json!(most));
        assert_eq!(found, ["spec.queries.0.group_by.0.most"], "{most}");
    }
    let found = fields(&|spec| spec["queries"][0]["group_by"][0]["column"] = json!("age"));
    assert_eq!(found, ["spec.queries.0.group_by.0"], "only keys are chosen");
    let found = fields(&|spec| spec["queries"][0]["group_by"][0] = json!({ "by": "values", "column": "code" }));
    assert_eq!(found, ["spec.queries.0.group_by.0"], "keys have no declared groups");
    let found = fields(&|spec| spec["queries"][0]["aggregates"][0] = json!({ "aggregate": "sum", "column": "code" }));
    assert_eq!(found, ["spec.queries.0.aggregates.0"], "keys have no sum");
    let many = |spec: &mut serde_json::Value| {
        let query = spec["queries"][0].clone();
        spec["queries"] = std::iter::repeat_n(query, 12).collect();
    };
    assert_eq!(fields(&many), ["spec.queries.9.group_by.0"], "the vector of the choice has a greatest length");
}
