//! `dp_sgd`: federated training of an acoustic model (senone classifier), or of a model of rows of tables, by DP-SGD,
//! after *Sotto Voce*.
//!
//! The lead participant, whose data are public, trains conventionally first (warm start). Then up to two series of
//! rounds follow: `open`, in which owners that marked their data open for it send exact gradients, and `private`, in
//! which each private participant sends one differentially private gradient a round with its *own* sampling rate, noise
//! and clip. The server averages; all apply the same step. The lead measures on public test sets.
//!
//! Every option of a spec is in the file of its subject: `adaptation.rs`, `augmentation.rs`, `masked.rs`, `model.rs`,
//! `rows.rs`, `noise.rs`, `rounds.rs`, `selection.rs`. An option at its default is not written, so that older manifests keep their digests. `cost.rs` alone defines the charge,
//! `check.rs` the limits.
//!
#![doc = include_str!("dp_sgd/spec.md")]

mod adaptation;
mod augmentation;
mod check;
mod cost;
mod initial;
mod masked;
mod model;
mod noise;
mod norm;
mod rehearsal;
mod report;
mod rounds;
mod rows;
mod selection;
mod terms;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use undertone_privacy::{Event, PrivacyUnit, SamplingRate};

use super::audit::{AuditPlan, AuditTrial, CanaryFamily};
use super::{
    AllowedMeasurements, Charge, DatasetUse, JobKind, MaskedGroup, OpenTerm, RoundSeries, TermName, TermRange,
};
use crate::dataset::{Dataset, Visibility};
use crate::id::DatasetId;
use crate::model::source::ModelSource;
use crate::problem::Violation;

pub use adaptation::ParameterAdaptation;
pub use augmentation::{MaskedRuns, UnitAugmentation};
pub use masked::SecureAggregation;
pub use model::{AcousticModel, ModelPart, ModelParts, RecurrentCell, TrainingLoss};
pub use noise::{BandedNoise, Clipping, Noise};
pub use norm::FALSE_REFUSAL;
pub use rehearsal::{Rehearsal, RehearsedParty};
pub use report::{
    ArmResult, PublicContent, RehearsalReport, RehearsedRun, RehearsedSetting, Report, SettingMeasure, TestResult,
};
pub use rounds::{Ema, Optimizer, Precision, RateSchedule, Rounds, VectorExchange};
pub use rows::{MOST_ROW_INPUTS, MOST_ROWS_PER_UNIT, NO_GRAM, RowColumns, TARGET_LEVELS, TextEmbedding, level_value};
pub use selection::{SelectionCandidate, SelectionOptions};

/// One arm of the comparison (Table 2 of *Sotto Voce*).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Public data, after the initial model if there is one: the warm start itself.
    Public,
    /// Public data and exact gradients of private data; only for datasets that their owners marked open.
    Open,
    /// Public data, and private data through DP-SGD.
    Private,
}

impl Arm {
    /// Returns the arm's series of rounds, the key of its measurements: `public`, `open`, `private`.
    pub const fn series(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Open => "open",
            Self::Private => "private",
        }
    }
}

/// A participant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Party {
    /// Its dataset.
    pub dataset: DatasetId,
    /// q: the probability with which each unit enters a round's batch.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.1))]
    pub sampling_rate: SamplingRate,
    /// Its noise in the private series. A private dataset must have it; a public one without it sends exact gradients.
    #[serde(default)]
    pub noise: Option<Noise>,
    /// The number of the first rounds of the private arm in which it sends a vector. Absent: every round.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100_000))]
    pub rounds: Option<u32>,
}

/// A public test set, at the lead participant's worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TestSet {
    /// Name in charts and tables: 1 to 40 characters, unique.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 40))]
    pub name: String,
    /// The dataset. Its test split is used, or all of it if it has no split.
    pub dataset: DatasetId,
}

