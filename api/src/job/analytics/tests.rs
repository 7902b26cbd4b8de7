//! The charge equals the release, once; the documentation is correct; the limits name their fields.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod by_site;
mod estimates;
mod neighbours;
mod selection;
#[cfg(feature = "sql")]
mod sql;

use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::{Adjacency, Delta, Event, NoiseMultiplier, PrivacyUnit};
use uuid::Uuid;

use super::{AggregateMeasure, Comparison, FilterValue, RowFilter, Spec, TargetError, VECTOR};
use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::JobKind as _;
use crate::job::spec_page::unnamed_fields;
use crate::table::{ColumnKind, TableColumn, TableSchema};

/// Returns the documentation's example and the event that it states.
pub(crate) fn example() -> (Spec, Event) {
    let mut blocks = include_str!("spec.md").split("```json").skip(1).map(|rest| rest.split("```").next().unwrap());
    let spec = serde_json::from_str(blocks.next().unwrap()).unwrap();
    let event = serde_json::from_str(blocks.next().unwrap()).unwrap();
    assert!(blocks.next().is_none());
    (spec, event)
}

/// Returns the tables of two hospitals.
pub(crate) fn datasets() -> [Dataset; 2] {
    [1, 2].map(|number| Dataset {
        id: DatasetId(Uuid::from_u128(number)),
        lineage: LineageId(Uuid::from_u128(100 + number)),
        organization: OrganizationId(Uuid::from_u128(200 + number)),
        organization_name: "a hospital".to_owned(),
        worker: WorkerId(Uuid::from_u128(300 + number)),
        name: format!("visits-{number}"),
        visibility: Visibility::Private,
        content: DatasetContent::Table,
        inputs: 0,
        classes: 0,
        records: SizeClass(20_000),
        speakers: SizeClass(1),
        test_records: 0,
        seconds: None,
        users: Some(SizeClass(5000)),
        table: Some(TableSchema { unit_column: "patient".to_owned(), columns: example().0.columns, encoder: None }),
        units: vec![PrivacyUnit::User],
        approval: None,
        accounts: Vec::new(),
        created_at: time::OffsetDateTime::UNIX_EPOCH,
    })
}

fn changed(change: impl FnOnce(&mut Spec)) -> Spec {
    let mut spec = example().0;
    change(&mut spec);
    spec
}

fn fields(spec: &Spec) -> Vec<String> {
    spec.check(&datasets()).into_iter().map(|violation| violation.field).collect()
}

#[test]
fn spec_page_names_each_field() {
    assert_eq!(unnamed_fields(include_str!("spec.md"), &example().0), [""; 0]);
}

#[test]
fn documented_example_is_valid_at_its_stated_cost() {
    let (spec, event) = example();
    let [_, site] = datasets();
    assert_eq!(spec.check(&datasets()), Vec::new());
    let charge = spec.cost(&site).unwrap();
    assert_eq!((charge.releases, charge.unit, charge.adjacency), (1, PrivacyUnit::User, Adjacency::ZeroOut));
    assert_eq!(charge.event, event);
    assert_eq!(spec.release(&site, VECTOR), Some(event));
    assert_eq!(spec.release(&site, "private"), None);
    let public = Dataset { visibility: Visibility::Public, ..site };
    assert_eq!((spec.cost(&public), spec.release(&public, VECTOR)), (None, None));
    let profile = GaussianProfile::new(1.0, spec.noise_multiplier.get()).unwrap();
    let epsilon = profile.epsilon(Delta::new(1e-6).unwrap()).unwrap().get();
    assert!((0.95..1.05).contains(&epsilon), "ε is {epsilon}");
}

