//! Older specs keep their meaning; the cost of each option; and the charge equals the release.
#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use undertone_privacy::curve::OrderGrid;
use undertone_privacy::{Adjacency, Event, mechanism};
use uuid::Uuid;

use super::{Clipping, Ema, ModelPart, Precision, RateSchedule, RecurrentCell, Spec};
use crate::dataset::{Dataset, DatasetContent, SizeClass, Visibility, usual_units};
use crate::id::{DatasetId, LineageId, OrganizationId, WorkerId};
use crate::job::spec_page::unnamed_fields;
use crate::job::{JobKind as _, OpenTerm, Spec as AnySpec, TermName};

/// A spec from before models had any options, as it was signed and digested.
const BEFORE: &str = r#"{"kind":"dp_sgd","spec":{"unit":"speaker","model":{"hidden":200,"classes":9096},"participants":[{"dataset":"00000000-0000-0000-0000-000000000001","sampling_rate":0.125,"noise":null},{"dataset":"00000000-0000-0000-0000-000000000002","sampling_rate":0.25,"noise":{"noise_multiplier":1.5,"clip":0.5}}],"tests":[{"name":"common","dataset":"00000000-0000-0000-0000-000000000001"}],"warm_start":{"epochs":2,"batch":8,"learning_rate":0.01,"seed":1},"open":{"rounds":5,"optimizer":"adam","learning_rate":0.002,"evaluate_every":5,"deadline_seconds":60,"quorum":1},"private":{"rounds":10,"optimizer":"sgd","learning_rate":0.1,"momentum":0.9,"evaluate_every":5,"deadline_seconds":60,"quorum":1},"weights":"expected_batch","spare_releases":4,"checkpoint_every":10}}"#;

pub(super) fn older_spec() -> Spec {
    let AnySpec::DpSgd(spec) = serde_json::from_str(BEFORE).unwrap() else { panic!("it is of another kind") };
    spec
}

pub(super) fn changed(change: impl FnOnce(&mut Spec)) -> Spec {
    let mut spec = older_spec();
    change(&mut spec);
    spec
}

pub(super) fn ours() -> Dataset {
    Dataset {
        id: DatasetId(Uuid::from_u128(2)),
        lineage: LineageId(Uuid::from_u128(3)),
        organization: OrganizationId(Uuid::from_u128(4)),
        organization_name: "an organization".to_owned(),
        worker: WorkerId(Uuid::from_u128(5)),
        name: "ours".to_owned(),
        visibility: Visibility::Private,
        content: DatasetContent::Speech,
        inputs: 13,
        classes: 40,
        records: SizeClass(500),
        speakers: SizeClass(20),
        test_records: 0,
        seconds: None,
        users: None,
        table: None,
        units: usual_units(),
        approval: None,
        accounts: Vec::new(),
        created_at: time::OffsetDateTime::UNIX_EPOCH,
    }
}

pub(super) fn event(spec: &Spec) -> Event {
    let charge = spec.cost(&ours()).unwrap();
    assert_eq!(spec.release(&ours(), "private").as_ref(), Some(&charge.event), "what leaves is what is charged");
    assert_eq!(charge.releases, 14, "10 rounds and 4 in reserve");
    charge.event
}

/// Returns the loss at every order of the accounts, nats.
fn loss(event: &Event) -> Vec<f64> {
    let curve = mechanism::curve(event, Adjacency::ZeroOut, &OrderGrid::standard()).unwrap();
    curve.losses().map(|(_, loss)| loss.to_f64_up()).collect()
}

#[test]
fn a_spec_of_before_is_read_and_written_to_the_letter() {
    let spec: AnySpec = serde_json::from_str(BEFORE).unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), BEFORE);
    let model = older_spec().model(13).unwrap();
    assert_eq!(model, "a25fd4773557fb6ba674ee65feff6b06c8fd14c2b7df7351f20d20b60c1b1b82");
}

