//! Every limit of a spec, each violated alone: the reported field, and the values on both sides of the limit.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::num::NonZeroU32;

use undertone_privacy::kanon::Shown;
use undertone_privacy::{Epsilon, NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use super::super::tests::{datasets, example, training};
use super::super::{Acquisition, Encoder, Gate, Party, PrivateTraining, Rehearsal, Spec, TestSet};
use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use crate::id::{DatasetId, WorkerId};
use crate::job::JobKind as _;
use crate::question::Label;

const LEAD: usize = 0;
const OURS: usize = 1;
const TEST: usize = 2;

type SpecChange = fn(&mut Spec, &mut Vec<Dataset>);

/// Returns the fields reported after a change.
fn fields(change: impl FnOnce(&mut Spec, &mut Vec<Dataset>)) -> Vec<String> {
    let mut spec = example().0;
    let mut datasets = datasets();
    let exam = Dataset { id: DatasetId(Uuid::from_u128(3)), name: "exam".to_owned(), ..datasets[LEAD].clone() };
    spec.tests[0].dataset = exam.id;
    datasets.push(exam);
    change(&mut spec, &mut datasets);
    spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
}

fn gate(spec: &mut Spec) -> &mut Gate {
    spec.participants[OURS].gate.as_mut().unwrap()
}

fn rehearsal(spec: &mut Spec) -> &mut Rehearsal {
    spec.rehearsal.as_mut().unwrap()
}

fn count(value: u32) -> NonZeroU32 {
    NonZeroU32::new(value).unwrap()
}

fn rate(value: f64) -> SamplingRate {
    SamplingRate::new(value).unwrap()
}

fn labels(spec: &mut Spec, count: usize) {
    spec.labels = (0..count).map(|n| Label { name: format!("label {n}"), key: None, hint: String::new() }).collect();
}

/// `(field, changes that violate it, changes just within it)`.
const LIMITS: &[(&str, &[SpecChange], &[SpecChange])] = &[
    (
        "spec.unit",
        &[
            |spec, _| spec.unit = PrivacyUnit::Speaker,
            |_, datasets| datasets[OURS].units = vec![PrivacyUnit::Record],
            |spec, datasets| {
                spec.unit = PrivacyUnit::Record;
                gate(spec).rows_per_unit = count(1);
                datasets[OURS].units = vec![PrivacyUnit::User];
            },
        ],
        &[
            |spec, _| {
                spec.unit = PrivacyUnit::Record;
                gate(spec).rows_per_unit = count(1);
            },
            |_, datasets| datasets[LEAD].units = vec![PrivacyUnit::User],
        ],
    ),
    (
        "spec.participants",
        &[|spec, _| spec.participants.truncate(1)],
        &[|spec, _| {
            let own = Gate { sampling_rate: SamplingRate::ONE, threshold: count(1), ..*gate(spec) };
            spec.participants[LEAD].gate = Some(own);
            spec.participants.truncate(1);
        }],
    ),
    ("spec.participants.0.dataset", &[|_, datasets| datasets[LEAD].content = DatasetContent::Speech], &[]),
    (
        "spec.participants.1.dataset",
        &[
            |_, datasets| datasets[OURS].content = DatasetContent::Speech,
            |_, datasets| datasets[OURS].id = DatasetId(Uuid::from_u128(9)),
        ],
        &[|_, datasets| datasets[OURS].visibility = Visibility::Open],
    ),
    ("spec.participants.1.gate", &[|spec, _| spec.participants[LEAD].gate = spec.participants[OURS].gate.take()], &[]),
    (
        "spec.participants.1.gate.sampling_rate",
        &[|spec, _| gate(spec).sampling_rate = SamplingRate::ONE],
        &[|spec, datasets| {
            gate(spec).sampling_rate = SamplingRate::ONE;
            gate(spec).threshold = count(1);
            datasets[OURS].visibility = Visibility::Public;
        }],
    ),
    (
        "spec.participants.1.gate.epsilon",
        &[
            |spec, _| {
                gate(spec).shown = Shown::Counts;
                gate(spec).epsilon = Epsilon::new(0.0512).unwrap();
            },
            |spec, _| {
                gate(spec).shown = Shown::CountsTight;
                gate(spec).sampling_rate = rate(0.5);
                gate(spec).epsilon = Epsilon::new(0.69).unwrap();
            },
        ],
        &[
            |spec, _| gate(spec).epsilon = Epsilon::new(0.0512).unwrap(),
            |spec, _| {
                gate(spec).shown = Shown::Counts;
                gate(spec).epsilon = Epsilon::new(0.0513).unwrap();
            },
        ],
    ),
    (
        "spec.participants.1.gate.threshold",
        &[
            |spec, _| gate(spec).threshold = count(1_000_001),
            |spec, _| {
                gate(spec).rows_per_unit = count(1000);
                gate(spec).epsilon = Epsilon::new(1.0).unwrap();
            },
        ],
        &[|spec, _| gate(spec).threshold = count(1), |spec, _| gate(spec).threshold = count(1_000_000)],
    ),
    (
        "spec.participants.1.gate.rows_per_unit",
        &[|spec, _| gate(spec).rows_per_unit = count(1001), |spec, _| spec.unit = PrivacyUnit::Record],
        &[|spec, _| {
            gate(spec).rows_per_unit = count(1000);
            gate(spec).epsilon = Epsilon::new(0.0).unwrap();
            gate(spec).sampling_rate = rate(0.001);
        }],
    ),
    ("spec.labels", &[|spec, _| labels(spec, 201)], &[|spec, _| labels(spec, 200)]),
    (
        "spec.labels.0.name",
        &[
            |spec, _| spec.labels[0].name = String::new(),
            |spec, _| spec.labels[0].name = " billing".to_owned(),
            |spec, _| spec.labels[0].name = "x".repeat(61),
        ],
        &[|spec, _| spec.labels[0].name = "ü".repeat(60)],
    ),
    ("spec.labels.1.name", &[|spec, _| spec.labels[1].name = "billing".to_owned()], &[]),
    (
        "spec.labels.1.key",
        &[
            |spec, _| spec.labels[1].key = Some('b'),
            |spec, _| spec.labels[1].key = Some('s'),
            |spec, _| spec.labels[1].key = Some('u'),
            |spec, _| spec.labels[1].key = Some('z'),
            |spec, _| spec.labels[1].key = Some('C'),
            |spec, _| spec.labels[1].key = Some(' '),
        ],
        &[|spec, _| spec.labels[1].key = Some('0'), |spec, _| spec.labels[1].key = None],
    ),
    (
        "spec.labels.2.hint",
        &[|spec, _| spec.labels[2].hint = "x".repeat(201)],
        &[|spec, _| spec.labels[2].hint = "x".repeat(200)],
    ),
    (
        "spec.guidelines",
        &[|spec, _| spec.guidelines = "x".repeat(10_001)],
        &[|spec, _| spec.guidelines = "x".repeat(10_000)],
    ),
    ("spec.tests", &[|spec, _| spec.tests.clear()], &[]),
    ("spec.tests.0.name", &[|spec, _| spec.tests[0].name = " ".to_owned()], &[]),
    (
        "spec.tests.0.dataset",
        &[
            |spec, _| spec.tests[0].dataset = DatasetId(Uuid::from_u128(9)),
            |_, datasets| datasets[TEST].visibility = Visibility::Private,
            |_, datasets| datasets[TEST].content = DatasetContent::Speech,
            |_, datasets| datasets[TEST].classes = 0,
            |_, datasets| datasets[TEST].classes = 4,
            |_, datasets| datasets[TEST].worker = WorkerId(Uuid::from_u128(77)),
        ],
        &[|_, datasets| datasets[TEST].classes = 2],
    ),
    (
        "spec.golden",
        &[
            |spec, _| spec.golden = 0,
            |spec, _| spec.golden = 1_000_001,
            |_, datasets| datasets[LEAD].records = SizeClass(50),
        ],
        &[|_, datasets| datasets[LEAD].records = SizeClass(100)],
    ),
    (
        "spec.rounds",
        &[|spec, _| spec.rounds = 0, |spec, _| spec.rounds = 1001],
        &[|spec, _| {
            spec.rounds = 1000;
            spec.deadline_seconds = 31_000;
        }],
    ),
    ("spec.batch", &[|spec, _| spec.batch = 0, |spec, _| spec.batch = 10_001], &[|spec, _| spec.batch = 10_000]),
    ("spec.annotators", &[|spec, _| spec.annotators = 21], &[|spec, _| spec.annotators = 20]),
    (
        "spec.deadline_seconds",
        &[
            |spec, _| spec.deadline_seconds = 0,
            |spec, _| spec.deadline_seconds = 2_592_001,
            |spec, _| spec.rounds = 365,
        ],
        &[|spec, _| spec.deadline_seconds = 2_592_000, |spec, _| spec.rounds = 364],
    ),
    (
        "spec.classifier.buckets",
        &[
            |spec, _| spec.classifier.buckets = 255,
            |spec, _| spec.classifier.buckets = 1_048_577,
            |spec, _| {
                spec.classifier.buckets = 1_048_576;
                spec.classifier.embedding = 65;
            },
        ],
        &[|spec, _| spec.classifier.buckets = 1_048_576],
    ),
    (
        "spec.classifier.embedding",
        &[|spec, _| spec.classifier.embedding = 0, |spec, _| spec.classifier.embedding = 1025],
        &[|spec, _| spec.classifier.embedding = 1024],
    ),
    ("spec.classifier.hidden", &[|spec, _| spec.classifier.hidden = 0, |spec, _| spec.classifier.hidden = 2049], &[]),
    (
        "spec.classifier.dropout",
        &[|spec, _| spec.classifier.dropout = 0.91, |spec, _| spec.classifier.dropout = f64::NAN],
        &[|spec, _| spec.classifier.dropout = 0.9],
    ),
    ("spec.classifier.passes", &[|spec, _| spec.classifier.passes = 1001], &[|spec, _| spec.classifier.passes = 2]),
    ("spec.classifier.epochs", &[|spec, _| spec.classifier.epochs = 0, |spec, _| spec.classifier.epochs = 1001], &[]),
    ("spec.classifier.batch", &[|spec, _| spec.classifier.batch = 0, |spec, _| spec.classifier.batch = 4097], &[]),
    (
        "spec.classifier.learning_rate",
        &[|spec, _| spec.classifier.learning_rate = 0.0, |spec, _| spec.classifier.learning_rate = 1.1],
        &[],
    ),
    (
        "spec.acquisition",
        &[|spec, _| spec.classifier.dropout = 0.0, |spec, _| spec.classifier.passes = 1],
        &[|spec, _| {
            spec.classifier.dropout = 0.0;
            spec.acquisition = Acquisition::Entropy;
        }],
    ),
    ("spec.aggregation", &[|spec, _| spec.annotators = 1], &[]),
    (
        "spec.rehearsal.rates",
        &[
            |spec, _| rehearsal(spec).rates.clear(),
            |spec, _| rehearsal(spec).rates = vec![0.2, 0.1],
            |spec, _| rehearsal(spec).rates = vec![0.5, 1.0],
            |spec, _| rehearsal(spec).rates = vec![f64::NAN],
            |spec, _| rehearsal(spec).rates = (1..=11).map(|n| f64::from(n) / 20.0).collect(),
        ],
        &[|spec, _| rehearsal(spec).rates = vec![0.999]],
    ),
    (
        "spec.rehearsal.thresholds",
        &[
            |spec, _| rehearsal(spec).thresholds.clear(),
            |spec, _| rehearsal(spec).thresholds = vec![0],
            |spec, _| rehearsal(spec).thresholds = vec![5, 5],
            |spec, _| rehearsal(spec).thresholds = vec![100_001],
        ],
        &[|spec, _| rehearsal(spec).thresholds = vec![100_000]],
    ),
    (
        "spec.rehearsal.questions",
        &[|spec, _| rehearsal(spec).questions = 0, |spec, _| rehearsal(spec).questions = 100_001],
        &[],
    ),
    ("spec.rehearsal.repeats", &[|spec, _| rehearsal(spec).repeats = 0, |spec, _| rehearsal(spec).repeats = 21], &[]),
    (
        "spec.rehearsal.annotator_accuracy",
        &[|spec, _| rehearsal(spec).annotator_accuracy = 0.0, |spec, _| rehearsal(spec).annotator_accuracy = 1.01],
        &[],
    ),
    (
        "spec.rehearsal.annotator_deviation",
        &[
            |spec, _| rehearsal(spec).annotator_deviation = -0.01,
            |spec, _| rehearsal(spec).annotator_deviation = 0.51,
            |spec, _| rehearsal(spec).annotator_deviation = f64::NAN,
        ],
        &[|spec, _| rehearsal(spec).annotator_deviation = 0.5],
    ),
];

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
fn all_violations_are_named_at_once() {
    let names = fields(|spec, _| {
        spec.rounds = 0;
        gate(spec).sampling_rate = SamplingRate::ONE;
        spec.labels[1].key = Some('s');
        spec.classifier.hidden = 0;
    });
    let all = ["spec.participants.1.gate.sampling_rate", "spec.labels.1.key", "spec.rounds", "spec.classifier.hidden"];
    assert_eq!(names, all);
}

#[test]
fn participants_and_tests_have_limited_numbers() {
    let crowd = |count: usize| {
        move |spec: &mut Spec, datasets: &mut Vec<Dataset>| {
            for index in 0..count {
                let id = DatasetId(Uuid::from_u128(1000 + index as u128));
                datasets.push(Dataset { id, ..datasets[OURS].clone() });
                spec.participants.push(Party { dataset: id, ..spec.participants[OURS] });
            }
        }
    };
    assert_eq!(fields(crowd(98)), Vec::<String>::new());
    assert_eq!(fields(crowd(99)), ["spec.participants"]);
    assert!(fields(|spec, _| spec.participants.clear()).contains(&"spec.participants".to_owned()));
    let exams = |count: usize| {
        move |spec: &mut Spec, _: &mut Vec<Dataset>| {
            let dataset = spec.tests[0].dataset;
            spec.tests = (0..count).map(|n| TestSet { name: n.to_string(), dataset }).collect();
        }
    };
    assert_eq!(fields(exams(20)), Vec::<String>::new());
    assert_eq!(fields(exams(21)), ["spec.tests"]);
}

#[test]
fn speech_is_refused_as_dp_sgd_refuses_queries() {
    let names = fields(|_, datasets| datasets.iter_mut().for_each(|dataset| dataset.content = DatasetContent::Speech));
    assert_eq!(names, ["spec.participants.0.dataset", "spec.participants.1.dataset", "spec.tests.0.dataset"]);
}

#[test]
fn a_private_dataset_leads_only_with_a_stated_training() {
    let private = |_: &mut Spec, datasets: &mut Vec<Dataset>| datasets[LEAD].visibility = Visibility::Private;
    assert_eq!(fields(private), ["spec.participants.0.dataset"]);
    assert_eq!(led_privately(|_, _| ()), Vec::<String>::new());
    assert_eq!(led_privately(|_, datasets| datasets[LEAD].visibility = Visibility::Open), Vec::<String>::new());
}

/// Returns the fields reported of a job with a private lead after a change.
fn led_privately(change: impl FnOnce(&mut Spec, &mut Vec<Dataset>)) -> Vec<String> {
    fields(|spec, datasets| {
        datasets[LEAD].visibility = Visibility::Private;
        datasets[LEAD].units = vec![PrivacyUnit::Record, PrivacyUnit::User];
        datasets[LEAD].users = Some(SizeClass(500));
        (spec.golden, spec.rehearsal, spec.private_lead) = (500, None, Some(training()));
        change(spec, datasets);
    })
}

fn private(spec: &mut Spec) -> &mut PrivateTraining {
    spec.private_lead.as_mut().unwrap()
}

/// As `LIMITS`, for a private lead.
const PRIVATE_LIMITS: &[(&str, &[SpecChange], &[SpecChange])] = &[
    (
        "spec.private_lead",
        &[|spec, datasets| {
            datasets[LEAD].visibility = Visibility::Public;
            spec.golden = 100;
        }],
        &[],
    ),
    (
        "spec.private_lead.noise_multiplier",
        &[
            |spec, _| private(spec).noise_multiplier = NoiseMultiplier::new(1025.0).unwrap(),
            |spec, _| private(spec).noise_multiplier = NoiseMultiplier::new(0.0009).unwrap(),
        ],
        &[|spec, _| private(spec).noise_multiplier = NoiseMultiplier::new(1024.0).unwrap()],
    ),
    (
        "spec.private_lead.clip",
        &[|spec, _| private(spec).clip = 0.0, |spec, _| private(spec).clip = 1_000_001.0],
        &[|spec, _| private(spec).clip = 1e6],
    ),
    (
        "spec.private_lead.steps",
        &[|spec, _| private(spec).steps = 0, |spec, _| private(spec).steps = 10_001],
        &[|spec, _| private(spec).steps = 10_000],
    ),
    (
        "spec.private_lead.learning_rate",
        &[|spec, _| private(spec).learning_rate = 0.0, |spec, _| private(spec).learning_rate = f64::NAN],
        &[|spec, _| private(spec).learning_rate = 1.0],
    ),
    (
        "spec.classifier.hidden",
        &[|spec, _| (spec.classifier.encoder, spec.classifier.hidden) = (Encoder::Lstm, 1024)],
        &[|spec, _| (spec.classifier.encoder, spec.classifier.hidden) = (Encoder::Lstm, 900)],
    ),
    ("spec.participants.0.gate", &[|spec, _| spec.participants[LEAD].gate = spec.participants[OURS].gate], &[]),
    ("spec.rehearsal", &[|spec, _| spec.rehearsal = example().0.rehearsal], &[]),
    ("spec.tests", &[], &[|spec, _| spec.tests.clear()]),
    (
        "spec.golden",
        &[|spec, _| spec.golden = 499, |spec, _| spec.golden = 501],
        &[|spec, datasets| (spec.golden, datasets[LEAD].users) = (200, Some(SizeClass(200)))],
    ),
    ("spec.unit", &[|_, datasets| datasets[LEAD].units = vec![PrivacyUnit::Record]], &[]),
];

#[test]
fn limit_of_a_private_lead_names_only_its_field() {
    for (field, broken, valid) in PRIVATE_LIMITS {
        for (number, change) in broken.iter().enumerate() {
            assert_eq!(led_privately(change), [*field], "change {number} of {field}");
        }
        for (number, change) in valid.iter().enumerate() {
            assert_eq!(led_privately(change), Vec::<String>::new(), "change {number} that {field} bears");
        }
    }
}
