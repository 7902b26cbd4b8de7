//! Every limit of a spec, each violated alone: the reported field, and the values on both sides of the limit.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

mod limits;
mod rehearsal;

use std::num::NonZeroU16;

use time::OffsetDateTime;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, RunShape, SamplingRate, StoppingRate};
use uuid::Uuid;

use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::JobKind;
use crate::job::dp_sgd::{
    AcousticModel, AuditOptions, AverageWeights, Noise, Optimizer, Party, Rounds, SelectionCandidate, SelectionOptions,
    Spec, TestSet, WarmStart,
};

use limits::LIMITS;

const LEAD: usize = 0;
pub(super) const OURS: usize = 1;
const TEST: usize = 2;

pub(super) fn id(index: usize) -> DatasetId {
    DatasetId(Uuid::from_u128(index as u128 + 1))
}

/// Returns a public dataset, an open one at another site, and a test set at the site of the first.
pub(super) fn datasets() -> Vec<Dataset> {
    let dataset = |index: usize, name: &str, visibility, worker| Dataset {
        id: id(index),
        lineage: LineageId(Uuid::from_u128(100 + index as u128)),
        organization: OrganizationId(Uuid::from_u128(worker)),
        organization_name: "an organization".to_owned(),
        worker: WorkerId(Uuid::from_u128(worker)),
        name: name.to_owned(),
        visibility,
        content: DatasetContent::Speech,
        inputs: 13,
        classes: 40 + index as u32,
        records: SizeClass(500),
        speakers: SizeClass(20),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: crate::dataset::usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: OffsetDateTime::UNIX_EPOCH,
    };
    vec![
        dataset(LEAD, "lead", Visibility::Public, 7),
        dataset(OURS, "ours", Visibility::Open, 8),
        dataset(TEST, "test", Visibility::Public, 7),
    ]
}

pub(super) fn noise(noise_multiplier: f64) -> Noise {
    Noise::flat(NoiseMultiplier::new(noise_multiplier).unwrap(), 1.0)
}

pub(super) fn spec() -> Spec {
    let party = |index, noise| Party {
        dataset: id(index),
        sampling_rate: SamplingRate::new(0.1).unwrap(),
        noise,
        rounds: None,
    };
    let rounds = Rounds {
        evaluate_every: 5,
        deadline_seconds: 60,
        quorum: 2,
        ..Rounds::new(10, Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9 })
    };
    Spec {
        unit: PrivacyUnit::Record,
        model: AcousticModel::lstm(200, None),
        initial_model: None,
        participants: vec![party(LEAD, None), party(OURS, Some(noise(1.0)))],
        open_terms: Vec::new(),
        rehearsal: None,
        tests: vec![TestSet { name: "common".to_owned(), dataset: id(TEST) }],
        warm_start: WarmStart { epochs: 1, batch: 8, learning_rate: 0.01, seed: 1 },
        open: Some(rounds),
        private: Some(rounds),
        audit: None,
        selection: None,
        secure_aggregation: None,
        weights: AverageWeights::Equal,
        spare_releases: 4,
        checkpoint_every: 10,
    }
}

/// Returns the spec of speech after a change, with its datasets.
pub(super) fn change_of_speech(change: impl FnOnce(&mut Spec)) -> (Spec, Vec<Dataset>) {
    let mut spec = spec();
    change(&mut spec);
    (spec, datasets())
}

/// Returns a spec of training on three tables after a change, with its datasets.
pub(super) fn change_of_rows(change: impl FnOnce(&mut Spec, &mut Vec<Dataset>)) -> (Spec, Vec<Dataset>) {
    let columns = r#"[{"name":"age","kind":"integer","least":0,"most":100},{"name":"ward","kind":"category","values":["a","b"]},
        {"name":"returns","kind":"boolean"},{"name":"unused","kind":"boolean"}]"#;
    let columns: Vec<crate::table::TableColumn> = serde_json::from_str(columns).unwrap();
    let rows = super::super::RowColumns {
        target: columns[2].clone(),
        features: columns[..2].to_vec(),
        rows_per_unit: 4,
        text: None,
    };
    let mut datasets = datasets();
    for dataset in &mut datasets {
        (dataset.content, dataset.inputs, dataset.classes) = (DatasetContent::Table, 0, 0);
        (dataset.users, dataset.units) = (Some(SizeClass(50)), vec![PrivacyUnit::User]);
        let schema =
            crate::table::TableSchema { unit_column: "patient".to_owned(), columns: columns.clone(), encoder: None };
        dataset.table = Some(schema);
    }
    let mut spec = Spec { unit: PrivacyUnit::User, model: AcousticModel::from_rows(rows, 1, 8), ..spec() };
    change(&mut spec, &mut datasets);
    (spec, datasets)
}

