//! A plan: the planner's form as numbers, before they become a spec. The form posts it and its address contains it, so
//! that a plan can be kept as a link.

mod layers;
#[cfg(feature = "ssr")]
mod opened;
mod steps;
mod trials;

use serde::{Deserialize, Serialize};
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{Arm, Audit, Model, Noise, Party, Rounds, Spec, TestSet, WarmStart, Weights};
use undertone_api::problem::Violation;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate, calibrate};

use crate::standing::Standing;

pub use layers::{Frozen, Layers};
pub use steps::{Shape, Step, Steps};
pub use trials::Trials;

/// The fewest canaries of an audit.
const LEAST_CANARIES: u32 = 20;
/// The most canaries of a planned audit.
const MOST_CANARIES: u32 = 1000;

/// One dataset in a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Part {
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
pub struct Plan {
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
    pub parts: Vec<Part>,
    /// The dataset that leads.
    pub lead: DatasetId,
    /// Rounds of each arm.
    pub rounds: u32,
    /// The optimizer.
    pub step: Step,
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
    pub layers: Layers,
    /// The parts that the rounds do not train.
    #[serde(default)]
    pub frozen: Frozen,
    /// The options of the steps.
    #[serde(default)]
    pub steps: Steps,
    /// The private selection at every private party.
    #[serde(default)]
    pub trials: Trials,
}

