use undertone_api::dataset::Visibility;
use undertone_api::job::{JobKind, TermName};

use undertone_api::id::{JobId, WorkerId};
use undertone_api::job::dp_sgd::{
    AcousticModel, Arm, Clipping, ModelPart, Optimizer, ParameterAdaptation, Precision, RateSchedule, RecurrentCell,
    UnitAugmentation,
};
use undertone_api::model::{InitialModelChoice, ModelSource};
use undertone_api::plan::epsilon_alone;
use undertone_api::signed::ModelOrigin;
use undertone_privacy::PrivacyUnit;
use uuid::Uuid;

use super::{
    AdaptationKind, FrozenParts, GroupPlan, ModelLayers, ScheduleShape, StepOptimizer, StepOptions, TermPlan,
    TrainingPlan,
};
use crate::testing::example;

#[test]
fn first_plan_is_valid() {
    let datasets = example::datasets();
    let standings = example::standings();
    let plan = TrainingPlan::first(&datasets, &standings).expect("there are datasets");
    let spec = plan.spec(&datasets).expect("every number of the first plan is in range");
    assert_eq!(spec.check(&datasets), Vec::new());
}

#[test]
fn first_plan_fits_every_budget() {
    let datasets = example::datasets();
    let standings = example::standings();
    let plan = TrainingPlan::first(&datasets, &standings).expect("there are datasets");
    let spec = plan.spec(&datasets).expect("every number of the first plan is in range");
    for dataset in &datasets {
        let Some(charge) = spec.cost(dataset) else { continue };
        let (_, all) = standings.iter().find(|(id, _)| *id == dataset.id).expect("a private dataset has accounts");
        let standing = all.iter().find(|s| s.unit == charge.unit).expect("the plan's unit has an account");
        let cost = standing.balance.price(&charge.event, charge.adjacency).expect("the event has a price");
        standing.balance.check(&cost, charge.releases).expect("the plan fits");
    }
}

#[test]
fn plan_of_a_group_is_valid_and_restored_from_its_spec() {
    let (mut datasets, standings) = (example::datasets(), example::standings());
    // Two members of a group are never at one worker.
    for (number, dataset) in datasets.iter_mut().enumerate() {
        dataset.worker = WorkerId(Uuid::from_u128(number as u128));
    }
    let first = TrainingPlan::first(&datasets, &standings).expect("there are datasets");
    let mut plan = TrainingPlan { group: GroupPlan { on: true, ..GroupPlan::default() }, ..first.clone() };
    plan.parts.iter_mut().for_each(|part| part.noise = 2.0);
    let spec = plan.spec(&datasets).expect("every number is in range");
    assert_eq!(spec.check(&datasets), Vec::new());
    assert_eq!(TrainingPlan::from_spec(&plan.title, &spec, &first).group, plan.group);
    plan.private = false;
    assert_eq!(plan.spec(&datasets).expect("every number is in range").secure_aggregation, None);
}

#[test]
fn plan_with_bands_is_valid_cheap_and_restored_from_its_spec() {
    let (datasets, standings) = (example::datasets(), example::standings());
    let first = TrainingPlan::first(&datasets, &standings).expect("there are datasets");
    let is_private = |id| datasets.iter().any(|dataset| dataset.id == id && dataset.visibility != Visibility::Public);
    let mut plan = TrainingPlan { rounds: 100, ..first.clone() };
    plan.parts.iter_mut().for_each(|part| part.rate = 0.05);
    let plain = plan.clone();
    plan.correlate_noise(true, is_private);
    assert!(plan.bands.on && plan.bands.bands > 2, "{:?}", plan.bands);
    let spec = plan.spec(&datasets).expect("every number is in range");
    assert_eq!(spec.check(&datasets), Vec::new());
    assert_eq!(TrainingPlan::from_spec(&plan.title, &spec, &first).bands, plan.bands);
    // The same epsilon as without bands and without spare rounds.
    let plain = TrainingPlan { spare: 0, ..plain }.spec(&datasets).expect("every number is in range");
    let delta = undertone_privacy::Delta::new(1e-6).expect("in range");
    for dataset in datasets.iter().filter(|dataset| is_private(dataset.id)) {
        let epsilon = |spec: &undertone_api::job::dp_sgd::Spec| {
            epsilon_alone(&spec.cost(dataset).expect("it pays"), delta).expect("finite")
        };
        let (plain, bands) = (epsilon(&plain), epsilon(&spec));
        assert!(bands <= plain && bands > 0.97 * plain, "{bands} and {plain}");
    }
    plan.correlate_noise(false, is_private);
    let spec = plan.spec(&datasets).expect("every number is in range");
    assert!(spec.participants.iter().all(|party| party.noise.is_none_or(|noise| noise.banded.is_none())));
}

