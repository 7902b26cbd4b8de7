//! A plan: the planner's form as numbers, before they become a spec. The form posts it and its address contains it, so
//! that a plan can be kept as a link.

#[cfg(feature = "ssr")]
mod draft;
mod layers;
mod steps;
mod trials;

use serde::{Deserialize, Serialize};
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{
    AcousticModel, Arm, AuditOptions, AverageWeights, Noise, Party, Rounds, Spec, TestSet, WarmStart,
};
#[cfg(feature = "ssr")]
use undertone_api::model::InitialModelChoice;
use undertone_api::problem::Violation;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate, calibrate};

pub use layers::{FrozenParts, ModelLayers};
pub use steps::{ScheduleShape, StepOptimizer, StepOptions};
pub use trials::SelectionPlan;

/// The fewest canaries of an audit.
const LEAST_CANARIES: u32 = 20;
/// The most canaries of a planned audit.
const MOST_CANARIES: u32 = 1000;

/// One dataset in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetPart {
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether it takes part.
    #[serde(default)]
    pub joins: bool,
    /// Whether the models are measured on its test split.
    #[serde(default)]
    pub tests: bool,
    /// q.
    pub rate: f64,
    /// z; unused for public data.
    pub noise: f64,
    /// C; unused for public data.
    pub clip: f64,
}

/// A plan of a `dp_sgd` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainingPlan {
    /// Title of the job.
    pub title: String,
    /// The protected unit.
    pub unit: PrivacyUnit,
    /// Whether the open arm runs.
    #[serde(default)]
    pub open: bool,
    /// Whether the private arm runs.
    #[serde(default)]
    pub private: bool,
    /// Whether the private arm is audited.
    #[serde(default)]
    pub audit: bool,
    /// Every dataset of the consortium.
    pub parts: Vec<DatasetPart>,
    /// The dataset that leads.
    pub lead: DatasetId,
    /// Rounds of each arm.
    pub rounds: u32,
    /// The optimizer.
    pub step: StepOptimizer,
    /// Learning rate of the rounds.
    pub learning_rate: f64,
    /// The number of rounds between measurements.
    pub evaluate_every: u32,
    /// The deadline of a round, seconds.
    pub deadline: u32,
    /// The number of contributors that a round may lack.
    pub may_miss: u32,
    /// Hidden units.
    pub hidden: u32,
    /// Passes of the warm start.
    pub epochs: u32,
    /// Utterances in a batch of the warm start.
    pub batch: u32,
    /// Learning rate of the warm start.
    pub warm_rate: f64,
    /// Releases in reserve.
    pub spare: u32,
    /// The model's layers.
    #[serde(default)]
    pub layers: ModelLayers,
    /// The parts that the rounds do not train.
    #[serde(default)]
    pub frozen: FrozenParts,
    /// The options of the steps.
    #[serde(default)]
    pub steps: StepOptions,
    /// The private selection at every private party.
    #[serde(default)]
    pub trials: SelectionPlan,
    /// SHA-256 of the registry model with which the job begins; empty for random parameters.
    #[serde(default)]
    pub initial: String,
}

impl TrainingPlan {
    /// Makes an initial plan: every private dataset takes part, the largest public one leads, and the noise leaves room
    /// for twice as many releases, but is never less than one clip. `None` without datasets.
    pub fn first(datasets: &[Dataset], standings: &[(DatasetId, Vec<AccountStanding>)]) -> Option<Self> {
        let has_budget =
            |unit| standings.iter().flat_map(|(_, all)| all).any(|s| s.unit == unit && s.balance.budget().is_some());
        let unit = if has_budget(PrivacyUnit::Record) && !has_budget(PrivacyUnit::Speaker) {
            PrivacyUnit::Record
        } else {
            PrivacyUnit::Speaker
        };
        let public = |dataset: &&Dataset| dataset.visibility == Visibility::Public;
        let lead = datasets.iter().filter(public).max_by_key(|dataset| dataset.records).or(datasets.first())?;
        let rounds = 40;
        let spare = 4;
        let parts = datasets
            .iter()
            .map(|dataset| {
                let n = dataset.count(unit).0;
                let rate = if n <= 20 { 0.5 } else { (10.0 / n as f64).clamp(0.001, 0.5) };
                DatasetPart {
                    dataset: dataset.id,
                    joins: dataset.visibility != Visibility::Public || dataset.id == lead.id,
                    tests: dataset.visibility == Visibility::Public
                        && dataset.test_records > 0
                        && dataset.worker == lead.worker,
                    rate,
                    noise: find_account(dataset.id, standings, unit)
                        .and_then(|standing| find_least_noise(standing, rate, u64::from(2 * (rounds + spare))))
                        .map_or(1.0, |noise| noise.max(1.0)),
                    clip: 1.0,
                }
            })
            .collect();
        Some(Self {
            title: String::new(),
            unit,
            open: false,
            private: true,
            audit: false,
            parts,
            lead: lead.id,
            rounds,
            step: StepOptimizer::Adam,
            learning_rate: 0.002,
            evaluate_every: 5,
            deadline: 600,
            may_miss: 0,
            hidden: 200,
            epochs: 10,
            batch: 16,
            warm_rate: 0.003,
            spare,
            layers: ModelLayers::default(),
            frozen: FrozenParts::default(),
            steps: StepOptions::default(),
            trials: SelectionPlan::default(),
            initial: String::new(),
        })
    }

