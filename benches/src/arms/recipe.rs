//! The recipe: all training parameters except ε.
//!
//! `UNDERTONE_ARMS_RECIPE` is a comma-separated list of `key=value`, over the defaults below:
//!
//! | key | meaning | key | meaning |
//! |---|---|---|---|
//! | `hidden` | units of the LSTM | `warm` | epochs of the warm start |
//! | `warm_lr` | its learning rate | `open` | rounds of the open arm |
//! | `open_lr` | its learning rate | `open_rate` | its q |
//! | `rounds` | private rounds | `rate` | q of every private party |
//! | `lead_rate` | q of the public party | `lr` | learning rate |
//! | `optimizer` | `adam`, `dp_adam`, `sgd` | `momentum` | of `sgd` |
//! | `clip` | C | `clipping` | `flat`, `per_layer`, `automatic` |
//! | `ema` | decay of the mean of iterates, 0 for none | `train` | parts with `+`: `layer1+output`; `all` |
//! | `local` | local steps | `precision` | `f32`, `bf16`, `int8` |
//! | `schedule` | `constant`, `linear`, `cosine` (down to 0) | `weights` | `expected_batch`, `equal` |
//! | `cell` | `lstm`, `gru` | `layers`, `bidirectional`, `normalize`, `context` | the model |
//! | `loss` | `cross_entropy`, `ctc` | `shadows` | shadow models of the likelihood ratio, even |
//! | `labels` | `states`, `senones`, `original` (9,096 classes) | `bands` | of correlated noise, 1 for independent noise |
//! | `group` | n of secure aggregation among the private sites, 0 for none | `colluding` | t of it |
//! | `rank` | of the changes of the trained weight matrices, 0 for each parameter | `biases` | `true`: of the trained parts the biases alone |
//! | `copies` | altered copies of each unit in the private rounds, 1 for none | `noise` | deviation of their noise |
//! | `frame_masks` | their masked runs of frames: `2x10` for two of up to 10, `0` for none | `coefficient_masks` | likewise of coefficients |

use std::num::NonZeroU32;

use serde_json::{Value, json};
use support::stage::TestResult;
use undertone_api::job::dp_sgd::{
    AcousticModel, AverageWeights, BandedNoise, Clipping, Ema, MaskedRuns, ModelPart, ModelParts, Noise, Optimizer,
    ParameterAdaptation, Party, Precision, RateSchedule, RecurrentCell, Rounds, SecureAggregation, Spec, TestSet,
    TrainingLoss, UnitAugmentation, VectorExchange, WarmStart,
};
use undertone_privacy::{NoiseMultiplier, PrivacyUnit, SamplingRate};

use super::labels::LabelSet;
use super::scene::{ArmsConsortium, TESTS, parties};
use super::shadow::ShadowTraining;

/// The parameters of training.
#[derive(Debug, Clone)]
pub(super) struct TrainingRecipe {
    pub(super) labels: LabelSet,
    /// Shadow models of the likelihood ratio, an even number.
    shadows: u32,
    pub(super) model: AcousticModel,
    pub(super) warm: u32,
    warm_lr: f64,
    pub(super) open: u32,
    open_lr: f64,
    open_rate: f64,
    pub(super) rounds: u32,
    pub(super) rate: f64,
    lead_rate: f64,
    lr: f64,
    optimizer: String,
    momentum: f64,
    pub(super) clip: f64,
    pub(super) clipping: Clipping,
    ema: f64,
    train: Option<ModelParts>,
    /// The trained coordinates of these parts; each parameter without one.
    adaptation: Option<ParameterAdaptation>,
    pub(super) local: u32,
    precision: Precision,
    schedule: RateSchedule,
    weights: AverageWeights,
    /// Bands of correlated noise; 1 for independent noise.
    bands: NonZeroU32,
    /// n of secure aggregation among the private sites; 0 for none.
    group: u8,
    /// t of secure aggregation.
    colluding: u8,
    /// The altered copies of each unit in the private rounds; none if there is one copy.
    augmentation: UnitAugmentation,
    /// The changes, as given.
    changes: Vec<String>,
}