/// Returns the fields reported after a change.
fn fields(change: impl FnOnce(&mut Spec, &mut Vec<Dataset>)) -> Vec<String> {
    let mut spec = spec();
    let mut datasets = datasets();
    change(&mut spec, &mut datasets);
    spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
}

type SpecChange = fn(&mut Spec, &mut Vec<Dataset>);

/// `(field, changes that violate it, changes just within it)`.
type FieldLimit = (&'static str, &'static [SpecChange], &'static [SpecChange]);

fn open(spec: &mut Spec) -> &mut Rounds {
    spec.open.as_mut().unwrap()
}

pub(super) fn private(spec: &mut Spec) -> &mut Rounds {
    spec.private.as_mut().unwrap()
}

const fn audit(canaries: u32, guesses: u32, recordings: u32) -> AuditOptions {
    AuditOptions { canaries, guesses, recordings }
}

/// Gives the private arm several steps a round, and a selection between two learning rates.
pub(super) fn selecting(spec: &mut Spec) -> &mut SelectionOptions {
    private(spec).local_steps = 20;
    let candidate = |learning_rate| SelectionCandidate { learning_rate, clip: 1.0 };
    spec.selection.get_or_insert(SelectionOptions {
        shape: RunShape::new(0.0).unwrap(),
        stopping: StoppingRate::new(0.1).unwrap(),
        most_runs: NonZeroU16::new(16).unwrap(),
        development: 100,
        candidates: vec![candidate(0.1), candidate(0.3)],
    })
}

fn own_noise(spec: &mut Spec) -> &mut Noise {
    spec.participants[OURS].noise.as_mut().unwrap()
}

#[test]
fn limit_violation_names_only_its_field() {
    assert_eq!(fields(|_, _| ()), Vec::<String>::new());
    for (field, broken, valid) in LIMITS {
        for (number, change) in broken.iter().enumerate() {
            assert_eq!(fields(change), [*field], "change {number} of {field}");
        }
        for (number, change) in valid.iter().enumerate() {
            assert_eq!(fields(change), Vec::<String>::new(), "change {number} that {field} bears");
        }
    }
}

#[test]
fn participants_and_tests_have_limited_numbers() {
    let crowd = |count: usize| {
        move |spec: &mut Spec, datasets: &mut Vec<Dataset>| {
            for index in TEST + 1..=TEST + count {
                datasets.push(Dataset { id: id(index), ..datasets[OURS].clone() });
                spec.participants.push(Party { dataset: id(index), ..spec.participants[OURS] });
            }
        }
    };
    assert_eq!(fields(crowd(98)), Vec::<String>::new());
    assert_eq!(fields(crowd(99)), ["spec.participants"]);
    let exams = |count: usize| {
        move |spec: &mut Spec, _: &mut Vec<Dataset>| {
            spec.tests = (0..count).map(|n| TestSet { name: n.to_string(), dataset: id(TEST) }).collect();
        }
    };
    assert_eq!(fields(exams(20)), Vec::<String>::new());
    assert_eq!(fields(exams(21)), ["spec.tests"]);
    let nobody = fields(|spec, _| spec.participants.clear());
    assert!(nobody.contains(&"spec.participants".to_owned()), "{nobody:?}");
}

#[test]
fn all_violations_are_named_at_once() {
    let names = fields(|spec, _| {
        spec.model.hidden = 0;
        spec.warm_start.batch = 0;
        spec.participants[OURS].noise = None;
        private(spec).rounds = 0;
    });
    let all = ["spec.model.hidden", "spec.warm_start.batch", "spec.participants.1.noise", "spec.private.rounds"];
    assert_eq!(names, all);
}

#[test]
fn settled_spec_has_most_classes_of_its_own_datasets() {
    let mut counted_datasets = datasets();
    counted_datasets.push(Dataset { id: id(9), classes: 5000, ..counted_datasets[OURS].clone() });
    let settled = spec().settle(&counted_datasets);
    assert_eq!(settled.model.classes, Some(42), "the test set has the most");
    assert_eq!(settled.check(&counted_datasets), Vec::new());
    let fixed_spec = Spec { model: AcousticModel::lstm(200, Some(64)), ..spec() };
    assert_eq!(fixed_spec.clone().settle(&counted_datasets), fixed_spec, "what was said stays");
}