#[test]
fn plan_query_round_trips() {
    let plan = TrainingPlan::first(&example::datasets(), &example::standings()).expect("there are datasets");
    let text = serde_qs::to_string(&std::collections::BTreeMap::from([("plan", &plan)])).expect("a plan has a query");
    assert_eq!(TrainingPlan::from_query(&text), Some(plan.clone()));
    // Browsers write brackets in names as %5B and %5D.
    assert_eq!(TrainingPlan::from_query(&text.replace('[', "%5B").replace(']', "%5D")), Some(plan));
}

#[test]
fn plan_with_audit_is_valid() {
    let datasets = example::datasets();
    let mut plan = TrainingPlan::first(&datasets, &example::standings()).expect("there are datasets");
    plan.audit = true;
    for hidden in [2, 8, 200] {
        plan.hidden = hidden;
        let spec = plan.spec(&datasets).expect("every number is in range");
        assert!(spec.audit.is_some());
        assert_eq!(spec.check(&datasets), Vec::new(), "{hidden}");
    }
    plan.private = false;
    assert_eq!(plan.spec(&datasets).expect("every number is in range").audit, None, "there is nothing to audit");
}

#[test]
fn audit_never_has_more_canaries_than_trained_parameters() {
    let datasets = example::datasets();
    let mut plan = TrainingPlan::first(&datasets, &example::standings()).expect("there are datasets");
    plan.audit = true;
    // The gain and the bias of the layer norm are trained: two parameters for each hidden unit.
    plan.layers.normalize = true;
    plan.frozen = FrozenParts { layer1: true, output: true, ..FrozenParts::default() };
    plan.hidden = 10;
    let spec = plan.spec(&datasets).expect("twenty parameters suffice");
    assert_eq!(spec.audit.map(|audit| audit.canaries), Some(20));
    let violations = spec.check(&datasets);
    assert!(violations.iter().all(|violation| !violation.field.starts_with("spec.audit")), "{violations:?}");
    plan.hidden = 9;
    let violations = plan.spec(&datasets).expect_err("eighteen parameters are too few");
    assert_eq!(violations.first().map(|v| v.field.as_str()), Some("spec.audit.canaries"));
    plan.audit = false;
    plan.spec(&datasets).expect("without an audit they are enough");
}

#[test]
fn audit_of_biases_has_at_most_as_many_canaries() {
    let datasets = example::datasets();
    let mut plan = TrainingPlan::first(&datasets, &example::standings()).expect("there are datasets");
    plan.audit = true;
    plan.hidden = 8;
    plan.frozen = FrozenParts { output: true, ..FrozenParts::default() };
    plan.steps.adaptation = AdaptationKind::Biases;
    let spec = plan.spec(&datasets).expect("32 biases of the gates suffice");
    assert_eq!(spec.audit.map(|audit| audit.canaries), Some(32));
    assert_eq!(spec.check(&datasets), Vec::new());
    plan.hidden = 4;
    let violations = plan.spec(&datasets).expect_err("sixteen biases are too few");
    assert_eq!(violations.first().map(|v| v.field.as_str()), Some("spec.audit.canaries"));
}