    /// Returns the plan with the layers of the registry model with which it begins, if this is one of `choices`.
    #[cfg(feature = "ssr")]
    #[must_use]
    pub fn with_initial_layers(self, choices: &[InitialModelChoice]) -> Self {
        match choices.iter().find(|choice| choice.origin.digest == self.initial) {
            Some(InitialModelChoice { model, .. }) => {
                Self { hidden: model.hidden, layers: ModelLayers::from_model(model), ..self }
            }
            None => self,
        }
    }

    /// Parses the plan in a page's query, if it has one.
    #[cfg(feature = "ssr")]
    pub fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct PlanQuery {
            plan: TrainingPlan,
        }
        crate::query::parse::<PlanQuery>(query).map(|query| query.plan)
    }

    /// Returns the part of a dataset.
    pub fn part(&self, dataset: DatasetId) -> Option<&DatasetPart> {
        self.parts.iter().find(|part| part.dataset == dataset)
    }

    /// Returns the participating parts, the lead first.
    pub fn participants(&self) -> impl Iterator<Item = &DatasetPart> {
        let leads = move |part: &&DatasetPart| part.dataset == self.lead;
        self.parts.iter().filter(leads).chain(self.parts.iter().filter(move |part| part.joins && !leads(part)))
    }

    /// Converts the plan into a spec.
    ///
    /// # Errors
    /// Every number out of range, by its path in the spec.
    pub fn spec(&self, datasets: &[Dataset]) -> Result<Spec, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut participants = Vec::new();
        for (index, part) in self.participants().enumerate() {
            let mut say = |field: &str, message: String| {
                violations.push(Violation::new(format!("spec.participants.{index}.{field}"), message));
            };
            let dataset = datasets.iter().find(|dataset| dataset.id == part.dataset);
            let public = dataset.is_none_or(|dataset| dataset.visibility == Visibility::Public);
            let rate = SamplingRate::new(part.rate).map_err(|error| say("sampling_rate", error.to_string()));
            let noise = if public {
                Ok(None)
            } else {
                NoiseMultiplier::new(part.noise)
                    .map(|noise_multiplier| {
                        Some(Noise { clipping: self.steps.clipping, ..Noise::flat(noise_multiplier, part.clip) })
                    })
                    .map_err(|error| say("noise.noise_multiplier", error.to_string()))
            };
            if let (Ok(sampling_rate), Ok(noise)) = (rate, noise) {
                participants.push(Party { dataset: part.dataset, sampling_rate, noise });
            }
        }
        // Selection applies to the private arm.
        let selection = self.trials.selection().map_err(|wrong| violations.extend(wrong));
        let (Ok(selection), true) = (selection, violations.is_empty()) else { return Err(violations) };
        let contributors = u32::try_from(participants.len()).unwrap_or(u32::MAX);
        let model = self.layers.model(self.hidden);
        let rounds = |arm| Rounds {
            evaluate_every: self.evaluate_every,
            deadline_seconds: self.deadline,
            quorum: contributors.saturating_sub(self.may_miss).max(1),
            schedule: self.steps.schedule(),
            averaging: self.steps.averaging(),
            train: self.frozen.trained_parts(&model),
            local_steps: self.steps.local,
            exchange: self.steps.exchange(),
            ..Rounds::new(self.rounds, self.steps.optimizer(arm, self.step, self.learning_rate))
        };
        let tests: Vec<TestSet> = self
            .parts
            .iter()
            .filter(|part| part.tests)
            .filter_map(|part| datasets.iter().find(|dataset| dataset.id == part.dataset))
            .map(|dataset| TestSet { name: dataset.name.chars().take(40).collect(), dataset: dataset.id })
            .collect();
        let is_used = |dataset: &&Dataset| {
            participants.iter().any(|party| party.dataset == dataset.id)
                || tests.iter().any(|test| test.dataset == dataset.id)
        };
        let inputs = datasets.iter().find(|dataset| dataset.id == self.lead).map_or(1, |lead| lead.inputs);
        let classes = datasets.iter().filter(is_used).map(|dataset| dataset.classes).max().unwrap_or(1);
        let audit = (self.audit && self.private).then(|| default_audit(&model, self.frozen, inputs, classes));
        let audit = audit.transpose().map_err(|violation| vec![violation])?;
        Ok(Spec {
            unit: self.unit,
            open: self.open.then(|| rounds(Arm::Open)),
            private: self.private.then(|| rounds(Arm::Private)),
            audit,
            model,
            initial_model: Some(self.initial.clone()).filter(|digest| !digest.is_empty()),
            participants,
            tests,
            warm_start: WarmStart { epochs: self.epochs, batch: self.batch, learning_rate: self.warm_rate, seed: 1 },
            selection: selection.filter(|_| self.private),
            weights: AverageWeights::ExpectedBatch,
            spare_releases: self.spare,
            checkpoint_every: 10,
        })
    }
}

