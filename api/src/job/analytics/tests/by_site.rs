//! Queries by site: each site fills its own cells, and the report compares them.

use super::{datasets, example, fields};
use crate::job::analytics::{AggregateMeasure, AnalyticsError, RADIUS, Report, Spec, TableAggregate};

/// Returns a spec with a count and a histogram of sexes by site, and a count over both sites.
fn spec() -> Spec {
    let mut spec = example().0;
    let aggregate = |measure| TableAggregate { measure, share: 1.0 };
    let mut together = spec.queries.remove(1);
    together.group_by.clear();
    spec.queries.truncate(1);
    let own = &mut spec.queries[0];
    own.by_site = true;
    (own.filter, own.group_by) = (None, Vec::new());
    let histogram = AggregateMeasure::Histogram { column: "sex".to_owned(), edges: Vec::new() };
    own.aggregates = vec![aggregate(AggregateMeasure::CountUnits), aggregate(histogram)];
    spec.queries.push(together);
    spec.quorum = 2;
    spec
}

/// Returns the exact sums: women and men of the first site, then of the second.
fn sums(spec: &Spec, people: [[i64; 2]; 2]) -> Vec<f64> {
    let layout = spec.layout().expect("a valid plan");
    let mut sums = vec![0.0; layout.length()];
    for (site, sexes) in people.iter().enumerate() {
        for (sex, count) in (0..).zip(sexes) {
            let row = [Some(50), Some(sex), Some(40), Some(19_723)];
            for _ in 0..*count {
                for (coordinate, steps) in layout.contribute_steps(site, std::iter::once(&row[..])) {
                    sums[coordinate] += steps as f64 / RADIUS as f64;
                }
            }
        }
    }
    sums
}

fn report(people: [[i64; 2]; 2]) -> Result<Report, AnalyticsError> {
    let spec = spec();
    spec.report(&sums(&spec, people), 2)
}

#[test]
fn numbers_of_each_site_have_its_own_noise() {
    let spec = spec();
    let report = report([[900, 300], [400, 800]]).expect("of this layout");
    let [own, together] = &report.queries[..] else { panic!("two queries") };
    let sites: Vec<_> = own.cells.iter().map(|cell| cell.site).collect();
    assert_eq!(sites, datasets().map(|dataset| Some(dataset.id)));
    assert!(together.drifts.is_empty() && together.cells[0].site.is_none());
    let value = |cell: usize, aggregate: usize, number: usize| {
        let number = &own.cells[cell].aggregates[aggregate].numbers[number];
        (number.value.unwrap_or_default(), number.noise)
    };
    let layout = spec.layout().expect("a layout");
    for (cell, counts) in [[1200.0, 900.0, 300.0], [1200.0, 400.0, 800.0]].into_iter().enumerate() {
        for (place, count) in counts.into_iter().enumerate() {
            let (found, noise) = value(cell, usize::from(place > 0), place.saturating_sub(1));
            assert!((found - count).abs() < 1e-6, "{cell}: {found} instead of {count}");
            let block = &layout.blocks()[usize::from(place > 0)];
            assert!((noise / block.deviation(spec.noise_multiplier.get(), 1) - 1.0).abs() < 1e-9, "one site's noise");
        }
    }
    let errors = spec.expected_errors(&datasets()).expect("a layout");
    assert!((errors[0].overall - errors[0].sites[0].1).abs() < 1e-9, "the errors of a site, not of a sum");
}

#[test]
fn drift_is_the_distance_from_the_other_sites() {
    let report = report([[9000, 3000], [4000, 8000]]).expect("of this layout");
    let drifts = &report.queries[0].drifts;
    assert_eq!(drifts.len(), 2);
    for drift in drifts {
        let [aggregate] = &drift.aggregates[..] else { panic!("one histogram: {drift:?}") };
        assert_eq!(aggregate.label, "drift of histogram(sex)");
        let distance = aggregate.numbers[0].value.expect("the noise does not hide it");
        assert!((distance - 5.0 / 12.0).abs() < 1e-9, "{distance}");
    }
    let csv = report.to_csv();
    let line =
        format!("\"query 1\",\"site={}\",\"drift of histogram(sex)\",\"total variation\",0.41", datasets()[0].id);
    assert!(csv.contains(&line.replace("query 1", &report.queries[0].name)), "{csv}");
    let text = serde_json::to_string(&report).expect("JSON");
    assert_eq!(serde_json::from_str::<Report>(&text).expect("a report"), report);
}

#[test]
fn query_by_site_needs_each_site() {
    assert_eq!(fields(&spec()), [""; 0]);
    assert_eq!(fields(&Spec { quorum: 1, ..spec() }), ["spec.quorum"]);
}
