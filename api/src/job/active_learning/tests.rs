//! The charge equals the release, once, for any number of questions. The documentation is correct.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_privacy::{Adjacency, Event, NoiseMultiplier, SamplingRate, kanon, mechanism};
use uuid::Uuid;

use super::{
    Label, LearningPoint, POOL, Party, PrivateTest, PrivateTestResult, PrivateTraining, Rehearsal, Spec, TRAINING,
    TestResult, best_round,
};
use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::evaluation::MetricEstimate;
use crate::job::spec_page::unnamed_fields;
use crate::job::{JobKind as _, Spec as AnySpec};
use undertone_privacy::PrivacyUnit;

/// Returns the documentation's example and the event that it states.
pub(crate) fn example() -> (Spec, Event) {
    let mut blocks = include_str!("spec.md").split("```json").skip(1).map(|rest| rest.split("```").next().unwrap());
    let spec = serde_json::from_str(blocks.next().unwrap()).unwrap();
    let event = serde_json::from_str(blocks.next().unwrap()).unwrap();
    assert!(blocks.next().is_none());
    (spec, event)
}

/// Returns the example's lead, public and labelled, and the other party's log, which has users.
pub(crate) fn datasets() -> Vec<Dataset> {
    let dataset = |id: u128, name: &str, visibility, classes, users| Dataset {
        id: DatasetId(Uuid::from_u128(id)),
        lineage: LineageId(Uuid::from_u128(100 + id)),
        organization: OrganizationId(Uuid::from_u128(200 + id)),
        organization_name: "an organization".to_owned(),
        worker: WorkerId(Uuid::from_u128(300 + id)),
        name: name.to_owned(),
        visibility,
        content: DatasetContent::Queries,
        inputs: 0,
        classes,
        records: SizeClass(10_000),
        speakers: SizeClass(1),
        test_records: 500,
        seconds: None,
        users,
        table: None,
        units: match users {
            Some(_) => vec![PrivacyUnit::Record, PrivacyUnit::User],
            None => vec![PrivacyUnit::Record],
        },
        approval: None,
        accounts: Vec::new(),
        created_at: time::OffsetDateTime::UNIX_EPOCH,
    };
    vec![
        dataset(1, "collection", Visibility::Public, 3, None),
        dataset(2, "bank", Visibility::Private, 0, Some(SizeClass(1000))),
    ]
}

/// Returns the training of a private lead: q = 1/8, z = 2, 40 steps.
pub(crate) fn training() -> PrivateTraining {
    PrivateTraining {
        sampling_rate: SamplingRate::new(0.125).unwrap(),
        noise_multiplier: NoiseMultiplier::new(2.0).unwrap(),
        clip: 1.0,
        steps: 40,
        learning_rate: 0.05,
    }
}

#[test]
fn spec_page_names_each_field() {
    let (spec, _) = example();
    // The example has every option. A new field of an optional part does not compile until it is added here.
    let Rehearsal { rates, thresholds, questions: _, repeats: _, annotator_accuracy: _, annotator_deviation } =
        spec.rehearsal.as_ref().unwrap();
    assert!(!rates.is_empty() && !thresholds.is_empty() && *annotator_deviation > 0.0);
    let Label { name: _, key, hint } = &spec.labels[0];
    assert!(key.is_some() && !hint.is_empty());
    let Party { dataset: _, gate } = &spec.participants[1];
    assert!(gate.is_some());
    let noise_multiplier = NoiseMultiplier::new(8.0).unwrap();
    let test = PrivateTest { dataset: spec.participants[0].dataset, noise_multiplier, measurements: 2 };
    let spec = Spec { private_lead: Some(training()), private_test: Some(test), ..spec };
    assert_eq!(unnamed_fields(include_str!("spec.md"), &spec), [""; 0]);
}

