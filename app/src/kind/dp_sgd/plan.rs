//! A plan: the planner's form as numbers, before they become a spec. The form posts it and its address contains it, so
//! that a plan can be kept as a link.

mod bands;
#[cfg(feature = "ssr")]
mod draft;
mod group;
mod layers;
mod rows;
mod steps;
mod terms;
mod trials;

use serde::{Deserialize, Serialize};
use undertone_api::budget::AccountStanding;
use undertone_api::dataset::{Dataset, DatasetContent, Visibility};
use undertone_api::id::DatasetId;
use undertone_api::job::dp_sgd::{
    AcousticModel, Arm, AuditOptions, AverageWeights, Noise, ParameterAdaptation, Party, Rounds, Spec, TestSet,
    WarmStart,
};
#[cfg(feature = "ssr")]
use undertone_api::model::InitialModelChoice;
use undertone_api::problem::Violation;
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate, calibrate};

pub(in crate::kind::dp_sgd) use bands::BandPlan;
pub use group::GroupPlan;
pub use layers::{FrozenParts, ModelLayers};
#[cfg(feature = "ssr")]
pub(in crate::kind) use rows::can_predict_rows;
pub(super) use steps::AdaptationKind;
pub use steps::{ScheduleShape, StepOptimizer, StepOptions};
pub use terms::{TermPlan, TermPlans};
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
    /// Secure aggregation of the private arm.
    #[serde(default)]
    pub group: GroupPlan,
    /// Correlated noise of the private arm.
    #[serde(default)]
    pub bands: BandPlan,
    /// The terms that the owners set.
    #[serde(default)]
    pub terms: TermPlans,
    /// SHA-256 of the registry model with which the job begins; empty for random parameters.
    #[serde(default)]
    pub initial: String,
    /// The columns of a model of rows, as JSON; empty for a model of speech.
    #[serde(default)]
    pub rows: String,
}

