//! Numbers of the report: exact without noise, covered by their intervals with it, hidden when small.

use undertone_privacy::NoiseMultiplier;

use super::example;
use crate::job::analytics::{
    AggregateMeasure, ContributionLimits, NumberEstimate, RADIUS, Report, Spec, TableAggregate, TargetError,
};
use crate::table::{ColumnKind, TableColumn};

type TableRow = [Option<i64>; 4];

/// Patients: age, sex, glucose in tenths, day of a visit in 2024.
fn patients(count: i64) -> Vec<TableRow> {
    let patient = |n: i64| [Some(20 + n * 7 % 80), Some(n % 2), Some(40 + n * 13 % 100), Some(19_723 + n % 366)];
    (0..count).map(patient).collect()
}

fn spec() -> Spec {
    let mut spec = example().0;
    spec.queries.truncate(1);
    spec.queries[0].filter = None;
    spec.queries[0].limits = ContributionLimits::default();
    let aggregate = |measure| TableAggregate { measure, share: 1.0 };
    let column = || "glucose".to_owned();
    spec.queries[0].aggregates = vec![
        aggregate(AggregateMeasure::CountUnits),
        aggregate(AggregateMeasure::Mean { column: "age".to_owned() }),
        aggregate(AggregateMeasure::Variance { column: column() }),
        aggregate(AggregateMeasure::Quantiles { column: column(), probabilities: vec![0.25, 0.5, 0.75], levels: 8 }),
        aggregate(AggregateMeasure::Sum { column: column() }),
    ];
    spec
}

/// Returns the sum over the patients.
fn sums<const N: usize>(spec: &Spec, patients: &[[Option<i64>; N]]) -> Vec<f64> {
    let layout = spec.layout().expect("a valid plan");
    let mut sums = vec![0.0; layout.length()];
    for patient in patients {
        for (coordinate, steps) in layout.contribute_steps(0, std::iter::once(&patient[..])) {
            sums[coordinate] += steps as f64 / RADIUS as f64;
        }
    }
    sums
}

/// Returns sums with the noise of the spec.
fn noisy(spec: &Spec, sums: &[f64], mut seed: u64) -> Vec<f64> {
    // The sum of 12 uniform numbers less 6 has the variance 1 and nearly the tails of a normal one.
    let mut uniform = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 11) as f64 / (1_u64 << 53) as f64
    };
    let z = spec.noise_multiplier.get();
    sums.iter().map(|sum| sum + z * ((0..12).map(|_| uniform()).sum::<f64>() - 6.0)).collect()
}

/// Returns the numbers of a report in order: cells, aggregates, numbers.
fn numbers(report: &Report) -> Vec<&NumberEstimate> {
    let cells = report.queries.iter().flat_map(|query| &query.cells);
    cells.flat_map(|cell| &cell.aggregates).flat_map(|aggregate| &aggregate.numbers).collect()
}

/// Returns the exact numbers of the cells female, male and other.
fn truths(patients: &[TableRow]) -> Vec<f64> {
    let mut all = Vec::new();
    for sex in 0..3 {
        let own: Vec<&TableRow> = patients.iter().filter(|row| row[1] == Some(sex)).collect();
        let values = |column: usize, step: f64| -> Vec<f64> {
            own.iter().filter_map(|row| row[column]).map(|code| code as f64 * step).collect()
        };
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let mut glucose = values(2, 0.1);
        glucose.sort_by(f64::total_cmp);
        let centre = mean(&glucose);
        let variance = mean(&glucose.iter().map(|value| (value - centre).powi(2)).collect::<Vec<_>>());
        let quantile = |part: f64| glucose.get((part * glucose.len() as f64) as usize).copied().unwrap_or_default();
        all.extend([own.len() as f64, mean(&values(0, 1.0)), centre, variance, variance.sqrt()]);
        all.extend([0.25, 0.5, 0.75].map(quantile));
        all.push(glucose.iter().sum());
    }
    all
}