#[test]
fn documented_example_is_valid_at_its_stated_cost() {
    let (spec, event) = example();
    let datasets = datasets();
    assert_eq!(spec.check(&datasets), Vec::new());
    let charge = spec.cost(&datasets[1]).unwrap();
    assert_eq!((charge.releases, charge.unit, charge.adjacency), (1, PrivacyUnit::User, Adjacency::ZeroOut));
    assert_eq!(serde_json::to_value(&event).unwrap(), serde_json::to_value(&charge.event).unwrap());
    let (epsilon, delta) = mechanism::guarantee(&charge.event, charge.adjacency).unwrap();
    let gate = spec.participants[1].gate.unwrap();
    let one = kanon::delta(gate.shown, 20, gate.sampling_rate.get(), 0.25).unwrap().get();
    assert!((0.5..0.5 + 1e-12).contains(&epsilon.get()) && delta.get() > 2.0 * one && delta.get() < 2.4 * one);
    assert!(delta.get() < 1e-6, "{delta:?}");
}

#[test]
fn pool_is_charged_once_as_it_is_released() {
    let (spec, event) = example();
    let datasets = datasets();
    assert_eq!(spec.release(&datasets[1], POOL), Some(event.clone()));
    assert_eq!(spec.release(&datasets[1], "classifier"), None);
    assert_eq!((spec.cost(&datasets[0]), spec.release(&datasets[0], POOL)), (None, None), "the lead is public");
    let stranger = Dataset { id: DatasetId(Uuid::from_u128(9)), ..datasets[1].clone() };
    assert_eq!(spec.cost(&stranger), None);
    let opened = Dataset { visibility: Visibility::Open, ..datasets[1].clone() };
    assert_eq!(spec.cost(&opened).unwrap().event, event, "opened for gradients, not for reading");
}

#[test]
fn private_lead_is_charged_for_each_training_and_nothing_else() {
    let spec = Spec { private_lead: Some(training()), ..example().0 };
    let mut datasets = datasets();
    assert_eq!(spec.cost(&datasets[0]), None, "a public lead is not charged whatever the spec says");
    for visibility in [Visibility::Private, Visibility::Open] {
        datasets[0].visibility = visibility;
        let step = Event::PoissonSampledGaussian {
            sampling_rate: training().sampling_rate,
            noise_multiplier: training().noise_multiplier,
        };
        let charge = spec.cost(&datasets[0]).unwrap();
        assert_eq!((&charge.event, charge.releases), (&step.times(40), u64::from(spec.rounds) + 1));
        assert_eq!((charge.unit, charge.adjacency), (PrivacyUnit::User, Adjacency::ZeroOut));
        assert_eq!(spec.release(&datasets[0], TRAINING), Some(charge.event));
        assert_eq!((spec.release(&datasets[0], POOL), spec.release(&datasets[0], "classifier")), (None, None));
    }
    assert_eq!((spec.release(&datasets[1], TRAINING), spec.cost(&datasets[1]).unwrap().releases), (None, 1));
    let series = &spec.series(&datasets)[0];
    assert_eq!((series.rounds, series.quorum, series.contributors(1).count()), (6, 1, 1));
    assert!(series.deadline_seconds > 2 * spec.deadline_seconds);
    // Bag of 64 → 128 → 3 labels, each with a bias.
    assert_eq!(series.length, Some(65 * 128 + 129 * 3));
    assert!(spec.follows_from_releases(datasets[0].id) && !spec.follows_from_releases(datasets[1].id));
    assert!(!Spec { private_lead: None, ..spec.clone() }.follows_from_releases(datasets[0].id));
    let gated = Spec { participants: vec![Party { dataset: datasets[0].id, ..spec.participants[1] }], ..spec };
    assert_eq!(gated.release(&datasets[0], POOL), None, "and none beside it if a spec without check asks for one");
}

#[test]
fn options_after_the_release_cost_nothing() {
    let (spec, _) = example();
    let datasets = datasets();
    let charge = spec.cost(&datasets[1]);
    let changed = Spec { rounds: 900, batch: 1, annotators: 20, golden: 5, seed: 7, rehearsal: None, ..spec };
    assert_eq!(changed.cost(&datasets[1]), charge);
}