#[test]
fn documented_example_is_valid_at_its_stated_cost() {
    let mut blocks = include_str!("spec.md").split("```json").skip(1).map(|rest| rest.split("```").next().unwrap());
    let spec: Spec = serde_json::from_str(blocks.next().unwrap()).unwrap();
    let stated_event: Event = serde_json::from_str(blocks.next().unwrap()).unwrap();
    let public = Dataset { id: DatasetId(Uuid::from_u128(1)), visibility: Visibility::Public, ..ours() };
    assert_eq!(spec.check(&[public, ours()]), Vec::new());
    let charge = spec.cost(&ours()).unwrap();
    assert_eq!((charge.releases, &charge.event), (34, &stated_event));
    assert_eq!(serde_json::to_value(&stated_event).unwrap(), serde_json::to_value(&charge.event).unwrap());
    assert!(blocks.next().is_none());
}

/// Returns a spec with every option by name, so that a new field does not compile until it is added here.
fn full() -> Spec {
    let Spec { unit, participants, tests, warm_start, private, .. } = older_spec();
    let noise = super::Noise { clipping: Clipping::PerLayer, ..participants[1].noise.unwrap() };
    let rounds = super::Rounds {
        schedule: RateSchedule::Cosine { warmup: 2, r#final: 0.1 },
        averaging: Some(Ema { decay: 0.99 }),
        train: Some(super::ModelParts::from(vec![ModelPart::Output])),
        adaptation: Some(super::ParameterAdaptation::LowRank { rank: 4 }),
        local_steps: 20,
        augmentation: Some(super::UnitAugmentation::with_usual_alterations(4)),
        exchange: super::VectorExchange { precision: Precision::Int8 },
        ..private.unwrap()
    };
    let selection = r#"{"shape":0,"stopping":0.1,"most_runs":16,"development":50,"candidates":[]}"#;
    let rehearsal = super::Rehearsal {
        parties: vec![super::RehearsedParty {
            dataset: ours().id,
            sampling_rate: participants[1].sampling_rate,
            noise: Some(noise),
            units: Some(100),
        }],
        rounds,
        clip_factors: vec![0.5],
        rate_factors: vec![2.0],
        repeats: 3,
        minutes: 60,
        seed: 1,
    };
    let column = |kind| crate::table::TableColumn { name: "age".to_owned(), kind };
    let rows = super::RowColumns {
        target: column(crate::table::ColumnKind::Boolean),
        features: vec![
            column(crate::table::ColumnKind::Integer { least: 0, most: 100 }),
            column(crate::table::ColumnKind::Text { most_grams: 20, characters: true }),
        ],
        rows_per_unit: 8,
        text: Some(super::TextEmbedding { buckets: 64, width: 8 }),
    };
    Spec {
        unit,
        model: super::AcousticModel {
            hidden: 64,
            classes: Some(40),
            cell: RecurrentCell::Gru,
            layers: 2,
            bidirectional: true,
            context: Some(5),
            normalize: true,
            loss: super::TrainingLoss::Ctc,
            rows: Some(Box::new(rows)),
        },
        initial_model: Some("ab".repeat(32)),
        participants: vec![super::Party { noise: Some(noise), rounds: Some(5), ..participants[1] }],
        open_terms: vec![OpenTerm { dataset: Some(ours().id), term: TermName::Clip, min: 0.25, max: 1.0 }],
        tests,
        warm_start,
        open: None,
        private: Some(rounds),
        audit: Some(super::AuditOptions { canaries: 20, guesses: 10, recordings: 20 }),
        selection: Some(super::SelectionOptions {
            candidates: vec![super::SelectionCandidate { learning_rate: 0.1, clip: 0.5 }],
            ..serde_json::from_str(selection).unwrap()
        }),
        secure_aggregation: Some(super::SecureAggregation {
            smallest_group: 3,
            colluding: 1,
            clip_steps: 1024,
            dimension: std::num::NonZeroU32::new(5),
        }),
        rehearsal: Some(Box::new(rehearsal)),
        weights: super::AverageWeights::Equal,
        spare_releases: 1,
        checkpoint_every: 1,
    }
}

#[test]
fn spec_page_names_each_field() {
    assert_eq!(unnamed_fields(include_str!("spec.md"), &full()), [""; 0]);
}

#[test]
fn every_option_survives_the_wire() {
    let full = r#"{"unit":"record",
        "model":{"hidden":64,"cell":"gru","layers":2,"bidirectional":true,"context":5,"normalize":true,"loss":"ctc"},
        "participants":[{"dataset":"00000000-0000-0000-0000-000000000002","sampling_rate":0.25,
            "noise":{"noise_multiplier":1.5,"clip":0.5,"clipping":"per_layer"}}],
        "tests":[],"warm_start":{"epochs":2,"batch":8,"learning_rate":0.01,"seed":1},
        "private":{"rounds":10,"optimizer":"dp_adam","learning_rate":0.1,"evaluate_every":5,"deadline_seconds":60,"quorum":1,
            "schedule":{"shape":"cosine","warmup":2,"final":0.1},"averaging":{"decay":0.99},"train":["layer2","output"],
            "adaptation":{"kind":"low_rank","rank":8},"local_steps":20,"exchange":{"precision":"int8"},
            "augmentation":{"copies":4,"frame_masks":{"count":2,"longest":20}}},
        "selection":{"shape":0,"stopping":0.1,"most_runs":16,"development":50,
            "candidates":[{"learning_rate":0.1},{"learning_rate":0.3,"clip":0.5}]}}"#;
    let spec: Spec = serde_json::from_str(full).unwrap();
    let rounds = spec.private.unwrap();
    assert_eq!((spec.model.cell, spec.model.layers, spec.model.context), (RecurrentCell::Gru, 2, Some(5)));
    assert_eq!(spec.model.loss, super::TrainingLoss::Ctc);
    assert_eq!(spec.participants[0].noise.unwrap().clipping, Clipping::PerLayer);
    assert_eq!(rounds.schedule, RateSchedule::Cosine { warmup: 2, r#final: 0.1 });
    assert_eq!((rounds.averaging, rounds.local_steps), (Some(Ema { decay: 0.99 }), 20));
    assert_eq!(Vec::from(rounds.train.unwrap()), [ModelPart::Layer2, ModelPart::Output]);
    assert_eq!(rounds.adaptation, Some(super::ParameterAdaptation::LowRank { rank: 8 }));
    assert_eq!(rounds.exchange.precision, Precision::Int8);
    let copies = rounds.augmentation.unwrap();
    assert_eq!((copies.copies, copies.coefficient_masks, copies.noise.to_bits()), (4, None, 0.0_f64.to_bits()));
    assert_eq!(copies.frame_masks, Some(super::MaskedRuns { count: 2, longest: 20 }));
    assert_eq!(spec.selection.as_ref().unwrap().candidates[1].clip.to_bits(), 0.5_f64.to_bits());
    let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
    assert_eq!(again, spec);
}

#[test]
fn local_steps_cost_the_same_paid_at_once() {
    let one = event(&older_spec());
    assert!(matches!(one, Event::PoissonSampledGaussian { .. }), "{one:?}");
    assert_eq!(event(&changed(|spec| spec.private.as_mut().unwrap().local_steps = 1)), one);
    let many = event(&changed(|spec| spec.private.as_mut().unwrap().local_steps = 20));
    assert_eq!(many, one.clone().times(20));
    let straight: Vec<f64> = loss(&one).iter().map(|loss| 20.0 * loss).collect();
    let ratio = loss(&many).iter().zip(&straight).map(|(a, b)| a / b).fold(0.0, f64::max);
    assert!((ratio - 1.0).abs() < 1e-9, "{ratio}");
}

#[test]
fn post_processing_costs_nothing() {
    let plain = event(&older_spec());
    let changes: [fn(&mut Spec); 10] = [
        |spec| spec.private.as_mut().unwrap().adaptation = Some(super::ParameterAdaptation::Biases),
        |spec| spec.private.as_mut().unwrap().adaptation = Some(super::ParameterAdaptation::LowRank { rank: 8 }),
        |spec| spec.participants[1].noise.as_mut().unwrap().clipping = Clipping::PerLayer,
        |spec| spec.participants[1].noise.as_mut().unwrap().clipping = Clipping::Automatic,
        |spec| spec.private.as_mut().unwrap().train = Some([ModelPart::Output].into_iter().collect()),
        |spec| spec.private.as_mut().unwrap().averaging = Some(Ema { decay: 0.9 }),
        |spec| spec.private.as_mut().unwrap().schedule = RateSchedule::Linear { warmup: 1, r#final: 0.0 },
        |spec| spec.private.as_mut().unwrap().exchange.precision = Precision::Int8,
        |spec| spec.model.layers = 2,
        // The mean over the copies is clipped, so the sensitivity is C.
        |spec| {
            let copies = super::UnitAugmentation::with_usual_alterations(16);
            spec.private.as_mut().unwrap().augmentation = Some(copies);
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(event(&changed(change)), plain, "change {number}");
    }
}

/// 17 coordinates of each of 800 gates, 9 of each of 9,096 classes; and their biases alone.
#[test]
fn vectors_bounds_and_groups_have_the_trained_coordinates() {
    let adapted = |adaptation| {
        changed(|spec| {
            spec.secure_aggregation = Some(super::SecureAggregation::new(5, 1));
            spec.private.as_mut().unwrap().adaptation = adaptation;
        })
    };
    let bound = |spec: &Spec| spec.most_norm(&ours(), &spec.series(&[ours()])[1]).unwrap();
    let mut last = bound(&adapted(None));
    for (adaptation, length) in [
        (super::ParameterAdaptation::LowRank { rank: 8 }, 17 * 800 + 9 * 9096),
        (super::ParameterAdaptation::Biases, 800 + 9096),
    ] {
        let spec = adapted(Some(adaptation)).settle(&[ours()]);
        assert_eq!(spec.series(&[ours()])[1].length, Some(length));
        assert_eq!(spec.masked_group(13, |_| Some(500)).unwrap().length, length);
        let Event::PoissonSampledDistributedDiscreteGaussian { noise, .. } = event(&spec) else {
            panic!("another event")
        };
        assert_eq!(u64::from(noise.dimension.get()), length, "the price of a masked sum depends on its length");
        assert!(bound(&spec) < last, "fewer coordinates have less noise together");
        last = bound(&spec);
    }
}

#[test]
fn selection_costs_between_best_run_and_all_runs() {
    let selecting = r#"{"shape":0,"stopping":0.05,"most_runs":40,"development":50,
        "candidates":[{"learning_rate":0.1},{"learning_rate":0.3}]}"#;
    let spec = changed(|spec| {
        spec.private.as_mut().unwrap().local_steps = 20;
        spec.selection = Some(serde_json::from_str(selecting).unwrap());
    });
    let best = event(&spec);
    let Event::Selected { of: run, runs } = best.clone() else { panic!("{best:?}") };
    assert_eq!(*run, spec.participants[1].step_event().unwrap().times(20));
    let all = run.clone().times(40);
    let (run, best, all) = (loss(&run), loss(&best), loss(&all));
    assert!(run.iter().zip(&best).all(|(run, best)| run < best), "{run:?} {best:?}");
    // Compare at the higher orders: at order 2 the price of the choice is at least ln E[K], whatever the runs cost.
    let last = run.len() - 1;
    assert!(best[last] < all[last] && runs.mean() > 1.0, "{best:?} {all:?}");
}

#[test]
fn noise_of_average_is_weighted_sum_of_parts() {
    let units = |_| 100;
    let spec = older_spec();
    // Batches of 12.5 (exact) and 25 (σ = 1.5 · 0.5 / 25).
    let expected = 25.0 * 0.03 / 37.5;
    assert!((spec.noise_of_average(units) - expected).abs() < 1e-15);
    let equal = changed(|spec| spec.weights = super::AverageWeights::Equal);
    assert!((equal.noise_of_average(units) - 0.015).abs() < 1e-15);
    let exact = changed(|spec| spec.participants[1].noise = None);
    assert_eq!(exact.noise_of_average(units).to_bits(), 0.0_f64.to_bits());
}