impl Plan {
    /// Makes an initial plan: every private dataset takes part, the largest public one leads, and the noise leaves room
    /// for twice as many releases, but is never less than one clip. `None` without datasets.
    pub fn first(datasets: &[Dataset], standings: &[(DatasetId, Vec<Standing>)]) -> Option<Self> {
        let budgeted =
            |unit| standings.iter().flat_map(|(_, all)| all).any(|s| s.unit == unit && s.balance.budget().is_some());
        let unit = if budgeted(PrivacyUnit::Record) && !budgeted(PrivacyUnit::Speaker) {
            PrivacyUnit::Record
        } else {
            PrivacyUnit::Speaker
        };
        let public = |dataset: &&Dataset| dataset.visibility == Visibility::Public;
        let lead = datasets.iter().filter(public).max_by_key(|dataset| dataset.records).or(datasets.first())?;
        let (rounds, spare) = (40, 4);
        let parts = datasets
            .iter()
            .map(|dataset| {
                let n = dataset.count(unit).0;
                let rate = if n <= 20 { 0.5 } else { (10.0 / n as f64).clamp(0.001, 0.5) };
                Part {
                    dataset: dataset.id,
                    joins: dataset.visibility != Visibility::Public || dataset.id == lead.id,
                    tests: dataset.visibility == Visibility::Public
                        && dataset.test_records > 0
                        && dataset.worker == lead.worker,
                    rate,
                    noise: account(dataset.id, standings, unit)
                        .and_then(|standing| least_noise(standing, rate, u64::from(2 * (rounds + spare))))
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
            step: Step::Adam,
            learning_rate: 0.002,
            evaluate_every: 5,
            deadline: 600,
            may_miss: 0,
            hidden: 200,
            epochs: 10,
            batch: 16,
            warm_rate: 0.003,
            spare,
            layers: Layers::default(),
            frozen: Frozen::default(),
            steps: Steps::default(),
            trials: Trials::default(),
        })
    }

    /// Parses the plan in a page's query, if it has one.
    #[cfg(feature = "ssr")]
    pub fn from_query(query: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Query {
            plan: Plan,
        }
        crate::query::parse::<Query>(query).map(|query| query.plan)
    }

    /// Returns the part of a dataset.
    pub fn part(&self, dataset: DatasetId) -> Option<&Part> {
        self.parts.iter().find(|part| part.dataset == dataset)
    }

    /// Returns the participating parts, the lead first.
    pub fn joining(&self) -> impl Iterator<Item = &Part> {
        let leads = move |part: &&Part| part.dataset == self.lead;
        self.parts.iter().filter(leads).chain(self.parts.iter().filter(move |part| part.joins && !leads(part)))
    }

    /// Converts the plan into a spec.
    ///
    /// # Errors
    /// Every number out of range, by its path in the spec.
    pub fn spec(&self, datasets: &[Dataset]) -> Result<Spec, Vec<Violation>> {
        let mut violations = Vec::new();
        let mut participants = Vec::new();
        for (index, part) in self.joining().enumerate() {
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
            train: self.frozen.trained(&model),
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
        let audit = (self.audit && self.private).then(|| audit(&model, self.frozen, inputs, classes));
        let audit = audit.transpose().map_err(|violation| vec![violation])?;
        Ok(Spec {
            unit: self.unit,
            open: self.open.then(|| rounds(Arm::Open)),
            private: self.private.then(|| rounds(Arm::Private)),
            audit,
            model,
            participants,
            tests,
            warm_start: WarmStart { epochs: self.epochs, batch: self.batch, learning_rate: self.warm_rate, seed: 1 },
            selection: selection.filter(|_| self.private),
            weights: Weights::ExpectedBatch,
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
fn audit(model: &Model, frozen: Frozen, inputs: u32, classes: u32) -> Result<Audit, Violation> {
    // Rounds that train nothing are reported by the spec's own check.
    let trained = frozen.trained(model).filter(|parts| !parts.is_empty()).unwrap_or_else(|| model.parts());
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
    Ok(Audit { canaries, guesses: canaries / 4 * 2, recordings: 100 })
}

/// Returns the least noise with which `releases` fit into the remainder of an account, rounded up to three decimals;
/// `None` if no noise suffices.
pub(super) fn least_noise(standing: &Standing, rate: f64, releases: u64) -> Option<f64> {
    standing.balance.budget()?;
    let headroom = standing.balance.headroom();
    let rate = SamplingRate::new(rate).ok()?;
    let noise = calibrate::noise_for(&headroom, rate, releases, standing.adjacency).ok()?;
    Some((noise.get() * 1000.0).ceil() / 1000.0)
}

/// Returns a dataset's account for a unit.
pub(super) fn account(
    dataset: DatasetId,
    standings: &[(DatasetId, Vec<Standing>)],
    unit: PrivacyUnit,
) -> Option<&Standing> {
    let (_, all) = standings.iter().find(|(id, _)| *id == dataset)?;
    all.iter().find(|standing| standing.unit == unit)
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use undertone_api::dataset::Visibility;
    use undertone_api::job::Kind;

    use undertone_api::job::dp_sgd::{Arm, Cell, Clipping, Optimizer, Part, Precision, Schedule};

    use super::{Frozen, Layers, Plan, Shape, Step, Steps};
    use crate::fixture;

    #[test]
    fn the_first_plan_is_one_that_can_be_proposed() {
        let (datasets, standings) = (fixture::datasets(), fixture::standings());
        let plan = Plan::first(&datasets, &standings).expect("there are datasets");
        let spec = plan.spec(&datasets).expect("every number of the first plan is in range");
        assert_eq!(spec.check(&datasets), Vec::new());
    }

    #[test]
    fn the_first_plan_fits_into_what_is_left_of_every_budget() {
        let (datasets, standings) = (fixture::datasets(), fixture::standings());
        let plan = Plan::first(&datasets, &standings).expect("there are datasets");
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
    fn a_plan_that_was_posted_by_a_plain_form_is_the_plan_that_was_shown() {
        let plan = Plan::first(&fixture::datasets(), &fixture::standings()).expect("there are datasets");
        let text =
            serde_qs::to_string(&std::collections::BTreeMap::from([("plan", &plan)])).expect("a plan has a query");
        assert_eq!(Plan::from_query(&text), Some(plan.clone()));
        // Browsers write brackets in names as %5B and %5D.
        assert_eq!(Plan::from_query(&text.replace('[', "%5B").replace(']', "%5D")), Some(plan));
    }

    #[test]
    fn a_plan_with_an_audit_is_one_that_can_be_proposed() {
        let datasets = fixture::datasets();
        let mut plan = Plan::first(&datasets, &fixture::standings()).expect("there are datasets");
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
        let datasets = fixture::datasets();
        let mut plan = Plan::first(&datasets, &fixture::standings()).expect("there are datasets");
        plan.audit = true;
        // The gain and the bias of the layer norm are trained: two parameters for each hidden unit.
        plan.layers.normalize = true;
        plan.frozen = Frozen { layer1: true, output: true, ..Frozen::default() };
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
    fn elaborate() -> Plan {
        let mut plan = Plan::first(&fixture::datasets(), &fixture::standings()).expect("there are datasets");
        plan.layers = Layers { cell: Cell::Gru, layers: 2, bidirectional: true, context: 5, normalize: true };
        plan.frozen = Frozen { context: true, layer1: true, layer4: true, ..Frozen::default() };
        plan.step = Step::DpAdam;
        plan.steps = Steps {
            local: 20,
            momentum: 0.9,
            shape: Shape::Cosine,
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
    fn everything_that_can_be_planned_is_in_the_spec_and_can_be_proposed() {
        let mut datasets = fixture::datasets();
        for dataset in datasets.iter_mut().filter(|dataset| dataset.visibility != Visibility::Public) {
            dataset.visibility = Visibility::Open;
        }
        let spec = elaborate().spec(&datasets).expect("every number is in range");
        assert_eq!(spec.check(&datasets), Vec::new());
        let (open, private) = (spec.open.expect("both arms run"), spec.private.expect("both arms run"));
        assert_eq!((private.local_steps, private.schedule), (20, Schedule::Cosine { warmup: 3, r#final: 0.1 }));
        assert_eq!(private.optimizer, Optimizer::DpAdam { learning_rate: 0.002 });
        assert_eq!(
            open.optimizer,
            Optimizer::Adam { learning_rate: 0.002 },
            "without noise there is nothing to correct"
        );
        let trained: Vec<Part> = private.train.expect("some are frozen").into();
        assert_eq!(trained, [Part::Layer2, Part::Normalize, Part::Output]);
        assert_eq!((spec.model.cell, spec.model.context), (Cell::Gru, Some(5)));
        assert!(spec.participants.iter().filter_map(|party| party.noise).all(|n| n.clipping == Clipping::PerLayer));
        assert_eq!(spec.selection.as_ref().expect("it was asked for").candidates.len(), 3);
        assert_eq!(spec.rounds(Arm::Private).expect("it runs").exchange.precision, Precision::Int8);
    }

    #[test]
    fn a_spec_that_was_planned_opens_as_the_plan_that_stands_for_it() {
        let mut datasets = fixture::datasets();
        for dataset in datasets.iter_mut().filter(|dataset| dataset.visibility != Visibility::Public) {
            dataset.visibility = Visibility::Open;
        }
        let first = Plan::first(&datasets, &fixture::standings()).expect("there are datasets");
        let mut absent = elaborate();
        absent.parts[1].joins = false;
        (absent.audit, absent.trials.on, absent.may_miss) = (true, false, 1);
        for planned in [first.clone(), elaborate(), absent] {
            let spec = planned.spec(&datasets).expect("every number is in range");
            let opened = Plan::of("a title", &spec, &first);
            assert_eq!(opened.title, "a title");
            assert_eq!(opened.spec(&datasets), Ok(spec));
        }
    }

    #[test]
    fn an_elaborate_plan_survives_a_plain_form_and_a_link_of_before_is_a_plain_plan() {
        let text = |plan: &Plan| {
            serde_qs::to_string(&std::collections::BTreeMap::from([("plan", plan)])).expect("a plan has a query")
        };
        let plan = elaborate();
        assert_eq!(Plan::from_query(&text(&plan)), Some(plan));
        let plain = Plan::first(&fixture::datasets(), &fixture::standings()).expect("there are datasets");
        let news = ["plan[layers]", "plan[frozen]", "plan[steps]", "plan[trials]"];
        let old: Vec<_> =
            text(&plain).split('&').filter(|f| !news.iter().any(|n| f.starts_with(n))).map(str::to_owned).collect();
        assert_eq!(Plan::from_query(&old.join("&")), Some(plain));
    }

    #[test]
    fn a_rate_out_of_range_is_named_by_its_place_in_the_spec() {
        let datasets = fixture::datasets();
        let mut plan = Plan::first(&datasets, &fixture::standings()).expect("there are datasets");
        for part in &mut plan.parts {
            part.rate = 1.5;
        }
        let violations = plan.spec(&datasets).expect_err("no rate is above 1");
        assert_eq!(violations.first().map(|v| v.field.as_str()), Some("spec.participants.0.sampling_rate"));
    }
}