#[test]
fn server_learns_the_question_plan_only() {
    let (spec, _) = example();
    let any = AnySpec::ActiveLearning(spec.clone());
    let question_plan = any.questions().unwrap();
    assert_eq!(question_plan.asking, [spec.participants[1].dataset], "the lead of the example asks nothing");
    assert_eq!((question_plan.lead, question_plan.series.as_str()), (spec.participants[0].dataset, POOL));
    assert_eq!(
        (question_plan.rounds, question_plan.batch, question_plan.annotators, question_plan.deadline_seconds),
        (5, 50, 2, 86_400)
    );
    assert_eq!((question_plan.labels, question_plan.guidelines), (spec.labels, spec.guidelines));
    assert_eq!(any.series(&[]), Vec::new());
    assert_eq!(any.allowed_measurements().series, [("classifier".to_owned(), 5)]);
}

#[test]
fn a_spec_survives_the_wire() {
    let any = AnySpec::ActiveLearning(example().0);
    let text = serde_json::to_string(&any).unwrap();
    assert!(text.starts_with(r#"{"kind":"active_learning","spec":{"unit":"user""#), "{text}");
    assert_eq!(serde_json::from_str::<AnySpec>(&text).unwrap(), any);
}

#[test]
fn omitted_fields_have_their_documented_defaults() {
    let (spec, _) = example();
    let mut value = serde_json::to_value(&spec).unwrap();
    let fields = value.as_object_mut().unwrap();
    for field in ["classifier", "acquisition", "diversity", "annotators", "aggregation", "guidelines", "rehearsal"] {
        assert!(fields.remove(field).is_some(), "{field}");
    }
    let read: Spec = serde_json::from_value(value).unwrap();
    assert_eq!(read.classifier, spec.classifier, "the example writes the defaults of the classifier");
    assert_eq!((read.annotators, read.diversity, read.rehearsal), (1, false, None));
    assert_eq!((read.acquisition, read.aggregation), Default::default());
}

#[test]
fn best_round_is_the_first_of_the_greatest_accuracy() {
    let point = |round, accuracy: f64, loss| {
        let test = |accuracy| TestResult { name: "t".to_owned(), accuracy, loss, examples: 10 };
        let tests = vec![test(accuracy), test(1.0 - accuracy)];
        LearningPoint { round, asked: 0, labelled: 0, tests, private_test: None }
    };
    let rounds = [point(0, 0.5, 1.0), point(1, 0.8, 0.9), point(2, 0.8, 0.7), point(3, 0.8, 0.7), point(4, 0.7, 0.1)];
    assert_eq!(best_round(&rounds), Some(2), "equal accuracy, smaller loss");
    assert_eq!(best_round(&rounds[..1]), Some(0));
    assert_eq!(best_round(&[]), None);
    let unmeasured = LearningPoint { tests: Vec::new(), ..point(0, 0.0, 0.0) };
    let without = |round| LearningPoint { round, ..unmeasured.clone() };
    assert_eq!(best_round(&[without(0), without(1)]), Some(1), "without measurements the last");
    let released = |round, accuracy: f64| {
        let accuracy = MetricEstimate::new(accuracy, 1e-4, 1e-4);
        LearningPoint {
            private_test: Some(PrivateTestResult { deviation: 16.0, accuracy, classes: Vec::new() }),
            ..without(round)
        }
    };
    let paid = [released(0, 0.5), without(1), released(2, 0.8), without(3), released(4, 0.7)];
    assert_eq!(best_round(&paid), Some(2), "of the measured ones, by the released accuracy");
    assert_eq!(best_round(&[without(0), released(1, 0.1), without(2)]), Some(1));
    let small = LearningPoint { private_test: released(0, f64::NAN).private_test, ..without(0) };
    assert_eq!(best_round(&[small, without(1)]), Some(1), "the test set is too small for the noise");
    let both =
        [LearningPoint { private_test: released(0, 0.9).private_test, ..point(0, 0.5, 1.0) }, point(1, 0.6, 1.0)];
    assert_eq!(best_round(&both), Some(1), "a public test set decides");
    assert!(point(1, 0.0, 9.0).is_better_than(&unmeasured) && !unmeasured.is_better_than(&point(1, 0.0, 9.0)));
}