impl TrainingPlan {
    /// Makes an initial plan: every private dataset takes part, the largest public one leads, and the noise leaves room
    /// for twice as many releases, but is never less than one clip. `None` without datasets.
    pub fn first(datasets: &[Dataset], standings: &[(DatasetId, Vec<AccountStanding>)]) -> Option<Self> {
        let has_budget =
            |unit| standings.iter().flat_map(|(_, all)| all).any(|s| s.unit == unit && s.balance.budget().is_some());
        let public = |dataset: &&Dataset| dataset.visibility == Visibility::Public;
        let lead = datasets.iter().filter(public).max_by_key(|dataset| dataset.records).or(datasets.first())?;
        let is_table = lead.content == DatasetContent::Table;
        let unit = if is_table {
            PrivacyUnit::User
        } else if has_budget(PrivacyUnit::Record) && !has_budget(PrivacyUnit::Speaker) {
            PrivacyUnit::Record
        } else {
            PrivacyUnit::Speaker
        };
        // A table has no test split: another public table is measured on, or the lead's own without one.
        let at_lead = |dataset: &&Dataset| public(dataset) && dataset.worker == lead.worker;
        let has_other = datasets.iter().filter(at_lead).any(|dataset| dataset.id != lead.id);
        let is_test = |dataset: &Dataset| {
            at_lead(&dataset) && if is_table { has_other == (dataset.id != lead.id) } else { dataset.test_records > 0 }
        };
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
                    tests: is_test(dataset),
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
            hidden: if is_table { 32 } else { 200 },
            epochs: 10,
            batch: 16,
            warm_rate: 0.003,
            spare,
            layers: ModelLayers::default(),
            frozen: FrozenParts::default(),
            steps: StepOptions::default(),
            trials: SelectionPlan::default(),
            group: GroupPlan::default(),
            bands: BandPlan::default(),
            terms: TermPlans::default(),
            initial: String::new(),
            rows: rows::first_rows(lead),
        })
    }

    /// Returns the plan with the layers of the registry model with which it begins, if this is one of `choices`.
    #[cfg(feature = "ssr")]
    #[must_use]
    pub fn with_initial_layers(self, choices: &[InitialModelChoice]) -> Self {
        match choices.iter().find(|choice| choice.origin.digest == self.initial) {
            Some(InitialModelChoice { model, .. }) => {
                let rows = model.rows.as_deref().map_or_else(String::new, rows::write_rows);
                Self { hidden: model.hidden, layers: ModelLayers::from_model(model), rows, ..self }
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
                        let clipping = self.steps.clipping;
                        let banded = self.bands.banded();
                        Some(Noise { clipping, banded, ..Noise::flat(noise_multiplier, part.clip) })
                    })
                    .map_err(|error| say("noise.noise_multiplier", error.to_string()))
            };
            if let (Ok(sampling_rate), Ok(noise)) = (rate, noise) {
                participants.push(Party { dataset: part.dataset, sampling_rate, noise, rounds: None });
            }
        }
        // Selection applies to the private arm.
        let selection = self.trials.selection().map_err(|wrong| violations.extend(wrong));
        let model = self.model().map_err(|wrong| violations.push(wrong));
        let (Ok(selection), Ok(model), true) = (selection, model, violations.is_empty()) else {
            return Err(violations);
        };
        let contributors = u32::try_from(participants.len()).unwrap_or(u32::MAX);
        let rounds = |arm| Rounds {
            evaluate_every: self.evaluate_every,
            deadline_seconds: self.deadline,
            quorum: contributors.saturating_sub(self.may_miss).max(1),
            schedule: self.steps.schedule(),
            averaging: self.steps.averaging(),
            train: self.frozen.trained_parts(&model),
            adaptation: self.steps.adaptation(),
            local_steps: self.steps.local,
            augmentation: self.steps.augmentation().filter(|_| !self.is_of_rows()),
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
        let classes = match &model.rows {
            Some(rows) => rows.outputs(),
            None => datasets.iter().filter(is_used).map(|dataset| dataset.classes).max().unwrap_or(1),
        };
        let adaptation = self.steps.adaptation();
        let audit = (self.audit && self.private)
            .then(|| default_audit(&model, self.frozen, adaptation, model.inputs(inputs), classes));
        let audit = audit.transpose().map_err(|violation| vec![violation])?;
        Ok(Spec {
            unit: self.unit,
            open: self.open.then(|| rounds(Arm::Open)),
            private: self.private.then(|| rounds(Arm::Private)),
            audit,
            model,
            initial_model: Some(self.initial.clone()).filter(|digest| !digest.is_empty()),
            participants,
            open_terms: if self.private { self.terms.open_terms(self.rounds) } else { Vec::new() },
            secure_aggregation: self.group.terms().filter(|_| self.private),
            rehearsal: None,
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
    adaptation: Option<ParameterAdaptation>,
    inputs: u32,
    classes: u32,
) -> Result<AuditOptions, Violation> {
    // Rounds that train nothing are reported by the spec's own check.
    let trained = frozen.trained_parts(model).filter(|parts| !parts.is_empty()).unwrap_or_else(|| model.parts());
    let count =
        |inputs, classes| u32::try_from(model.coordinates(trained, adaptation, inputs, classes)).unwrap_or(u32::MAX);
    let parameters = count(inputs.max(1), classes.max(1));
    if parameters < LEAST_CANARIES {
        let message = format!(
            "each canary needs a trained parameter of its own: an audit needs {LEAST_CANARIES}, and the rounds train {parameters}. Train \
             more parts, or leave the audit out"
        );
        return Err(Violation::new("spec.audit.canaries", message));
    }
    // The inputs and outputs of rows are known; those of speech may shrink with other datasets.
    let least = if model.rows.is_some() { parameters } else { count(1, 1) };
    let canaries = least.clamp(LEAST_CANARIES, MOST_CANARIES);
    let recordings = if model.rows.is_some() { 0 } else { 100 };
    Ok(AuditOptions { canaries, guesses: canaries / 4 * 2, recordings })
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
mod tests;