/// Conventional training of the lead participant before the rounds (Adam).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WarmStart {
    /// Passes over the public data: 0 to 1,000.
    #[cfg_attr(feature = "openapi", schema(maximum = 1000))]
    pub epochs: u32,
    /// Utterances in a batch: 1 to 1,024.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1024))]
    pub batch: u32,
    /// Learning rate: greater than 0, at most 1.
    #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1))]
    pub learning_rate: f64,
    /// Seed of initialization and order.
    pub seed: u64,
}

/// The weights of the participants in the average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Weights))]
#[serde(rename_all = "snake_case")]
pub enum AverageWeights {
    /// Equal weights.
    Equal,
    /// The expected batch of each participant: q times the size class.
    #[default]
    ExpectedBatch,
}

/// An audit of the private arm. Every private participant adds canaries of its own to its units and, after the last
/// round, guesses from its releases which of them were included. The canaries are no one's data, and the claim does not
/// change.
///
/// Perfect guesses show at most about ln(guesses / 6.9): 2.7 with 100 guesses, 5 with 1,000. The audit is uninformative
/// about a larger claim, and reports this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdAudit))]
pub struct AuditOptions {
    /// Canaries that are gradients, each in a direction of its own: 20 to 10,000, at most as many as the model has
    /// parameters. They hardly disturb the training.
    #[cfg_attr(feature = "openapi", schema(minimum = 20, maximum = 10000))]
    pub canaries: u32,
    /// Guesses about them: an even number from 2 to the number of canaries. Half as many as canaries is a reasonable
    /// choice.
    #[cfg_attr(feature = "openapi", schema(minimum = 2, maximum = 10000))]
    pub guesses: u32,
    /// Canaries that are synthetic recordings (or speakers, where these are protected) with random labels, for attacks
    /// on the finished model: 0, or 20 to 2,000. Half of them are trained on, which costs some accuracy on small
    /// datasets.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 2000))]
    pub recordings: u32,
}

/// A `dp_sgd` job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdSpec))]
pub struct Spec {
    /// The protected unit: records (utterances), speakers, or users, if the owners' datasets have a column of users.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The model.
    pub model: AcousticModel,
    /// SHA-256, hex in lower case, of the file of a registry model with which the job begins, before the warm start.
    /// Absent: random parameters. The layers of `model` must be those of the file, and `model.classes` becomes the
    /// file's if a proposal omits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 64, max_length = 64))]
    pub initial_model: Option<String>,
    /// The participants. The first leads and must be public.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 100))]
    pub participants: Vec<Party>,
    /// The terms of the private arm that the owners set themselves with their approval, each within a range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 404))]
    pub open_terms: Vec<OpenTerm>,
    /// The test sets.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 20))]
    pub tests: Vec<TestSet>,
    /// The warm start: the `public` arm.
    pub warm_start: WarmStart,
    /// The `open` arm, if it is requested.
    #[serde(default)]
    pub open: Option<Rounds>,
    /// The `private` arm, if it is requested.
    #[serde(default)]
    pub private: Option<Rounds>,
    /// The audit of the private arm, if it is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditOptions>,
    /// Private selection in the private arm, if it is requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<SelectionOptions>,
    /// Secure aggregation of the private arm, if it is requested: the server learns the sum of the vectors of the
    /// participants with noise, and no vector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secure_aggregation: Option<SecureAggregation>,
    /// A rehearsal of a planned job on the lead's public data, in place of the arms. The lead is then the only
    /// participant, and no participant's private data are used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rehearsal: Option<Box<Rehearsal>>,
    /// Weights in the average.
    #[serde(default)]
    pub weights: AverageWeights,
    /// Releases reserved beyond the rounds, for rounds that must be paid again after a crash: 0 to 1,000.
    #[serde(default = "default_spare")]
    #[cfg_attr(feature = "openapi", schema(maximum = 1000))]
    pub spare_releases: u32,
    /// Rounds between two checkpoints: 1 to 10,000.
    #[serde(default = "default_checkpoint")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub checkpoint_every: u32,
}

const fn default_spare() -> u32 {
    4
}

const fn default_checkpoint() -> u32 {
    10
}

