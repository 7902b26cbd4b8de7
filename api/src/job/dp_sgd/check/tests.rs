//! Every limit of a spec, each broken alone: the field that is named, and the values on both sides of the limit.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use time::OffsetDateTime;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate};
use uuid::Uuid;

use crate::dataset::{Dataset, SizeClass, Visibility};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::Kind;
use crate::job::dp_sgd::{Audit, Model, Noise, Optimizer, Party, Rounds, Spec, TestSet, WarmStart, Weights};

const LEAD: usize = 0;
const OURS: usize = 1;
const TEST: usize = 2;

fn id(index: usize) -> DatasetId {
    DatasetId(Uuid::from_u128(index as u128 + 1))
}

/// A public dataset, an open one at another site, and a test set beside the first.
fn datasets() -> Vec<Dataset> {
    let dataset = |index: usize, name: &str, visibility, worker| Dataset {
        id: id(index),
        lineage: LineageId(Uuid::from_u128(100 + index as u128)),
        organization: OrganizationId(Uuid::from_u128(worker)),
        organization_name: "an organization".to_owned(),
        worker: WorkerId(Uuid::from_u128(worker)),
        name: name.to_owned(),
        visibility,
        inputs: 13,
        classes: 40 + index as u32,
        records: SizeClass(500),
        speakers: SizeClass(20),
        test_records: 0,
        accounts: Vec::new(),
        created_at: OffsetDateTime::UNIX_EPOCH,
    };
    vec![
        dataset(LEAD, "lead", Visibility::Public, 7),
        dataset(OURS, "ours", Visibility::Open, 8),
        dataset(TEST, "test", Visibility::Public, 7),
    ]
}

fn noise(noise_multiplier: f64) -> Noise {
    Noise { noise_multiplier: NoiseMultiplier::new(noise_multiplier).unwrap(), clip: 1.0 }
}

fn spec() -> Spec {
    let party = |index, noise| Party { dataset: id(index), sampling_rate: SamplingRate::new(0.1).unwrap(), noise };
    let rounds = Rounds {
        rounds: 10,
        optimizer: Optimizer::Sgd { learning_rate: 0.1, momentum: 0.9 },
        evaluate_every: 5,
        deadline_seconds: 60,
        quorum: 2,
    };
    Spec {
        unit: PrivacyUnit::Record,
        model: Model { hidden: 200, classes: None },
        participants: vec![party(LEAD, None), party(OURS, Some(noise(1.0)))],
        tests: vec![TestSet { name: "common".to_owned(), dataset: id(TEST) }],
        warm_start: WarmStart { epochs: 1, batch: 8, learning_rate: 0.01, seed: 1 },
        open: Some(rounds),
        private: Some(rounds),
        audit: None,
        weights: Weights::Equal,
        spare_releases: 4,
        checkpoint_every: 10,
    }
}

/// The fields at fault after a change, as they are named to the proposer.
fn fields(change: impl FnOnce(&mut Spec, &mut Vec<Dataset>)) -> Vec<String> {
    let (mut spec, mut datasets) = (spec(), datasets());
    change(&mut spec, &mut datasets);
    spec.check(&datasets).into_iter().map(|violation| violation.field).collect()
}

type Change = fn(&mut Spec, &mut Vec<Dataset>);