#[test]
fn sums_without_noise_give_the_exact_numbers() {
    let spec = spec();
    let patients = patients(8000);
    let mut quiet = spec.clone();
    quiet.noise_multiplier = NoiseMultiplier::new(1.0 / 1024.0).expect("in range");
    let report = quiet.report(&sums(&spec, &patients), 1).expect("of this layout");
    let truths = truths(&patients);
    let estimates = numbers(&report);
    assert_eq!(estimates.len(), truths.len());
    for (estimate, truth) in estimates.iter().zip(&truths).take(18) {
        let value = estimate.value.expect("little noise");
        assert!((value - truth).abs() <= 2e-3 * truth.abs() + 0.2, "{estimate:?}: {truth}");
    }
    assert_eq!(report.queries[0].cells[1].groups, ["male"]);
    assert!(quiet.report(&[0.0; 3], 1).is_err());
}

#[test]
fn intervals_cover_nineteen_of_twenty() {
    let spec = spec();
    let patients = patients(8000);
    let truths = truths(&patients);
    let sums = sums(&spec, &patients);
    let mut covered = 0;
    let mut all = 0;
    for seed in 1..200 {
        let report = spec.report(&noisy(&spec, &sums, seed * 7919), 1).expect("of this layout");
        // The cells with patients: without them a mean has no truth.
        for (estimate, truth) in numbers(&report).into_iter().zip(&truths).take(18) {
            covered += u32::from(estimate.covers(*truth));
            all += 1;
        }
    }
    let share = f64::from(covered) / f64::from(all);
    assert!((0.94..=0.995).contains(&share), "{share} of {all}");
}

/// A column for the event of survival curves, beside those of the example.
fn with_event(mut spec: Spec) -> Spec {
    spec.columns.push(TableColumn { name: "died".to_owned(), kind: ColumnKind::Boolean });
    spec.queries[0].group_by.clear();
    spec.queries[0].aggregates = vec![
        TableAggregate {
            measure: AggregateMeasure::Survival {
                time: "age".to_owned(),
                event: "died".to_owned(),
                edges: vec![20.0, 40.0, 60.0, 80.0, 95.0],
            },
            share: 1.0,
        },
        TableAggregate {
            measure: AggregateMeasure::Covariance { columns: ["age", "glucose", "died"].map(str::to_owned).to_vec() },
            share: 1.0,
        },
    ];
    spec
}

/// Patients who die in two cases of three, the older ones with more glucose.
fn deaths(count: i64) -> Vec<[Option<i64>; 5]> {
    let patient = |n: i64| {
        let age = 20 + n * 7 % 80;
        [Some(age), Some(n % 2), Some(40 + age + n * 13 % 100), Some(19_723), Some(i64::from(n % 3 != 0))]
    };
    (0..count).map(patient).collect()
}

/// Returns the exact survival at the edges, and the exact covariances and correlations.
fn exact_curve_and_matrix(patients: &[[Option<i64>; 5]]) -> Vec<f64> {
    let code = |row: &[Option<i64>; 5], column: usize| row[column].unwrap_or_default() as f64;
    let mut numbers = Vec::new();
    let mut survival = 1.0;
    for ends in [(20.0, 40.0), (40.0, 60.0), (60.0, 80.0), (80.0, 96.0)] {
        let at_risk = patients.iter().filter(|row| code(row, 0) >= ends.0).count() as f64;
        let is_event = |row: &&[Option<i64>; 5]| code(row, 0) >= ends.0 && code(row, 0) < ends.1 && row[4] == Some(1);
        survival *= 1.0 - patients.iter().filter(is_event).count() as f64 / at_risk;
        numbers.push(survival);
    }
    let columns = [(0, 1.0), (2, 0.1), (4, 1.0)];
    let mean = |f: &dyn Fn(&[Option<i64>; 5]) -> f64| patients.iter().map(f).sum::<f64>() / patients.len() as f64;
    let covariance = |(one, step): (usize, f64), (other, other_step): (usize, f64)| {
        let centre = mean(&|row| code(row, one) * step) * mean(&|row| code(row, other) * other_step);
        mean(&|row| code(row, one) * step * code(row, other) * other_step) - centre
    };
    let pairs = || (0..3).flat_map(|first| (first..3).map(move |second| (columns[first], columns[second])));
    numbers.extend(pairs().map(|(one, other)| covariance(one, other)));
    numbers.extend(
        pairs()
            .filter(|(one, other)| one.0 != other.0)
            .map(|(one, other)| covariance(one, other) / (covariance(one, one) * covariance(other, other)).sqrt()),
    );
    numbers
}