impl Spec {
    /// Returns the arms of the job, in order.
    pub fn arms(&self) -> Vec<Arm> {
        let mut arms = vec![Arm::Public];
        arms.extend(self.open.is_some().then_some(Arm::Open));
        arms.extend(self.private.is_some().then_some(Arm::Private));
        arms
    }

    /// Returns the arm that makes a file of the job; `None` for a file that is no model.
    pub fn arm_of_file(&self, file: &str) -> Option<Arm> {
        match file {
            "warm_start.safetensors" => Some(Arm::Public),
            "model.safetensors" => self.arms().last().copied(),
            _ => self.arms().into_iter().find(|arm| file == format!("model-{}.safetensors", arm.series())),
        }
    }

    /// Returns the rounds of an arm; `None` for the public arm and for arms that do not run.
    pub const fn rounds(&self, arm: Arm) -> Option<&Rounds> {
        match arm {
            Arm::Public => None,
            Arm::Open => self.open.as_ref(),
            Arm::Private => self.private.as_ref(),
        }
    }

    /// Returns the party with `dataset`, if it takes part.
    pub fn party(&self, dataset: DatasetId) -> Option<&Party> {
        self.participants.iter().find(|party| party.dataset == dataset)
    }

    /// Returns the length of each vector of a series: its trained coordinates. `None` while the spec leaves the classes
    /// open, or if none of the `datasets` is a participant's.
    pub fn vector_length(&self, rounds: &Rounds, datasets: &[Dataset]) -> Option<u64> {
        let coefficients = datasets.iter().find(|dataset| self.party(dataset.id).is_some())?.inputs;
        let inputs = self.model.inputs(coefficients);
        Some(rounds.coordinates(&self.model, inputs, self.model.classes?))
    }

    /// Returns the group of the private series, from the datasets of all its members.
    fn masked_group_of(&self, datasets: &[Dataset]) -> Option<MaskedGroup> {
        let find = |id: DatasetId| datasets.iter().find(|dataset| dataset.id == id);
        let inputs = find(self.members().next()?.dataset)?.inputs;
        self.masked_group(inputs, |id| find(id).map(|dataset| self.units_of(dataset)))
    }

    /// Returns n, the public number of units of a dataset, used in every division.
    pub fn units_of(&self, dataset: &Dataset) -> u64 {
        dataset.count(self.unit).0
    }
}

/// The digested description of the initial model.
#[derive(Serialize)]
struct InitialModel<'a> {
    inputs: u32,
    model: &'a AcousticModel,
    #[serde(rename = "initial_model", skip_serializing_if = "Option::is_none")]
    file: Option<&'a str>,
    #[serde(rename = "warm_start")]
    training: &'a WarmStart,
}

impl JobKind for Spec {
    const NAME: &'static str = "dp_sgd";

    fn check(&self, datasets: &[Dataset]) -> Vec<Violation> {
        check::check(self, datasets)
    }

    fn settle(mut self, datasets: &[Dataset]) -> Self {
        // A rehearsal has the classes of the planned job.
        let used = self.rehearsed().map_or_else(|| self.datasets(), |rehearsed| rehearsed.datasets());
        let classes = match &self.model.rows {
            Some(rows) => rows.outputs(),
            None => check::most_classes(&used, datasets),
        };
        self.model.classes.get_or_insert(classes);
        self.settle_rehearsal(datasets);
        self.settle_dimension(datasets);
        self
    }

    fn open_terms(&self, dataset: DatasetId) -> Vec<TermRange> {
        terms::open_terms(self, dataset)
    }

    fn set_term(&mut self, dataset: DatasetId, term: TermName, value: f64) {
        terms::set_term(self, dataset, term, value);
    }

    fn datasets(&self) -> Vec<(DatasetId, DatasetUse)> {
        let mut used: Vec<_> = self.participants.iter().map(|party| (party.dataset, DatasetUse::Participate)).collect();
        for test in &self.tests {
            if !used.iter().any(|(dataset, _)| *dataset == test.dataset) {
                used.push((test.dataset, DatasetUse::Evaluate));
            }
        }
        used
    }

    fn cost(&self, dataset: &Dataset) -> Option<Charge> {
        cost::cost(self, dataset)
    }