/// `(field, changes that break it, changes that just do not)`.
type Limit = (&'static str, &'static [Change], &'static [Change]);

fn open(spec: &mut Spec) -> &mut Rounds {
    spec.open.as_mut().unwrap()
}

fn private(spec: &mut Spec) -> &mut Rounds {
    spec.private.as_mut().unwrap()
}

const fn audit(canaries: u32, guesses: u32, recordings: u32) -> Audit {
    Audit { canaries, guesses, recordings }
}

fn own_noise(spec: &mut Spec) -> &mut Noise {
    spec.participants[OURS].noise.as_mut().unwrap()
}

const LIMITS: &[Limit] = &[
    ("spec.unit", &[|spec, _| spec.unit = PrivacyUnit::User], &[|spec, _| spec.unit = PrivacyUnit::Speaker]),
    (
        "spec.model.hidden",
        &[
            |spec, _| spec.model.hidden = 0,
            |spec, _| spec.model.hidden = 2049,
            // More parameters than the server averages, though each size by itself is in range.
            |spec, _| spec.model = Model { hidden: 1024, classes: Some(65_536) },
        ],
        &[|spec, _| spec.model.hidden = 1, |spec, _| spec.model.hidden = 2048],
    ),
    (
        "spec.model.classes",
        &[
            |spec, _| spec.model.classes = Some(0),
            |spec, _| spec.model.classes = Some(41),
            |spec, _| spec.model.classes = Some(65_537),
        ],
        &[|spec, _| spec.model.classes = Some(42), |spec, _| spec.model.classes = Some(65_536)],
    ),
    (
        "spec.warm_start.epochs",
        &[|spec, _| spec.warm_start.epochs = 1001],
        &[|spec, _| spec.warm_start.epochs = 0, |spec, _| spec.warm_start.epochs = 1000],
    ),
    (
        "spec.warm_start.batch",
        &[|spec, _| spec.warm_start.batch = 0, |spec, _| spec.warm_start.batch = 1025],
        &[|spec, _| spec.warm_start.batch = 1, |spec, _| spec.warm_start.batch = 1024],
    ),
    (
        "spec.warm_start.learning_rate",
        &[
            |spec, _| spec.warm_start.learning_rate = 0.0,
            |spec, _| spec.warm_start.learning_rate = 1.001,
            |spec, _| spec.warm_start.learning_rate = f64::NAN,
        ],
        &[|spec, _| spec.warm_start.learning_rate = 1.0],
    ),
    ("spec.spare_releases", &[|spec, _| spec.spare_releases = 1001], &[|spec, _| spec.spare_releases = 0]),
    (
        "spec.checkpoint_every",
        &[|spec, _| spec.checkpoint_every = 0, |spec, _| spec.checkpoint_every = 10_001],
        &[|spec, _| spec.checkpoint_every = 10_000],
    ),
    (
        "spec.participants",
        &[|_, datasets| datasets[OURS].inputs = 40, |_, datasets| datasets[TEST].inputs = 40],
        &[|_, datasets| datasets.iter_mut().for_each(|dataset| dataset.inputs = 40)],
    ),
    (
        "spec.participants.0.dataset",
        &[|spec, datasets| {
            datasets[LEAD].visibility = Visibility::Open;
            spec.participants[LEAD].noise = Some(noise(1.0));
        }],
        &[|spec, _| spec.participants[LEAD].noise = Some(noise(1.0))],
    ),
    (
        "spec.participants.1.dataset",
        &[
            |spec, _| spec.participants[OURS].dataset = id(9),
            |spec, _| spec.participants[OURS].dataset = id(LEAD),
            // Private data have no part in an open arm.
            |_, datasets| datasets[OURS].visibility = Visibility::Private,
        ],
        &[|spec, datasets| {
            datasets[OURS].visibility = Visibility::Private;
            spec.open = None;
        }],
    ),
    (
        "spec.participants.1.noise",
        &[|spec, _| spec.participants[OURS].noise = None],
        &[
            |spec, _| {
                spec.participants[OURS].noise = None;
                spec.private = None;
            },
            |spec, datasets| {
                spec.participants[OURS].noise = None;
                datasets[OURS].visibility = Visibility::Public;
            },
        ],
    ),
    (
        "spec.participants.1.noise.clip",
        &[
            |spec, _| own_noise(spec).clip = 0.0,
            |spec, _| own_noise(spec).clip = 1e6 + 1.0,
            |spec, _| own_noise(spec).clip = f64::INFINITY,
        ],
        &[|spec, _| own_noise(spec).clip = 1e6],
    ),
    (
        "spec.participants.1.noise.noise_multiplier",
        &[|spec, _| *own_noise(spec) = noise(1.0 / 1025.0), |spec, _| *own_noise(spec) = noise(1025.0)],
        &[|spec, _| *own_noise(spec) = noise(1.0 / 1024.0), |spec, _| *own_noise(spec) = noise(1024.0)],
    ),
    (
        "spec.audit",
        &[|spec, _| {
            spec.audit = Some(audit(100, 50, 0));
            spec.private = None;
        }],
        &[|spec, _| spec.audit = Some(audit(100, 50, 0))],
    ),
    (
        "spec.audit.canaries",
        &[
            |spec, _| spec.audit = Some(audit(19, 10, 0)),
            |spec, _| spec.audit = Some(audit(10_001, 10, 0)),
            // One hidden unit over 13 inputs, 40 classes.
            |spec, _| {
                spec.model = Model { hidden: 1, classes: Some(42) };
                spec.audit = Some(audit(145, 10, 0));
            },
        ],
        &[
            |spec, _| spec.audit = Some(audit(20, 10, 0)),
            |spec, _| {
                spec.model = Model { hidden: 1, classes: Some(42) };
                spec.audit = Some(audit(144, 10, 0));
            },
        ],
    ),
    (
        "spec.audit.guesses",
        &[
            |spec, _| spec.audit = Some(audit(100, 0, 0)),
            |spec, _| spec.audit = Some(audit(100, 51, 0)),
            |spec, _| spec.audit = Some(audit(100, 102, 0)),
        ],
        &[|spec, _| spec.audit = Some(audit(100, 100, 0)), |spec, _| spec.audit = Some(audit(100, 2, 0))],
    ),
    (
        "spec.audit.recordings",
        &[|spec, _| spec.audit = Some(audit(100, 50, 19)), |spec, _| spec.audit = Some(audit(100, 50, 2001))],
        &[|spec, _| spec.audit = Some(audit(100, 50, 20)), |spec, _| spec.audit = Some(audit(100, 50, 2000))],
    ),
    ("spec.tests", &[|spec, _| spec.tests.clear()], &[]),
    (
        "spec.tests.0.name",
        &[|spec, _| spec.tests[0].name = "  ".to_owned(), |spec, _| spec.tests[0].name = "x".repeat(41)],
        &[|spec, _| spec.tests[0].name = "ä".repeat(40)],
    ),
    (
        "spec.tests.1.name",
        &[|spec, _| spec.tests.push(TestSet { name: "common ".to_owned(), dataset: id(LEAD) })],
        &[|spec, _| spec.tests.push(TestSet { name: "own".to_owned(), dataset: id(LEAD) })],
    ),
    (
        "spec.tests.0.dataset",
        &[
            |spec, _| spec.tests[0].dataset = id(9),
            |_, datasets| datasets[TEST].visibility = Visibility::Open,
            |_, datasets| datasets[TEST].worker = datasets[OURS].worker,
        ],
        &[],
    ),
    (
        "spec.open.rounds",
        &[|spec, _| open(spec).rounds = 0, |spec, _| open(spec).rounds = 100_001],
        &[|spec, _| open(spec).rounds = 100_000],
    ),
    ("spec.private.rounds", &[|spec, _| private(spec).rounds = 0], &[|spec, _| private(spec).rounds = 1]),
    (
        "spec.private.evaluate_every",
        &[|spec, _| private(spec).evaluate_every = 0, |spec, _| private(spec).evaluate_every = 10_001],
        &[|spec, _| private(spec).evaluate_every = 10_000],
    ),
    (
        "spec.private.deadline_seconds",
        &[|spec, _| private(spec).deadline_seconds = 0, |spec, _| private(spec).deadline_seconds = 86_401],
        &[|spec, _| private(spec).deadline_seconds = 86_400],
    ),
    (
        "spec.private.quorum",
        &[|spec, _| private(spec).quorum = 0, |spec, _| private(spec).quorum = 3],
        &[|spec, _| private(spec).quorum = 1, |spec, _| private(spec).quorum = 2],
    ),
    (
        "spec.private.learning_rate",
        &[
            |spec, _| private(spec).optimizer = Optimizer::Sgd { learning_rate: 1000.5, momentum: 0.0 },
            |spec, _| private(spec).optimizer = Optimizer::Adam { learning_rate: 0.0 },
            |spec, _| private(spec).optimizer = Optimizer::Adam { learning_rate: 1.5 },
        ],
        &[
            |spec, _| private(spec).optimizer = Optimizer::Sgd { learning_rate: 1000.0, momentum: 0.0 },
            |spec, _| private(spec).optimizer = Optimizer::Adam { learning_rate: 1.0 },
        ],
    ),
    (
        "spec.open.momentum",
        &[
            |spec, _| open(spec).optimizer = Optimizer::Sgd { learning_rate: 0.1, momentum: 1.0 },
            |spec, _| open(spec).optimizer = Optimizer::Sgd { learning_rate: 0.1, momentum: -0.1 },
        ],
        &[|spec, _| open(spec).optimizer = Optimizer::Sgd { learning_rate: 0.1, momentum: 0.999 }],
    ),
];

#[test]
fn every_limit_names_its_field_and_only_it() {
    assert_eq!(fields(|_, _| ()), Vec::<String>::new());
    for (field, broken, kept) in LIMITS {
        for (number, change) in broken.iter().enumerate() {
            assert_eq!(fields(change), [*field], "change {number} of {field}");
        }
        for (number, change) in kept.iter().enumerate() {
            assert_eq!(fields(change), Vec::<String>::new(), "change {number} that {field} bears");
        }
    }
}

#[test]
fn a_job_has_participants_and_tests_in_numbers_that_can_be_followed() {
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
    let named = fields(|spec, _| {
        spec.model.hidden = 0;
        spec.warm_start.batch = 0;
        spec.participants[OURS].noise = None;
        private(spec).rounds = 0;
    });
    let all = ["spec.model.hidden", "spec.warm_start.batch", "spec.participants.1.noise", "spec.private.rounds"];
    assert_eq!(named, all);
}

#[test]
fn a_settled_spec_has_the_most_classes_of_all_its_datasets_tests_included_and_of_no_other() {
    let mut known = datasets();
    known.push(Dataset { id: id(9), classes: 5000, ..known[OURS].clone() });
    let settled = spec().settled(&known);
    assert_eq!(settled.model.classes, Some(42), "the test set has the most");
    assert_eq!(settled.check(&known), Vec::new());
    let chosen = Spec { model: Model { hidden: 200, classes: Some(64) }, ..spec() };
    assert_eq!(chosen.clone().settled(&known), chosen, "what was said stays");
}
