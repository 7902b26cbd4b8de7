//! The accuracy of estimates on real queries, `data/intents/sgd_turns.csv`: their errors, the queries that they would
//! release with fewer than k occurrences, and the ones that they would miss. The same for the gate, which decides by
//! exact counts.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error;
use std::path::Path;

use datasketches::countmin::CountMinSketch;
use serde_json::json;
use undertone_privacy::PrivacyUnit;
use undertone_worker::config::queries::Queries;
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::queries::bench;
use undertone_worker::queries::dataset::Row;
use undertone_worker::queries::gate::Gate;
use undertone_worker::queries::sketch::{CountMin, DistinctCounter, MeanBackground, SketchKey, TableSize, UpdateRule};

use crate::report::{Outcome, Report};

const FILE: &str = "intents/sgd_turns.csv";
/// Columns of the tables: from far too few to plenty for these rows.
const COLUMNS: [u32; 3] = [2_000, 8_000, 32_000];
const HASHES: u32 = 5;
const THRESHOLDS: [u64; 4] = [5, 10, 20, 50];
const RATES: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

/// An estimator of occurrences.
type Estimate<'a> = &'a dyn Fn(&str) -> f64;

pub(super) fn run(report: &mut Report) -> Outcome {
    let Some(path) = support::workspace::data().map(|folder| folder.join(FILE)).filter(|path| path.is_file()) else {
        return report
            .line(json!({ "estimates": "left out", "because": format!("there is no {FILE}: set UNDERTONE_DATA") }));
    };
    let texts = read(&path)?;
    let mut exact = HashMap::<&str, u64>::new();
    for text in &texts {
        *exact.entry(text).or_default() += 1;
    }
    for error in [0.01, 0.05] {
        let mut sketch = DistinctCounter::for_error(error, SketchKey::fresh())?;
        for text in &texts {
            sketch.add(text);
        }
        let estimate = sketch.estimate();
        report.line(json!({
            "distinct": { "asked_error": error, "standard_error": sketch.relative_error(), "exact": exact.len(),
                "estimate": estimate, "relative_error": estimate / exact.len() as f64 - 1.0 },
        }))?;
    }
    for columns in COLUMNS {
        table(report, &texts, &exact, columns)?;
    }
    gates(report, &texts, &exact)
}

fn read(path: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut rows = csv::Reader::from_path(path)?;
    let column = rows.headers()?.iter().position(|name| name == "text").ok_or("no column `text`")?;
    rows.records().map(|row| Ok(row?.get(column).ok_or("a row without a text")?.to_owned())).collect()
}

/// Measures each estimator on tables of the same size.
fn table(report: &mut Report, texts: &[String], exact: &HashMap<&str, u64>, columns: u32) -> Outcome {
    let size = TableSize::new(HASHES, columns)?;
    let fill = |update| {
        let mut sketch = CountMin::new(size, update, SketchKey::fresh());
        for text in texts {
            sketch.add(text, 1);
        }
        sketch
    };
    let (plain, conservative) = (fill(UpdateRule::Plain), fill(UpdateRule::Conservative));
    let mut apache = CountMinSketch::<u64>::new(HASHES as u8, columns)?;
    for text in texts {
        apache.update(text.as_str());
    }
    let (mean_min, conservative_mean_min) =
        (plain.mean_mins(MeanBackground::Row), conservative.mean_mins(MeanBackground::Row));
    let estimators: [(&str, Estimate<'_>); 5] = [
        ("count-min", &|text| plain.at_most(text) as f64),
        ("count-min, Apache DataSketches", &|text| apache.estimate(text) as f64),
        ("count-min, conservative", &|text| conservative.at_most(text) as f64),
        ("count-mean-min", &mean_min),
        ("count-mean-min, conservative", &conservative_mean_min),
    ];
    for (name, estimate) in estimators {
        let mut errors: Vec<f64> = exact.iter().map(|(text, count)| estimate(text) - *count as f64).collect();
        errors.sort_by(f64::total_cmp);
        let at = |share: f64| errors.get(((errors.len() - 1) as f64 * share) as usize).copied();
        let mean = errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64;
        let decided: Vec<_> = THRESHOLDS
            .iter()
            .map(|k| {
                let passes = |text: &&str| estimate(text) >= *k as f64;
                let of = |wanted: bool, shows: bool| {
                    exact.iter().filter(|(text, count)| (**count >= *k) == wanted && passes(text) == shows).count()
                };
                json!({ "k": k, "shown_below_k": of(false, true), "missed": of(true, false),
                    "truly_k": exact.values().filter(|count| **count >= *k).count() })
            })
            .collect();
        report.line(json!({
            "estimator": name, "columns": columns, "rows_of_table": HASHES, "occurrences": texts.len(), "distinct": exact.len(),
            "mean_absolute_error": mean, "least_error": at(0.0), "median_error": at(0.5), "error_of_99_percent": at(0.99),
            "greatest_error": at(1.0), "if_it_decided": decided,
        }))?;
    }
    Ok(())
}

/// Measures the gate on the same rows: released queries with fewer than k occurrences and, at rate 1, missed ones.
fn gates(report: &mut Report, texts: &[String], exact: &HashMap<&str, u64>) -> Outcome {
    let work = tempfile::tempdir()?;
    let mut violations = 0;
    for rate in RATES {
        for k in THRESHOLDS {
            let settings = serde_json::from_value(json!({ "sampling_rate": rate, "threshold": k, "epsilon": 4.0 }))?;
            let rows = texts
                .iter()
                .map(|text| Ok::<_, Infallible>(Row { text: text.clone(), user: None, count: 1, label: None }));
            let survivors = Gate::new(settings, PrivacyUnit::Record)?.survivors(
                rows,
                texts.len() as u64,
                &Queries::default(),
                work.path(),
                Randomness::from_os(Purpose::Rows),
            )?;
            let wrong = bench::wrong(&survivors, exact, k, rate >= 1.0);
            violations += wrong;
            let truly = exact.values().filter(|count| **count >= k).count() as u64;
            let (passes, _) = bench::sums(&survivors);
            report.line(json!({ "gate": { "sampling_rate": rate, "k": k }, "shown": passes, "violations": wrong, "truly_k": truly }))?;
            if rate >= 1.0 && passes != truly {
                return Err(
                    format!("of all rows, the gate shows {passes} queries with {k} occurrences, not {truly}").into()
                );
            }
        }
    }
    report.line(json!({ "violations_of_k": violations }))?;
    if violations == 0 { Ok(()) } else { Err("a query came through the gate that has too few occurrences".into()) }
}