#[test]
fn limits_name_their_fields() {
    assert_eq!(fields(&changed(|spec| spec.queries.clear())), ["spec.queries"]);
    assert_eq!(fields(&changed(|spec| spec.queries[0].name.clear())), ["spec.queries.0.name"]);
    assert_eq!(fields(&changed(|spec| spec.queries[1].limits.rows = 1001)), ["spec.queries.1.limits.rows"]);
    assert_eq!(fields(&changed(|spec| spec.queries[1].limits.groups = 0)), ["spec.queries.1.limits.groups"]);
    assert_eq!(fields(&changed(|spec| spec.queries[0].aggregates.clear())), ["spec.queries.0.aggregates"]);
    assert_eq!(
        fields(&changed(|spec| spec.queries[0].aggregates[0].share = f64::NAN)),
        ["spec.queries.0.aggregates.0.share"]
    );
    assert_eq!(fields(&changed(|spec| spec.quorum = 3)), ["spec.quorum"]);
    assert_eq!(fields(&changed(|spec| spec.unit = PrivacyUnit::Speaker)), ["spec.unit", "spec.unit", "spec.unit"]);
    let other = changed(|spec| spec.columns[0].kind = ColumnKind::Integer { least: 0, most: 121 });
    assert_eq!(fields(&other), ["spec.columns.0", "spec.columns.0"]);
    let mut encoded = datasets();
    for (dataset, digit) in encoded.iter_mut().zip(["a", "b"]) {
        dataset.table.as_mut().unwrap().encoder = Some(digit.repeat(64));
    }
    let violations = example().0.check(&encoded);
    assert!(violations.len() == 1 && violations[0].message.contains("different encoders"), "{violations:?}");
    let many = changed(|spec| {
        let key = spec.queries[1].group_by[0].clone();
        spec.queries[1].group_by = vec![key; 5];
    });
    assert_eq!(fields(&many), ["spec.queries.1.group_by"]);
    let quantiles = |levels, probabilities| {
        changed(|spec| {
            spec.queries[0].aggregates[2].measure =
                AggregateMeasure::Quantiles { column: "glucose".to_owned(), probabilities, levels };
        })
    };
    assert_eq!(fields(&quantiles(13, vec![0.5])), ["spec.queries.0.aggregates.2.levels"]);
    assert_eq!(fields(&quantiles(6, vec![0.5, 0.5])), ["spec.queries.0.aggregates.2.probabilities"]);
    let covariance = |columns: &[&str]| {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        changed(|spec| spec.queries[0].aggregates[1].measure = AggregateMeasure::Covariance { columns })
    };
    assert_eq!(fields(&covariance(&["age", "glucose"])), [""; 0]);
    assert_eq!(fields(&covariance(&["age"])), ["spec.queries.0.aggregates.1.columns"]);
    assert_eq!(fields(&covariance(&["age", "age"])), ["spec.queries.0.aggregates.1.columns"]);
    assert_eq!(fields(&covariance(&["age", "visit"])), ["spec.queries.0.aggregates.1"]);
    let regression = |features: &[&str]| {
        let (target, features) = ("age".to_owned(), features.iter().map(|one| (*one).to_owned()).collect());
        changed(|spec| spec.queries[0].aggregates[1].measure = AggregateMeasure::LinearRegression { target, features })
    };
    assert_eq!(fields(&regression(&["glucose"])), [""; 0]);
    for features in [&[][..], &["age"], &["glucose", "glucose"]] {
        assert_eq!(fields(&regression(features)), ["spec.queries.0.aggregates.1.features"]);
    }
    assert_eq!(fields(&regression(&["visit"])), ["spec.queries.0.aggregates.1"]);
    let survival =
        AggregateMeasure::Survival { time: "age".to_owned(), event: "sex".to_owned(), edges: vec![0.0, 9.0] };
    let survival = changed(|spec| spec.queries[0].aggregates[1].measure = survival);
    assert_eq!(fields(&survival), ["spec.queries.0.aggregates.1"]);
    let coarse = changed(|spec| {
        spec.queries[1].limits = super::ContributionLimits { rows: 1000, groups: 1000 };
        spec.queries[1].aggregates[0].share = 0.001;
    });
    assert_eq!(fields(&coarse), ["spec.queries.1.aggregates.0"]);
}