#[test]
fn curves_and_matrices_without_noise_are_exact_and_with_it_covered() {
    let spec = with_event(spec());
    let patients = deaths(8000);
    let truths = exact_curve_and_matrix(&patients);
    let mut quiet = spec.clone();
    quiet.noise_multiplier = NoiseMultiplier::new(1.0 / 1024.0).expect("in range");
    let sums = sums(&spec, &patients);
    let report = quiet.report(&sums, 1).expect("of this layout");
    let estimates = numbers(&report);
    assert_eq!(estimates.len(), truths.len());
    for (estimate, truth) in estimates.iter().zip(&truths) {
        let value = estimate.value.expect("little noise");
        assert!((value - truth).abs() <= 2e-3 * truth.abs() + 1e-3, "{estimate:?}: {truth}");
    }
    assert_eq!(report.queries[0].cells[0].aggregates[0].times, [20.0, 40.0, 60.0, 80.0, 95.0]);
    let labels: Vec<&str> = estimates.iter().map(|estimate| estimate.label.as_str()).collect();
    assert_eq!((labels[0], labels[4], labels[12]), ("40", "age, age", "correlation glucose, died"));
    let (mut covered, mut all) = (0, 0);
    for seed in 1..200 {
        let report = spec.report(&noisy(&spec, &sums, seed * 7919), 1).expect("of this layout");
        let found = numbers(&report);
        let curve: Vec<f64> = found[..4].iter().map(|number| number.value.unwrap_or_default()).collect();
        assert!(curve[0] <= 1.0 && curve.windows(2).all(|pair| pair[0] >= pair[1] && pair[1] >= 0.0), "{curve:?}");
        for (estimate, truth) in found.into_iter().zip(&truths) {
            covered += u32::from(estimate.covers(*truth));
            all += 1;
        }
    }
    let share = f64::from(covered) / f64::from(all);
    assert!((0.94..=0.98).contains(&share), "{share} of {all}");
}

/// Returns the coefficients of age and of died for glucose, the intercept and the explained share, by Cramer's rule.
fn exact_regression(patients: &[[Option<i64>; 5]]) -> [f64; 4] {
    let value = |row: &[Option<i64>; 5], column: usize| {
        row[column].unwrap_or_default() as f64 * if column == 2 { 0.1 } else { 1.0 }
    };
    let mean = |f: &dyn Fn(&[Option<i64>; 5]) -> f64| patients.iter().map(f).sum::<f64>() / patients.len() as f64;
    let means = [0, 4, 2].map(|column| mean(&|row| value(row, column)));
    let covariance = |one: usize, other: usize| {
        let columns = [0, 4, 2];
        mean(&|row| (value(row, columns[one]) - means[one]) * (value(row, columns[other]) - means[other]))
    };
    let determinant = covariance(0, 0) * covariance(1, 1) - covariance(0, 1).powi(2);
    let age = (covariance(0, 2) * covariance(1, 1) - covariance(1, 2) * covariance(0, 1)) / determinant;
    let died = (covariance(1, 2) * covariance(0, 0) - covariance(0, 2) * covariance(0, 1)) / determinant;
    let share = (age * covariance(0, 2) + died * covariance(1, 2)) / covariance(2, 2);
    [age, died, means[2] - age * means[0] - died * means[1], share]
}

fn regression(features: &[&str]) -> Spec {
    let mut spec = with_event(spec());
    let features = features.iter().map(|one| (*one).to_owned()).collect();
    let measure = AggregateMeasure::LinearRegression { target: "glucose".to_owned(), features };
    spec.queries[0].aggregates = vec![TableAggregate { measure, share: 1.0 }];
    spec
}