/// Returns a plan in which no option has its default.
fn elaborate() -> TrainingPlan {
    let mut plan = TrainingPlan::first(&example::datasets(), &example::standings()).expect("there are datasets");
    plan.layers = ModelLayers {
        cell: RecurrentCell::Gru,
        layers: 2,
        bidirectional: true,
        context: 5,
        normalize: true,
        ctc: false,
    };
    plan.frozen = FrozenParts { context: true, layer1: true, layer4: true, ..FrozenParts::default() };
    plan.step = StepOptimizer::DpAdam;
    plan.steps = StepOptions {
        local: 20,
        momentum: 0.9,
        shape: ScheduleShape::Cosine,
        warmup: 3,
        last: 0.1,
        averaging: 0.99,
        precision: Precision::Int8,
        clipping: Clipping::PerLayer,
        copies: 4,
        adaptation: AdaptationKind::LowRank,
        rank: 5,
    };
    plan.trials.on = true;
    plan.open = true;
    plan.terms.noise = TermPlan { open: true, min: 0.25, max: 40.0 };
    plan.terms.clip = TermPlan { open: true, min: 0.5, max: 2.0 };
    plan.terms.rate.open = true;
    (plan.terms.rounds, plan.terms.least_rounds) = (true, 7);
    plan
}