    fn release(&self, dataset: &Dataset, series: &str) -> Option<Event> {
        cost::release(self, dataset, series)
    }

    fn audit_plan(&self, dataset: &Dataset) -> Option<AuditPlan> {
        let audit = self.audit.filter(|_| self.private.is_some() && dataset.visibility != Visibility::Public)?;
        self.party(dataset.id)?.noise?;
        // The audit looks for the same recordings in the finished models of the other arms, to compare the private arm
        // with them.
        let others = |arm: &Arm| audit.recordings > 0 && *arm != Arm::Private;
        let beside = self.arms().into_iter().filter(others).map(|arm| arm.series().to_owned()).collect();
        let mut trials =
            vec![AuditTrial { family: CanaryFamily::Direction, canaries: audit.canaries, guesses: audit.guesses }];
        if audit.recordings > 0 {
            // Weak attacks guess best at the extremes: use half of the canaries, rounded down to an even number.
            let guesses = audit.recordings / 4 * 2;
            trials.push(AuditTrial { family: CanaryFamily::Recording, canaries: audit.recordings, guesses });
        }
        Some(AuditPlan { series: Arm::Private.series().to_owned(), trials, beside })
    }

    fn clip(&self, dataset: DatasetId) -> Option<f64> {
        Some(self.party(dataset)?.noise?.clip)
    }

    fn most_norm(&self, dataset: &Dataset, series: &RoundSeries) -> Option<f64> {
        norm::most_norm(self, dataset, series)
    }

    fn units(&self, dataset: &Dataset) -> u64 {
        self.units_of(dataset)
    }

    fn model(&self, inputs: u32) -> Option<String> {
        // The weights come from the initial model's file, if there is one, and the lead's warm start on public data; only
        // this description and those data determine them.
        let file = self.initial_model.as_deref();
        let start = InitialModel { inputs, model: &self.model, file, training: &self.warm_start };
        let text = serde_json::to_string(&start).ok()?;
        Some(hex::encode(Sha256::new().chain_update("undertone/dp_sgd-model/1\0").chain_update(text).finalize()))
    }

    fn initial_file(&self) -> Option<&str> {
        self.initial_model.as_deref()
    }

    fn model_source(&self, file: &str) -> Option<ModelSource> {
        Some(match self.arm_of_file(file)? {
            Arm::Public => ModelSource::Public,
            Arm::Open => ModelSource::Open,
            Arm::Private => ModelSource::Private,
        })
    }

    fn allowed_measurements(&self) -> AllowedMeasurements {
        let last = |arm: Arm| self.rounds(arm).map_or(self.warm_start.epochs, |rounds| rounds.rounds);
        AllowedMeasurements {
            series: self.arms().into_iter().map(|arm| (arm.series().to_owned(), last(arm))).collect(),
            tests: self.tests.iter().map(|test| test.name.clone()).collect(),
        }
    }

    fn series(&self, datasets: &[Dataset]) -> Vec<RoundSeries> {
        let series = |arm: Arm, rounds: &Rounds| RoundSeries {
            name: arm.series().to_owned(),
            rounds: rounds.rounds,
            quorum: rounds.quorum,
            deadline_seconds: rounds.deadline_seconds,
            weights: self
                .participants
                .iter()
                .filter_map(|party| {
                    let dataset = datasets.iter().find(|dataset| dataset.id == party.dataset)?;
                    let weight = self.weight(party, self.units_of(dataset));
                    Some((party.dataset, weight))
                })
                .collect(),
            until: match arm {
                Arm::Private => {
                    self.participants.iter().filter_map(|party| Some((party.dataset, party.rounds?))).collect()
                }
                Arm::Open | Arm::Public => Vec::new(),
            },
            length: self.vector_length(rounds, datasets),
            precision: rounds.exchange.precision,
            masked: (arm == Arm::Private).then(|| self.masked_group_of(datasets)).flatten(),
        };
        [Arm::Open, Arm::Private]
            .into_iter()
            .filter_map(|arm| self.rounds(arm).map(|rounds| series(arm, rounds)))
            .collect()
    }
}