#[test]
fn regression_without_noise_is_that_of_the_table_and_with_it_covered() {
    let spec = regression(&["age", "died"]);
    let patients = deaths(40_000);
    let truths = exact_regression(&patients);
    let sums = sums(&spec, &patients);
    let mut quiet = spec.clone();
    quiet.noise_multiplier = NoiseMultiplier::new(1.0 / 1024.0).expect("in range");
    let report = quiet.report(&sums, 1).expect("of this layout");
    let found = numbers(&report);
    let labels: Vec<&str> = found.iter().map(|number| number.label.as_str()).collect();
    assert_eq!(labels, ["age", "died", "intercept", "explained share"]);
    for (number, truth) in found.iter().zip(truths) {
        let value = number.value.expect("little noise");
        assert!((value - truth).abs() <= 2e-3 * truth.abs() + 1e-3, "{number:?}: {truth}");
    }
    let (mut covered, mut all) = (0, 0);
    for seed in 1..200 {
        let report = spec.report(&noisy(&spec, &sums, seed * 7919), 1).expect("of this layout");
        let found = numbers(&report);
        assert_eq!(found.len(), 4, "{found:?}");
        for (number, truth) in found.into_iter().zip(truths) {
            assert!(number.low <= number.high && number.value.is_some_and(f64::is_finite), "{number:?}");
            covered += u32::from(number.covers(truth));
            all += 1;
        }
    }
    let share = f64::from(covered) / f64::from(all);
    assert!((0.935..=0.985).contains(&share), "{share} of {all}");
}

/// Few rows: the noise is near the limit above which no coefficients are given.
#[test]
fn regression_near_its_limit_is_covered_or_not_given() {
    let spec = regression(&["age", "died"]);
    let (mut covered, mut all, mut hidden) = (0, 0, 0);
    for rows in [1_000, 2_000, 4_000, 8_000, 16_000] {
        let patients = deaths(rows);
        let truths = exact_regression(&patients);
        let sums = sums(&spec, &patients);
        for seed in 1..200 {
            let report = spec.report(&noisy(&spec, &sums, seed * 7919), 1).expect("of this layout");
            let found = numbers(&report);
            hidden += u32::from(found.len() == 1);
            for (number, truth) in found.iter().zip(truths).filter(|(number, _)| number.value.is_some()) {
                covered += u32::from(number.covers(truth));
                all += 1;
            }
        }
    }
    let share = f64::from(covered) / f64::from(all);
    assert!(hidden > 100 && all > 1_000 && share > 0.91, "{hidden} hidden, {share} of {all}");
}

#[test]
fn target_of_a_regression_leaves_its_coefficients_in_sight() {
    let spec = regression(&["age", "died"]);
    let [mut table, other] = super::datasets();
    table.table.as_mut().expect("it is a table").columns.push(spec.columns.last().expect("a column").clone());
    let datasets = [table, other];
    for error in [0.01, 0.1, 0.5, 3.0] {
        let target = TargetError { query: 0, aggregate: 0, error };
        let fitted = spec.fit_targets(&datasets, &[target]).expect("a layout").expect("noise in range");
        let stated = fitted.expected_errors(&datasets).expect("a layout")[0].overall;
        assert!(stated <= error.min(0.18) && stated > 0.9 * error.min(0.17), "{error}: {stated}");
    }
    let mut loud = spec;
    loud.noise_multiplier = NoiseMultiplier::new(1024.0).expect("in range");
    assert!(loud.expected_errors(&datasets).expect("a layout")[0].overall >= 1.0);
}