/// Returns an audit that suits most plans: a thousand canaries, or the least possible number of trained parameters if
/// that is smaller, but at least 20.
///
/// # Errors
/// When fewer parameters are trained, for data of `inputs` coefficients and `classes` classes: each canary needs one of
/// its own.
fn default_audit(
    model: &AcousticModel,
    frozen: FrozenParts,
    inputs: u32,
    classes: u32,
) -> Result<AuditOptions, Violation> {
    // Rounds that train nothing are reported by the spec's own check.
    let trained = frozen.trained_parts(model).filter(|parts| !parts.is_empty()).unwrap_or_else(|| model.parts());
    let count = |inputs, classes| u32::try_from(model.parameters(trained, inputs, classes)).unwrap_or(u32::MAX);
    let parameters = count(inputs.max(1), classes.max(1));
    if parameters < LEAST_CANARIES {
        let message = format!(
            "each canary needs a trained parameter of its own: an audit needs {LEAST_CANARIES}, and the rounds train {parameters}. Train \
             more parts, or leave the audit out"
        );
        return Err(Violation::new("spec.audit.canaries", message));
    }
    let canaries = count(1, 1).clamp(LEAST_CANARIES, MOST_CANARIES);
    Ok(AuditOptions { canaries, guesses: canaries / 4 * 2, recordings: 100 })
}

/// Returns the least noise with which `releases` fit into the remainder of an account, rounded up to three decimals;
/// `None` if no noise suffices.
pub(super) fn find_least_noise(standing: &AccountStanding, rate: f64, releases: u64) -> Option<f64> {
    standing.balance.budget()?;
    let headroom = standing.balance.headroom();
    let rate = SamplingRate::new(rate).ok()?;
    let noise = calibrate::noise_for(&headroom, rate, releases, standing.adjacency).ok()?;
    Some((noise.get() * 1000.0).ceil() / 1000.0)
}

/// Returns a dataset's account for a unit.
pub(super) fn find_account(
    dataset: DatasetId,
    standings: &[(DatasetId, Vec<AccountStanding>)],
    unit: PrivacyUnit,
) -> Option<&AccountStanding> {
    let (_, all) = standings.iter().find(|(id, _)| *id == dataset)?;
    all.iter().find(|standing| standing.unit == unit)
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use undertone_api::dataset::Visibility;
    use undertone_api::job::JobKind;

    use undertone_api::id::JobId;
    use undertone_api::job::dp_sgd::{
        AcousticModel, Arm, Clipping, ModelPart, Optimizer, Precision, RateSchedule, RecurrentCell,
    };
    use undertone_api::model::{InitialModelChoice, ModelSource};
    use undertone_api::signed::ModelOrigin;

    use super::{FrozenParts, ModelLayers, ScheduleShape, StepOptimizer, StepOptions, TrainingPlan};
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
    fn plan_query_round_trips() {
        let plan = TrainingPlan::first(&example::datasets(), &example::standings()).expect("there are datasets");
        let text =
            serde_qs::to_string(&std::collections::BTreeMap::from([("plan", &plan)])).expect("a plan has a query");
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
        };
        plan.trials.on = true;
        plan.open = true;
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
        assert_eq!(private.optimizer, Optimizer::DpAdam { learning_rate: 0.002 });
        assert_eq!(
            open.optimizer,
            Optimizer::Adam { learning_rate: 0.002 },
            "without noise there is nothing to correct"
        );
        let trained: Vec<ModelPart> = private.train.expect("some are frozen").into();
        assert_eq!(trained, [ModelPart::Layer2, ModelPart::Normalize, ModelPart::Output]);
        assert_eq!((spec.model.cell, spec.model.context), (RecurrentCell::Gru, Some(5)));
        assert!(spec.participants.iter().filter_map(|party| party.noise).all(|n| n.clipping == Clipping::PerLayer));
        assert_eq!(spec.selection.as_ref().expect("it was asked for").candidates.len(), 3);
        assert_eq!(spec.rounds(Arm::Private).expect("it runs").exchange.precision, Precision::Int8);
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
        let news = ["plan[layers]", "plan[frozen]", "plan[steps]", "plan[trials]"];
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
}
