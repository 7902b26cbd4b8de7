//! The charge equals the release, once; the documentation is correct; the limits name their fields.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::{Adjacency, Delta, Event, PrivacyUnit};
use uuid::Uuid;

use super::{HISTOGRAMS, MetricError, Spec};
use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility, usual_units};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::dp_sgd::{RowColumns, TextEmbedding};
use crate::job::spec_page::unnamed_fields;
use crate::job::{DisclosureForm, JobKind as _, Observer, Report as AnyReport, Spec as AnySpec, disclosures};
use crate::table::{ColumnKind, TableColumn, TableSchema};

/// Returns the documentation's example and the event that it states.
pub(crate) fn example() -> (Spec, Event) {
    let mut blocks = include_str!("spec.md").split("```json").skip(1).map(|rest| rest.split("```").next().unwrap());
    let spec = serde_json::from_str(blocks.next().unwrap()).unwrap();
    let event = serde_json::from_str(blocks.next().unwrap()).unwrap();
    assert!(blocks.next().is_none());
    (spec, event)
}

/// Returns the lead's dataset and a hospital's.
pub(crate) fn datasets() -> [Dataset; 2] {
    [(1, Visibility::Public), (2, Visibility::Private)].map(|(number, visibility)| Dataset {
        id: DatasetId(Uuid::from_u128(number)),
        lineage: LineageId(Uuid::from_u128(100 + number)),
        organization: OrganizationId(Uuid::from_u128(200 + number)),
        organization_name: "an organization".to_owned(),
        worker: WorkerId(Uuid::from_u128(300 + number)),
        name: format!("data-{number}"),
        visibility,
        content: DatasetContent::Speech,
        inputs: 13,
        classes: 40,
        records: SizeClass(5000),
        speakers: SizeClass(200),
        test_records: 1000,
        seconds: None,
        users: None,
        table: None,
        units: usual_units(),
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
    let [lead, site] = datasets();
    assert_eq!(spec.check(&datasets()), Vec::new());
    let charge = spec.cost(&site).unwrap();
    assert_eq!((charge.releases, charge.unit, charge.adjacency), (1, PrivacyUnit::Record, Adjacency::ZeroOut));
    assert_eq!(charge.event, event);
    assert_eq!(spec.release(&site, HISTOGRAMS), Some(event));
    assert_eq!((spec.cost(&lead), spec.release(&lead, HISTOGRAMS)), (None, None));
    assert_eq!(spec.release(&site, "private"), None);
    let profile = GaussianProfile::new(1.0, spec.noise_multiplier.get()).unwrap();
    let epsilon = profile.epsilon(Delta::new(1e-6).unwrap()).unwrap().get();
    assert!((0.95..1.05).contains(&epsilon), "ε is {epsilon}");
}

#[test]
fn classes_and_bins_do_not_change_the_cost() {
    let event = example().1;
    let site = &datasets()[1];
    let many = changed(|spec| {
        spec.classes = (0..40).collect();
        spec.bins.count = 256;
        spec.accuracy = false;
    });
    assert_eq!(many.cost(site).unwrap().event, event);
    assert!((many.clip(site.id).unwrap() - 40.0_f64.sqrt()).abs() < 1e-12, "the noise grows instead");
    assert_eq!(many.clip(datasets()[0].id), None);
    let opened = Dataset { visibility: Visibility::Open, ..site.clone() };
    assert_eq!(many.cost(&opened).unwrap().event, event, "opened for gradients, not for evaluation");
}

#[test]
fn round_waits_for_the_lead_and_the_quorum() {
    let spec = example().0;
    let [series] = &spec.series(&datasets())[..] else { panic!("one series") };
    assert_eq!((series.name.as_str(), series.rounds, series.quorum), (HISTOGRAMS, 1, 2));
    assert_eq!(series.length, Some(2 * 96 + 2));
    assert!(series.weights.iter().all(|(_, weight)| (weight - 1.0).abs() < f64::EPSILON) && series.weights.len() == 2);
    let [lead, site] = datasets();
    assert_eq!(spec.most_norm(&lead, series), Some(0.0), "it contributes nothing");
    let most = spec.most_norm(&site, series).unwrap();
    let units = SizeClass(1000).most() as f64;
    assert!(most > units * 2.0_f64.sqrt() && most < 1.5 * units * 2.0_f64.sqrt(), "{most}");
}

#[test]
fn limits_name_their_fields() {
    assert_eq!(fields(&changed(|spec| spec.model = "ABC".to_owned())), ["spec.model"]);
    assert_eq!(fields(&changed(|spec| spec.bins.count = 9)), ["spec.bins.count"]);
    assert_eq!(fields(&changed(|spec| spec.bins.width = f64::NAN)), ["spec.bins.width"]);
    assert_eq!(fields(&changed(|spec| spec.classes = vec![40])), ["spec.classes.0"]);
    assert_eq!(fields(&changed(|spec| spec.classes = vec![3, 3])), ["spec.classes.1"]);
    assert_eq!(fields(&changed(|spec| spec.classes = Vec::new())), ["spec.classes"]);
    assert_eq!(fields(&changed(|spec| spec.specificities = vec![0.9, 1.0])), ["spec.specificities.1"]);
    assert_eq!(fields(&changed(|spec| spec.quorum = 2)), ["spec.quorum"]);
    assert_eq!(fields(&changed(|spec| spec.participants.truncate(1))), ["spec.participants"]);
    assert_eq!(
        fields(&changed(|spec| spec.participants.reverse())),
        ["spec.participants.0.dataset", "spec.participants.1.dataset"]
    );
    assert_eq!(fields(&changed(|spec| spec.unit = PrivacyUnit::Words)), ["spec.unit", "spec.unit"]);
}

#[test]
fn report_pools_all_sites_and_states_the_noise() {
    let spec = changed(|spec| spec.classes = vec![3, 7]);
    let length = spec.histograms().layout().length();
    assert_eq!(length as u64, spec.histograms().vector_length());
    let report = spec.report(&vec![0.0; length], 3).unwrap();
    assert_eq!((report.sites, report.classes.len(), report.accuracy), (3, 2, None));
    assert!((report.deviation - 4.3 * 3.0_f64.sqrt() * 3.0_f64.sqrt()).abs() < 1e-9, "{}", report.deviation);
    assert!(report.classes.iter().all(|class| class.metrics.is_none() && class.problem.is_some()));
    assert!(matches!(spec.report(&[0.0; 3], 3), Err(MetricError::Length { .. })));
    let text = serde_json::to_string(&AnyReport::Evaluation(report.clone())).unwrap();
    assert!(text.starts_with(r#"{"kind":"evaluation","report":{"model":"#), "{text}");
    assert_eq!(serde_json::from_str::<AnyReport>(&text).unwrap(), AnyReport::Evaluation(report));
}

#[test]
fn server_learns_the_histograms_only() {
    let any = AnySpec::Evaluation(example().0);
    let [_, site] = datasets();
    let list = disclosures(&any, &site, &datasets());
    assert!(list.iter().any(|one| one.observer == Observer::Server && one.form == DisclosureForm::Protected));
    assert!(!list.iter().any(|one| one.form == DisclosureForm::Exact), "{list:?}");
}

/// Returns both datasets as tables, whose schemas the server does not know.
fn tables() -> [Dataset; 2] {
    datasets().map(|dataset| Dataset {
        content: DatasetContent::Table,
        inputs: 0,
        classes: 0,
        test_records: 0,
        users: Some(SizeClass(200)),
        units: vec![PrivacyUnit::User],
        ..dataset
    })
}

#[test]
fn tables_are_evaluated_among_tables_for_users() {
    let spec = changed(|spec| {
        spec.unit = PrivacyUnit::User;
        spec.classes = vec![0, 1];
    });
    let tables = tables();
    assert_eq!(spec.check(&tables), Vec::new());
    assert_eq!(spec.units(&tables[1]), 200, "all users of a table");
    let [lead, site] = tables;
    let mixed = [lead.clone(), Dataset { content: DatasetContent::Queries, ..site.clone() }];
    let found = spec.check(&mixed);
    assert!(found.iter().any(|violation| violation.message.contains("all are of one content")), "{found:?}");
    let queries = [lead, site].map(|dataset| Dataset { content: DatasetContent::Queries, ..dataset });
    let messages: Vec<_> = spec.check(&queries).into_iter().map(|violation| violation.message).collect();
    let refused = messages.iter().filter(|message| message.contains("on speech or on tables"));
    assert_eq!(refused.count(), 2, "{messages:?}");
}

/// Returns the first violation of a job on a graph of rows after a change of its columns.
fn column_violation(change: impl FnOnce(&mut RowColumns)) -> Option<(String, String)> {
    let column = |name: &str, kind| TableColumn { name: name.to_owned(), kind };
    let declared = vec![
        column("age", ColumnKind::Integer { least: 0, most: 100 }),
        column("cost", ColumnKind::Real { least: 0.0, most: 9.0, step: 0.5 }),
        column("note", ColumnKind::Text { most_grams: 8, characters: false }),
        column("returns", ColumnKind::Boolean),
    ];
    let mut columns =
        RowColumns { target: declared[3].clone(), features: vec![declared[0].clone()], rows_per_unit: 4, text: None };
    change(&mut columns);
    let schema = TableSchema { unit_column: "patient".to_owned(), columns: declared, encoder: None };
    let tables = tables().map(|dataset| Dataset { table: Some(schema.clone()), ..dataset });
    let spec = changed(|spec| {
        (spec.unit, spec.classes, spec.columns) = (PrivacyUnit::User, vec![1], Some(Box::new(columns)));
    });
    spec.check(&tables).into_iter().next().map(|violation| (violation.field, violation.message))
}

#[test]
fn columns_of_a_graph_are_checked_against_each_table() {
    assert_eq!(column_violation(|_| ()), None);
    let real = ColumnKind::Real { least: 0.0, most: 9.0, step: 0.5 };
    let text = ColumnKind::Text { most_grams: 8, characters: false };
    type ColumnChange = fn(&mut RowColumns, ColumnKind);
    let cases: [(&str, &str, ColumnKind, ColumnChange); 7] = [
        ("features.0", "no column `weight`", real.clone(), |columns, _| columns.features[0].name = "weight".to_owned()),
        ("features.0", "another kind or range", real.clone(), |columns, kind| columns.features[0].kind = kind),
        ("target", "a number has no classes", real.clone(), |columns, kind| {
            columns.target = TableColumn { name: "cost".to_owned(), kind };
        }),
        ("features.1", "computes the hashes", text, |columns, kind| {
            columns.features.push(TableColumn { name: "note".to_owned(), kind });
        }),
        ("text", "leave it out", real.clone(), |columns, _| {
            columns.text = Some(TextEmbedding { buckets: 8, width: 4 });
        }),
        ("rows_per_unit", "from 1 to 1000", real.clone(), |columns, _| columns.rows_per_unit = 0),
        ("features", "1 to 255 columns", real, |columns, _| columns.features.clear()),
    ];
    for (field, words, kind, change) in cases {
        let (path, message) = column_violation(|columns| change(columns, kind)).expect(words);
        assert!(path == format!("spec.columns.{field}") && message.contains(words), "{path}: {message}");
    }
}

#[test]
fn columns_need_tables_and_bound_the_classes() {
    let column = |name: &str| TableColumn { name: name.to_owned(), kind: ColumnKind::Boolean };
    let columns =
        RowColumns { target: column("returns"), features: vec![column("smokes")], rows_per_unit: 1, text: None };
    let spec = changed(|spec| spec.columns = Some(Box::new(columns)));
    assert_eq!(fields(&spec), ["spec.columns", "spec.classes.0"], "class 2 of a target of two values");
    let text = serde_json::to_string(&spec).unwrap();
    assert_eq!(serde_json::from_str::<Spec>(&text).unwrap(), spec);
    let plain = serde_json::to_string(&example().0).unwrap();
    assert!(!plain.contains("columns"), "a spec without columns keeps its digest: {plain}");
}