impl Default for TrainingRecipe {
    fn default() -> Self {
        Self {
            labels: LabelSet::States,
            shadows: 4,
            model: AcousticModel::lstm(64, None),
            warm: 25,
            warm_lr: 2e-3,
            open: 60,
            open_lr: 2e-3,
            open_rate: 0.3,
            rounds: 24,
            rate: 1.0,
            lead_rate: 0.15,
            lr: 5e-3,
            optimizer: "adam".to_owned(),
            momentum: 0.9,
            clip: 1.0,
            clipping: Clipping::Flat,
            ema: 0.0,
            train: Some([ModelPart::Layer1].into_iter().collect()),
            adaptation: None,
            local: 1,
            precision: Precision::F32,
            schedule: RateSchedule::Constant,
            weights: AverageWeights::ExpectedBatch,
            bands: NonZeroU32::MIN,
            group: 0,
            colluding: 0,
            augmentation: UnitAugmentation::with_usual_alterations(1),
            changes: Vec::new(),
        }
    }
}

impl TrainingRecipe {
    /// Returns the default with the changes in `UNDERTONE_ARMS_RECIPE`.
    ///
    /// # Errors
    /// When a change is not in the list.
    pub(super) fn from_environment() -> TestResult<Self> {
        Self::default().with(&std::env::var("UNDERTONE_ARMS_RECIPE").unwrap_or_default())
    }

    /// Returns the recipe with changes: `rounds=40,ema=0.9`.
    ///
    /// # Errors
    /// When a change is not in the list.
    pub(super) fn with(&self, changes: &str) -> TestResult<Self> {
        let mut changed = self.clone();
        for change in changes.split(',').map(str::trim).filter(|change| !change.is_empty()) {
            let (key, value) = change.split_once('=').ok_or_else(|| format!("{change:?} is not `key=value`"))?;
            changed.set(key.trim(), value.trim()).map_err(|error| format!("{change}: {error}"))?;
            changed.changes.push(change.to_owned());
        }
        if changed.shadows == 0 || changed.shadows % 2 == 1 {
            return Err("shadows: an even number, at least 2".into());
        }
        Ok(changed)
    }

