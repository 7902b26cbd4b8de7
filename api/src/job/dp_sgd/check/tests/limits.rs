//! The limits themselves.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::num::NonZeroU16;

use undertone_privacy::{PrivacyUnit, RunShape, StoppingRate};

use super::{FieldLimit, LEAD, OURS, TEST, audit, id, noise, open, own_noise, private, selecting};
use crate::dataset::Visibility;
use crate::job::dp_sgd::{
    AcousticModel, Clipping, Ema, ModelPart, Optimizer, ParameterAdaptation, Precision, RateSchedule, RecurrentCell,
    TestSet, TrainingLoss,
};

pub(super) const LIMITS: &[FieldLimit] = &[
    (
        "spec.unit",
        &[
            |spec, _| spec.unit = PrivacyUnit::User,
            // The features of a record were normalized over all speech of its speaker.
            |_, datasets| datasets[OURS].units = vec![PrivacyUnit::Speaker],
        ],
        &[
            |spec, _| spec.unit = PrivacyUnit::Speaker,
            |_, datasets| datasets[LEAD].units = vec![PrivacyUnit::Speaker],
            |spec, datasets| {
                spec.unit = PrivacyUnit::User;
                datasets[OURS].units.push(PrivacyUnit::User);
            },
        ],
    ),
    (
        "spec.model.hidden",
        &[
            |spec, _| spec.model.hidden = 0,
            |spec, _| spec.model.hidden = 2049,
            // More parameters than the server averages, though each size alone is in range.
            |spec, _| spec.model = AcousticModel::lstm(1024, Some(65_536)),
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
        "spec.initial_model",
        &[
            |spec, _| spec.initial_model = Some("AB".repeat(32)),
            |spec, _| spec.initial_model = Some("ab".repeat(31)),
            |spec, _| spec.initial_model = Some(String::new()),
        ],
        &[|spec, _| spec.initial_model = Some("ab".repeat(32)), |spec, _| spec.initial_model = None],
    ),
    (
        "spec.model.loss",
        // The datasets have 40, 41 and 42 classes, so their blanks differ.
        &[|spec, _| spec.model.loss = TrainingLoss::Ctc],
        &[|spec, datasets| {
            spec.model.loss = TrainingLoss::Ctc;
            for dataset in datasets.iter_mut() {
                dataset.classes = 42;
            }
        }],
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
            // Private data cannot take part in an open arm.
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
                spec.model = AcousticModel::lstm(1, Some(42));
                spec.audit = Some(audit(145, 10, 0));
            },
            // Only the output layer is trained.
            |spec, _| {
                spec.model = AcousticModel::lstm(1, Some(42));
                private(spec).train = Some([ModelPart::Output].into_iter().collect());
                spec.audit = Some(audit(85, 10, 0));
            },
            // Only the biases are trained: four of the cell, and one of each class.
            |spec, _| {
                spec.model = AcousticModel::lstm(1, Some(42));
                private(spec).adaptation = Some(ParameterAdaptation::Biases);
                spec.audit = Some(audit(47, 10, 0));
            },
        ],
        &[
            |spec, _| spec.audit = Some(audit(20, 10, 0)),
            |spec, _| {
                spec.model = AcousticModel::lstm(1, Some(42));
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
            |spec, _| private(spec).optimizer = Optimizer::DpAdam { learning_rate: 1.5 },
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
    (
        "spec.model.layers",
        &[|spec, _| spec.model.layers = 0, |spec, _| spec.model.layers = 5],
        &[
            |spec, _| spec.model.layers = 4,
            |spec, _| {
                (spec.model.cell, spec.model.bidirectional, spec.model.normalize) = (RecurrentCell::Gru, true, true);
            },
        ],
    ),
    (
        "spec.model.context",
        &[
            |spec, _| spec.model.context = Some(1),
            |spec, _| spec.model.context = Some(4),
            |spec, _| spec.model.context = Some(33),
        ],
        &[|spec, _| spec.model.context = Some(3), |spec, _| spec.model.context = Some(31)],
    ),
    (
        "spec.private.local_steps",
        &[|spec, _| private(spec).local_steps = 0, |spec, _| private(spec).local_steps = 10_001],
        &[
            |spec, _| private(spec).local_steps = 10_000,
            |spec, _| private(spec).exchange.precision = Precision::Int8,
            |spec, _| own_noise(spec).clipping = Clipping::PerLayer,
            |spec, _| own_noise(spec).clipping = Clipping::Automatic,
        ],
    ),
    (
        "spec.open.optimizer",
        &[|spec, _| open(spec).optimizer = Optimizer::DpAdam { learning_rate: 0.1 }],
        &[|spec, _| private(spec).optimizer = Optimizer::DpAdam { learning_rate: 1.0 }],
    ),
    (
        "spec.private.schedule.warmup",
        &[
            |spec, _| private(spec).schedule = RateSchedule::Linear { warmup: 10, r#final: 0.0 },
            |spec, _| private(spec).schedule = RateSchedule::Cosine { warmup: 11, r#final: 0.0 },
        ],
        &[|spec, _| private(spec).schedule = RateSchedule::Cosine { warmup: 9, r#final: 1.0 }],
    ),
    (
        "spec.open.schedule.final",
        &[
            |spec, _| open(spec).schedule = RateSchedule::Linear { warmup: 0, r#final: 1.1 },
            |spec, _| open(spec).schedule = RateSchedule::Cosine { warmup: 0, r#final: -0.1 },
            |spec, _| open(spec).schedule = RateSchedule::Cosine { warmup: 0, r#final: f64::NAN },
        ],
        &[|spec, _| open(spec).schedule = RateSchedule::Linear { warmup: 0, r#final: 0.0 }],
    ),
    (
        "spec.private.averaging.decay",
        &[
            |spec, _| private(spec).averaging = Some(Ema { decay: 0.0 }),
            |spec, _| private(spec).averaging = Some(Ema { decay: 1.0 }),
            |spec, _| private(spec).averaging = Some(Ema { decay: f64::NAN }),
        ],
        &[|spec, _| private(spec).averaging = Some(Ema { decay: 0.999 })],
    ),
    (
        "spec.private.train",
        &[
            |spec, _| private(spec).train = Some([].into_iter().collect()),
            |spec, _| private(spec).train = Some([ModelPart::Layer2, ModelPart::Output].into_iter().collect()),
            |spec, _| private(spec).train = Some([ModelPart::Context].into_iter().collect()),
        ],
        &[
            |spec, _| private(spec).train = Some([ModelPart::Output].into_iter().collect()),
            |spec, _| {
                spec.model.context = Some(5);
                private(spec).train = Some([ModelPart::Context].into_iter().collect());
            },
        ],
    ),
    (
        "spec.selection",
        &[
            |spec, _| {
                selecting(spec);
                spec.private = None;
            },
            |spec, _| {
                selecting(spec);
                spec.audit = Some(audit(100, 50, 0));
            },
            |spec, _| {
                selecting(spec);
                private(spec).local_steps = 1;
            },
        ],
        &[|spec, _| _ = selecting(spec)],
    ),
    (
        "spec.selection.shape",
        &[|spec, _| selecting(spec).shape = RunShape::new(1.01).unwrap()],
        &[
            |spec, _| selecting(spec).shape = RunShape::new(-0.99).unwrap(),
            |spec, _| selecting(spec).shape = RunShape::new(1.0).unwrap(),
        ],
    ),
    (
        "spec.selection.stopping",
        &[|spec, _| selecting(spec).stopping = StoppingRate::new(0.0009).unwrap()],
        &[
            |spec, _| selecting(spec).stopping = StoppingRate::new(1.0 / 1024.0).unwrap(),
            |spec, _| selecting(spec).stopping = StoppingRate::new(0.999).unwrap(),
        ],
    ),
    (
        "spec.selection.most_runs",
        &[
            |spec, _| selecting(spec).most_runs = NonZeroU16::new(1).unwrap(),
            |spec, _| selecting(spec).most_runs = NonZeroU16::new(1001).unwrap(),
        ],
        &[
            |spec, _| selecting(spec).most_runs = NonZeroU16::new(2).unwrap(),
            |spec, _| selecting(spec).most_runs = NonZeroU16::new(1000).unwrap(),
        ],
    ),
    (
        "spec.selection.development",
        &[|spec, _| selecting(spec).development = 0, |spec, _| selecting(spec).development = 2001],
        &[|spec, _| selecting(spec).development = 1, |spec, _| selecting(spec).development = 2000],
    ),
    (
        "spec.selection.candidates",
        &[
            |spec, _| selecting(spec).candidates.truncate(1),
            |spec, _| {
                let all = &mut selecting(spec).candidates;
                all.resize(65, all[0]);
            },
        ],
        &[|spec, _| {
            let all = &mut selecting(spec).candidates;
            all.resize(64, all[0]);
        }],
    ),
    (
        "spec.selection.candidates.1.learning_rate",
        &[
            |spec, _| selecting(spec).candidates[1].learning_rate = 0.0,
            |spec, _| selecting(spec).candidates[1].learning_rate = 1001.0,
            |spec, _| {
                selecting(spec).candidates[1].learning_rate = 1.1;
                private(spec).optimizer = Optimizer::DpAdam { learning_rate: 0.1 };
            },
        ],
        &[|spec, _| selecting(spec).candidates[1].learning_rate = 1000.0],
    ),
    (
        "spec.selection.candidates.0.clip",
        &[|spec, _| selecting(spec).candidates[0].clip = 0.0, |spec, _| selecting(spec).candidates[0].clip = 1.01],
        &[|spec, _| selecting(spec).candidates[0].clip = 0.01],
    ),
];