#[test]
fn regression_that_noise_hides_has_no_coefficients() {
    // Few rows, and two features that are one.
    let few = regression(&["age", "died"]);
    for seed in 1..50 {
        let report = few.report(&noisy(&few, &sums(&few, &deaths(300)), seed * 104_729), 1).expect("of this layout");
        let found = numbers(&report);
        let [share] = found[..] else { panic!("{found:?}") };
        assert_eq!((share.label.as_str(), share.value, share.low, share.high), ("explained share", None, 0.0, 1.0));
    }
    let mut same = regression(&["age", "twin"]);
    let twin = same.columns.iter().find(|column| column.name == "age").expect("a column").kind.clone();
    same.columns.push(TableColumn { name: "twin".to_owned(), kind: twin });
    let twins: Vec<[Option<i64>; 6]> = deaths(40_000)
        .into_iter()
        .map(|[age, sex, glucose, visit, died]| [age, sex, glucose, visit, died, age])
        .collect();
    let sums = sums(&same, &twins);
    for seed in 1..50 {
        let report = same.report(&noisy(&same, &sums, seed * 104_729), 1).expect("of this layout");
        assert!(numbers(&report).iter().all(|number| number.value.is_none()), "{:?}", numbers(&report));
    }
}

#[test]
fn small_cell_has_an_interval_and_no_zero() {
    let spec = spec();
    let mut patients = patients(2000);
    patients.extend([[Some(50), Some(2), Some(80), Some(19_800)]; 3]);
    let sums = sums(&spec, &patients);
    for seed in 1..50 {
        let report = spec.report(&noisy(&spec, &sums, seed * 104_729), 1).expect("of this layout");
        let cell = &report.queries[0].cells[2];
        let count = &cell.aggregates[0].numbers[0];
        assert!(count.value.is_none_or(|value| value > 0.0) && count.low >= 0.0 && count.high > 0.0, "{count:?}");
        let mean = &cell.aggregates[1].numbers[0];
        assert!(mean.value.is_none() && (mean.low, mean.high) == (0.0, 120.0), "{mean:?}");
    }
}

#[test]
fn csv_has_a_line_for_each_number() {
    let spec = spec();
    let report = spec.report(&noisy(&spec, &sums(&spec, &patients(2000)), 1), 2).expect("of this layout");
    let csv = report.to_csv();
    assert_eq!(csv.lines().count(), 1 + numbers(&report).len());
    let second = csv.lines().nth(1).expect("a number");
    assert!(second.starts_with(r#""patients by sex","sex=female","count(units)","",1"#), "{second}");
    assert!(csv.contains(r#""sex=other","mean(age)","",,0,120,"#), "{csv}");
    let text = serde_json::to_string(&report).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("a report").sites, 2);
}

#[test]
fn quantiles_of_dates_are_dates() {
    let mut spec = spec();
    let quantiles = AggregateMeasure::Quantiles { column: "visit".to_owned(), probabilities: vec![0.5], levels: 6 };
    spec.queries.truncate(1);
    spec.queries[0].aggregates = vec![TableAggregate { measure: quantiles, share: 1.0 }];
    let length = spec.layout().expect("a layout").length();
    let report = spec.report(&vec![0.0; length], 2).expect("of this layout");
    assert!(report.to_csv().contains(r#""0.5",,2020-01-01,2026-12-31,"#), "{}", report.to_csv());
    assert!(report.queries[0].cells[0].aggregates[0].is_date);
}

#[test]
fn hidden_variance_understates_no_deviation() {
    let mut spec = spec();
    spec.queries.truncate(1);
    let measure = AggregateMeasure::Variance { column: "age".to_owned() };
    spec.queries[0].aggregates = vec![TableAggregate { measure, share: 1.0 }];
    let layout = spec.layout().expect("a layout");
    let mut sums = vec![0.0; layout.length()];
    // Many rows, and no sum of squares: noise has hidden the variance.
    sums[0] = 1e4 * layout.blocks()[0].factor();
    let report = spec.report(&sums, 2).expect("of this layout");
    let [mean, variance, root] = &report.queries[0].cells[0].aggregates[0].numbers[..] else { panic!("three numbers") };
    assert!(mean.value.is_some() && mean.sampling.is_some_and(|sampling| sampling > 0.0), "{mean:?}");
    assert_eq!((variance.value, variance.sampling, root.value, root.sampling), (None, None, None, None));
}