#[test]
fn elaborate_plan_is_in_the_spec_and_valid() {
    let mut datasets = example::datasets();
    for dataset in datasets.iter_mut().filter(|dataset| dataset.visibility != Visibility::Public) {
        dataset.visibility = Visibility::Open;
    }
    let spec = elaborate().spec(&datasets).expect("every number is in range");
    assert_eq!(spec.check(&datasets), Vec::new());
    let open = spec.open.expect("both arms run");
    let private = spec.private.expect("both arms run");
    assert_eq!((private.local_steps, private.schedule), (20, RateSchedule::Cosine { warmup: 3, r#final: 0.1 }));
    assert_eq!(private.augmentation, Some(UnitAugmentation::with_usual_alterations(4)));
    assert_eq!(private.optimizer, Optimizer::DpAdam { learning_rate: 0.002 });
    assert_eq!(open.optimizer, Optimizer::Adam { learning_rate: 0.002 }, "without noise there is nothing to correct");
    let trained: Vec<ModelPart> = private.train.expect("some are frozen").into();
    assert_eq!(trained, [ModelPart::Layer2, ModelPart::Normalize, ModelPart::Output]);
    assert_eq!(private.adaptation, Some(ParameterAdaptation::LowRank { rank: 5 }));
    assert_eq!(open.adaptation, private.adaptation);
    assert_eq!((spec.model.cell, spec.model.context), (RecurrentCell::Gru, Some(5)));
    assert!(spec.participants.iter().filter_map(|party| party.noise).all(|n| n.clipping == Clipping::PerLayer));
    assert_eq!(spec.selection.as_ref().expect("it was asked for").candidates.len(), 3);
    assert_eq!(spec.rounds(Arm::Private).expect("it runs").exchange.precision, Precision::Int8);
    let ranges: Vec<_> = spec.open_terms.iter().map(|open| (open.term, open.min, open.max)).collect();
    let noise = (TermName::NoiseMultiplier, 0.25, 40.0);
    let rate = (TermName::SamplingRate, 0.001, 0.5);
    assert_eq!(ranges, [noise, (TermName::Clip, 0.5, 2.0), rate, (TermName::Rounds, 7.0, 40.0)]);
}

#[test]
fn planned_spec_opens_as_its_plan() {
    let mut datasets = example::datasets();
    for dataset in datasets.iter_mut().filter(|dataset| dataset.visibility != Visibility::Public) {
        dataset.visibility = Visibility::Open;
    }
    let first = TrainingPlan::first(&datasets, &example::standings()).expect("there are datasets");
    let mut absent = elaborate();
    absent.parts[1].joins = false;
    (absent.audit, absent.trials.on, absent.may_miss) = (true, false, 1);
    absent.initial = "ab".repeat(32);
    for planned in [first.clone(), elaborate(), absent] {
        let spec = planned.spec(&datasets).expect("every number is in range");
        let plan = TrainingPlan::from_spec("a title", &spec, &first);
        assert_eq!(plan.title, "a title");
        assert_eq!(plan.spec(&datasets), Ok(spec));
    }
}

#[test]
fn plan_takes_over_the_layers_of_its_initial_model() {
    let plan = elaborate();
    let model = AcousticModel { layers: 3, classes: Some(9), ..AcousticModel::lstm(33, None) };
    let origin = ModelOrigin {
        digest: "ab".repeat(32),
        job: JobId(uuid::Uuid::from_u128(1)),
        title: "an earlier job".to_owned(),
        file: "model.safetensors".to_owned(),
        source: ModelSource::Private,
    };
    let choices = [InitialModelChoice { origin, model: model.clone() }];
    assert_eq!(plan.clone().with_initial_layers(&choices), plan, "it begins with no model");
    let begun = TrainingPlan { initial: "ab".repeat(32), ..plan };
    let spec = begun.with_initial_layers(&choices).spec(&example::datasets()).expect("every number is in range");
    assert_eq!(spec.initial_model, Some("ab".repeat(32)));
    assert_eq!(spec.check_layers(&model), Vec::new());
}

#[test]
fn elaborate_and_old_plan_links_are_parsed() {
    let text = |plan: &TrainingPlan| {
        serde_qs::to_string(&std::collections::BTreeMap::from([("plan", plan)])).expect("a plan has a query")
    };
    let plan = elaborate();
    assert_eq!(TrainingPlan::from_query(&text(&plan)), Some(plan));
    let plain = TrainingPlan::first(&example::datasets(), &example::standings()).expect("there are datasets");
    let news = ["plan[layers]", "plan[frozen]", "plan[steps]", "plan[trials]", "plan[terms]"];
    let old: Vec<_> =
        text(&plain).split('&').filter(|f| !news.iter().any(|n| f.starts_with(n))).map(str::to_owned).collect();
    assert_eq!(TrainingPlan::from_query(&old.join("&")), Some(plain));
}

#[test]
fn rate_out_of_range_is_named_by_path() {
    let datasets = example::datasets();
    let mut plan = TrainingPlan::first(&datasets, &example::standings()).expect("there are datasets");
    for part in &mut plan.parts {
        part.rate = 1.5;
    }
    let violations = plan.spec(&datasets).expect_err("no rate is above 1");
    assert_eq!(violations.first().map(|v| v.field.as_str()), Some("spec.participants.0.sampling_rate"));
}

#[test]
fn first_plan_on_tables_is_valid_and_round_trips() {
    let datasets = example::tables();
    let first = TrainingPlan::first(&datasets, &example::standings()).expect("there are datasets");
    assert!(first.is_of_rows() && first.unit == PrivacyUnit::User);
    for (layers, audit) in [(1, true), (1, false), (0, false)] {
        let mut plan = TrainingPlan { audit, ..first.clone() };
        plan.layers.layers = layers;
        let spec = plan.spec(&datasets).expect("every number is in range");
        assert_eq!(spec.check(&datasets), Vec::new(), "{layers} {audit}");
        let rows = spec.model.rows.as_ref().expect("a model of rows");
        assert_eq!((&*rows.target.name, rows.features.len()), ("returns", 2));
        assert_eq!(spec.audit.map(|audit| audit.recordings), audit.then_some(0));
        let restored = TrainingPlan::from_spec("", &spec, &first).spec(&datasets).expect("the same numbers");
        assert_eq!(restored, spec);
    }
    let broken = TrainingPlan { rows: "{".to_owned(), ..first };
    let violations = broken.spec(&datasets).expect_err("no JSON");
    assert_eq!(violations.first().map(|violation| violation.field.as_str()), Some("spec.model.rows"));
}

#[test]
fn first_plan_predicts_a_number_without_a_category() {
    let mut datasets = example::tables();
    for table in datasets.iter_mut().filter_map(|dataset| dataset.table.as_mut()) {
        table.columns.remove(1);
    }
    let first = TrainingPlan::first(&datasets, &example::standings()).expect("there are datasets");
    let spec = first.spec(&datasets).expect("every number is in range");
    assert_eq!(spec.check(&datasets), Vec::new());
    assert_eq!(spec.model.rows.expect("a model of rows").target.name, "cost");
}