#[test]
fn names_that_do_not_fit_are_refused_at_their_query() {
    let with_filter = |filter| changed(|spec| spec.queries[0].filter = Some(filter));
    let compare = |column: &str, comparison, value| RowFilter::Compare { column: column.to_owned(), comparison, value };
    for filter in [
        compare("patient", Comparison::Equal, FilterValue::Integer(1)),
        compare("sex", Comparison::Less, FilterValue::Text("male".to_owned())),
        compare("sex", Comparison::Equal, FilterValue::Text("none".to_owned())),
        compare("glucose", Comparison::Less, FilterValue::Real(5.55)),
        compare("visit", Comparison::Less, FilterValue::Text("2024-02-30".to_owned())),
        RowFilter::In { column: "age".to_owned(), values: Vec::new() },
        (0..17).fold(RowFilter::IsNull { column: "age".to_owned() }, |of, _| RowFilter::Not { of: Box::new(of) }),
    ] {
        assert_eq!(fields(&with_filter(filter.clone())), ["spec.queries.0.filter"], "{filter:?}");
    }
    let sum =
        changed(|spec| spec.queries[1].aggregates[0].measure = AggregateMeasure::Sum { column: "visit".to_owned() });
    assert_eq!(fields(&sum), ["spec.queries.1.aggregates.0"]);
}

#[test]
fn unknown_conditions_are_not_true() {
    let spec = example().0;
    let compare = |value| RowFilter::Compare {
        column: "age".to_owned(),
        comparison: Comparison::Less,
        value: FilterValue::Integer(value),
    };
    let not = RowFilter::Not { of: Box::new(compare(50)) }.resolve(&spec.columns).unwrap();
    let either = RowFilter::Or { of: vec![compare(50), RowFilter::IsNull { column: "age".to_owned() }] };
    let either = either.resolve(&spec.columns).unwrap();
    let row = |age| [age, None, None, None];
    assert_eq!([Some(49), Some(50), None].map(|age| not.evaluate(&row(age))), [Some(false), Some(true), None]);
    assert_eq!([Some(49), Some(50), None].map(|age| either.evaluate(&row(age))), [Some(true), Some(false), Some(true)]);
}

#[test]
fn quarters_are_those_of_the_calendar() {
    let spec = example().0;
    let key = spec.queries[1].group_by[0].resolve(&spec.columns).unwrap();
    let kind = &spec.columns[3].kind;
    let labels: Vec<String> = (0..key.len()).filter_map(|range| key.label(range, kind)).collect();
    assert_eq!(labels[..2], ["2024-01-01 to 2024-03-31", "2024-04-01 to 2024-06-30"]);
    assert_eq!(labels.len(), 4);
}

#[test]
fn fitted_targets_are_the_expected_errors() {
    let spec = example().0;
    let targets = [(0, 0, 40.0), (0, 1, 0.5), (1, 0, 100.0)].map(|(query, aggregate, error)| TargetError {
        query,
        aggregate,
        error,
    });
    let fitted = spec.fit_targets(&datasets(), &targets).unwrap().unwrap();
    let before = spec.expected_errors(&datasets()).unwrap();
    let after = fitted.expected_errors(&datasets()).unwrap();
    let expected = [40.0, 0.5, before[2].overall, before[3].overall, 100.0];
    for (error, expected) in after.iter().zip(expected) {
        let ratio = error.overall / expected;
        assert!((0.9..1.0 + 1e-9).contains(&ratio), "{}: {} instead of {expected}", error.label, error.overall);
        assert!(error.sites.iter().all(|(_, alone)| alone.is_finite()));
    }
    assert_eq!(spec.fit_targets(&datasets(), &[TargetError { error: 1e-9, ..targets[0] }]).unwrap(), None);
    // The present noise hides the curve, whose error is then that of no knowledge.
    let mut hidden = spec.clone();
    hidden.columns.push(TableColumn { name: "died".to_owned(), kind: ColumnKind::Boolean });
    hidden.noise_multiplier = NoiseMultiplier::new(500.0).unwrap();
    let edges = vec![0.0, 40.0, 80.0];
    hidden.queries[0].aggregates[1].measure =
        AggregateMeasure::Survival { time: "age".to_owned(), event: "died".to_owned(), edges };
    let target = TargetError { query: 0, aggregate: 1, error: 0.03 };
    let fitted = hidden.fit_targets(&datasets(), &[target]).unwrap().unwrap();
    let error = fitted.expected_errors(&datasets()).unwrap()[1].overall;
    assert!((0.027..=0.03 + 1e-9).contains(&error), "{error}");
}