    fn set(&mut self, key: &str, value: &str) -> TestResult<()> {
        match key {
            "labels" => self.labels = word(value)?,
            "shadows" => self.shadows = value.parse()?,
            "hidden" => self.model.hidden = value.parse()?,
            "cell" => self.model.cell = word::<RecurrentCell>(value)?,
            "layers" => self.model.layers = value.parse()?,
            "bidirectional" => self.model.bidirectional = value.parse()?,
            "normalize" => self.model.normalize = value.parse()?,
            "context" => self.model.context = Some(value.parse()?),
            "loss" => self.model.loss = word::<TrainingLoss>(value)?,
            "warm" => self.warm = value.parse()?,
            "warm_lr" => self.warm_lr = value.parse()?,
            "open" => self.open = value.parse()?,
            "open_lr" => self.open_lr = value.parse()?,
            "open_rate" => self.open_rate = value.parse()?,
            "rounds" => self.rounds = value.parse()?,
            "rate" => self.rate = value.parse()?,
            "lead_rate" => self.lead_rate = value.parse()?,
            "lr" => self.lr = value.parse()?,
            "optimizer" => value.clone_into(&mut self.optimizer),
            "momentum" => self.momentum = value.parse()?,
            "clip" => self.clip = value.parse()?,
            "clipping" => self.clipping = word(value)?,
            "ema" => self.ema = value.parse()?,
            "train" if value == "all" => self.train = None,
            "train" => {
                let parts = value.split('+').map(word).collect::<TestResult<Vec<ModelPart>>>()?;
                self.train = Some(parts.into_iter().collect());
            }
            "rank" => {
                let rank: u32 = value.parse()?;
                self.adaptation = (rank > 0).then_some(ParameterAdaptation::LowRank { rank });
            }
            "biases" => self.adaptation = value.parse::<bool>()?.then_some(ParameterAdaptation::Biases),
            "local" => self.local = value.parse()?,
            "precision" => self.precision = word(value)?,
            "schedule" => {
                self.schedule = match value {
                    "constant" => RateSchedule::Constant,
                    "linear" => RateSchedule::Linear { warmup: 0, r#final: 0.0 },
                    "cosine" => RateSchedule::Cosine { warmup: 0, r#final: 0.0 },
                    _ => return Err("`constant`, `linear` or `cosine`".into()),
                }
            }
            "weights" => self.weights = word(value)?,
            "bands" => self.bands = value.parse()?,
            "group" => self.group = value.parse()?,
            "colluding" => self.colluding = value.parse()?,
            "copies" => self.augmentation.copies = value.parse()?,
            "noise" => self.augmentation.noise = value.parse()?,
            "frame_masks" => self.augmentation.frame_masks = masks(value)?,
            "coefficient_masks" => self.augmentation.coefficient_masks = masks(value)?,
            _ => return Err("no such key".into()),
        }
        Ok(())
    }

    /// Returns the parameters and the changes for the report.
    pub(super) fn to_json(&self) -> Value {
        json!({ "labels": self.labels, "classes": self.labels.classes(), "shadows": self.shadows, "changes": self.changes, "rounds": self.rounds, "rate": self.rate, "lead_rate": self.lead_rate, "lr": self.lr,
            "optimizer": self.optimizer, "clip": self.clip, "clipping": self.clipping, "ema": self.ema, "train": self.train,
            "adaptation": self.adaptation, "local_steps": self.local, "precision": self.precision, "schedule": self.schedule, "weights": self.weights,
            "model": self.model, "warm_epochs": self.warm, "open_rounds": self.open, "bands": self.bands, "group": self.group,
            "colluding": self.colluding, "augmentation": self.augmentation() })
    }

    /// Returns the levers of privacy that the recipe uses beside independent noise at each site.
    pub(super) fn levers(&self) -> Vec<String> {
        let mut levers = Vec::new();
        if self.group > 0 {
            levers.push(format!("secure_aggregation:{}-{}", self.group, self.colluding));
        }
        if self.bands.get() > 1 {
            levers.push(format!("correlated_noise:{}", self.bands));
        }
        if let Some(augmentation) = self.augmentation() {
            levers.push(format!("copies:{}", augmentation.copies));
        }
        if let Some(parts) = &self.train {
            levers.push(format!("train:{}", parts.iter().map(ModelPart::name).collect::<Vec<_>>().join("+")));
        }
        levers.extend(self.adaptation.map(|adaptation| match adaptation {
            ParameterAdaptation::Biases => "biases".to_owned(),
            ParameterAdaptation::LowRank { rank } => format!("rank:{rank}"),
        }));
        levers
    }

    /// Returns the altered copies of each unit, if there are several.
    fn augmentation(&self) -> Option<UnitAugmentation> {
        Some(self.augmentation).filter(|augmentation| augmentation.copies > 1)
    }

    /// Returns the terms of secure aggregation among the private parties, if they use it.
    pub(super) fn aggregation(&self) -> Option<SecureAggregation> {
        (self.group > 0).then(|| SecureAggregation::new(self.group, self.colluding))
    }

    /// Returns the noise of every private party.
    pub(super) fn noise(&self, noise_multiplier: NoiseMultiplier) -> Noise {
        let banded = (self.bands.get() > 1).then_some(BandedNoise { bands: self.bands });
        Noise { noise_multiplier, clip: self.clip, clipping: self.clipping, banded }
    }

    /// Returns the job that all cells share: the warm start, and open pooling.
    ///
    /// # Errors
    /// When a dataset is missing or a number is out of range.
    pub(super) async fn shared(&self, scene: &ArmsConsortium) -> TestResult<Spec> {
        let mut spec = self.spec(scene, PrivacyUnit::Record).await?;
        for party in &mut spec.participants {
            party.sampling_rate = SamplingRate::new(self.open_rate)?;
        }
        spec.open = Some(self.open_rounds(scene));
        Ok(spec)
    }

    /// Returns a job with private parties that have no noise yet.
    ///
    /// # Errors
    /// The errors of [`TrainingRecipe::shared`].
    pub(super) async fn spec(&self, scene: &ArmsConsortium, unit: PrivacyUnit) -> TestResult<Spec> {
        let mut participants = Vec::new();
        for (name, rate) in parties(self.lead_rate, self.rate) {
            let dataset = scene.stage.dataset(name).await?.id;
            participants.push(Party { dataset, sampling_rate: SamplingRate::new(rate)?, noise: None, rounds: None });
        }
        let mut tests = Vec::new();
        for (name, dataset) in TESTS {
            tests.push(TestSet { name: name.to_owned(), dataset: scene.stage.dataset(dataset).await?.id });
        }
        Ok(Spec {
            unit,
            model: self.model.clone(),
            initial_model: None,
            participants,
            open_terms: Vec::new(),
            rehearsal: None,
            tests,
            warm_start: WarmStart { epochs: self.warm, batch: 8, learning_rate: self.warm_lr, seed: 7 },
            open: None,
            private: None,
            audit: None,
            selection: None,
            secure_aggregation: None,
            weights: self.weights,
            spare_releases: 0,
            checkpoint_every: 10_000,
        })
    }

    /// Returns how shadow models are trained: as open pooling.
    pub(super) const fn shadow_training(&self) -> ShadowTraining {
        ShadowTraining { models: self.shadows, rounds: self.open, learning_rate: self.open_lr, rate: self.open_rate }
    }

    /// Returns the rounds of open pooling.
    pub(super) fn open_rounds(&self, scene: &ArmsConsortium) -> Rounds {
        let rounds = Rounds::new(self.open, Optimizer::Adam { learning_rate: self.open_lr });
        Rounds { evaluate_every: 10, quorum: scene.everybody(), ..rounds }
    }

    /// Returns the private rounds.
    ///
    /// # Errors
    /// For an unknown optimizer.
    pub(super) fn private_rounds(&self, scene: &ArmsConsortium) -> TestResult<Rounds> {
        let learning_rate = self.lr;
        let optimizer = match self.optimizer.as_str() {
            "adam" => Optimizer::Adam { learning_rate },
            "dp_adam" => Optimizer::DpAdam { learning_rate },
            "sgd" => Optimizer::Sgd { learning_rate, momentum: self.momentum },
            other => return Err(format!("optimizer={other}: `adam`, `dp_adam` or `sgd`").into()),
        };
        Ok(Rounds {
            evaluate_every: self.rounds.max(1),
            quorum: scene.everybody(),
            schedule: self.schedule,
            averaging: (self.ema > 0.0).then_some(Ema { decay: self.ema }),
            train: self.train,
            adaptation: self.adaptation,
            local_steps: self.local,
            augmentation: self.augmentation(),
            exchange: VectorExchange { precision: self.precision },
            ..Rounds::new(self.rounds, optimizer)
        })
    }
}

/// Parses masked runs: `2x10` for two of up to 10 places, `0` for none.
fn masks(value: &str) -> TestResult<Option<MaskedRuns>> {
    if value == "0" {
        return Ok(None);
    }
    let (count, longest) = value.split_once('x').ok_or("`2x10` for two runs of up to 10 places, or `0`")?;
    Ok(Some(MaskedRuns { count: count.parse()?, longest: longest.parse()? }))
}

/// Parses a word of the contract.
fn word<T: serde::de::DeserializeOwned>(value: &str) -> TestResult<T> {
    Ok(serde_json::from_value(Value::String(value.to_owned()))?)
}
