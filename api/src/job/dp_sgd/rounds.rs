//! A series of rounds: the trained parts, the steps, and the released vectors.
//!
//! With one local step a round's vector is a mean gradient: the server averages, and every party's optimizer takes the
//! same step. With s > 1 each party takes s steps with its own optimizer, each on a fresh batch and, for private
//! parties, with fresh noise. Its *update* leaves, the parameters after less the parameters before, and all parties add
//! the average update. An update is post-processing of s noisy gradients, so a private party pays for s of them, once,
//! before the first noise is drawn. Schedule, averaging of iterates and precision use no private data.

use serde::{Deserialize, Serialize};

use super::adaptation::ParameterAdaptation;
use super::augmentation::UnitAugmentation;
use super::model::{AcousticModel, ModelParts, is_one, one};

/// The optimizer that turns a mean gradient into a step. All participants use the same one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "optimizer", rename_all = "snake_case")]
pub enum Optimizer {
    /// Stochastic gradient descent with momentum.
    Sgd {
        /// Learning rate: greater than 0, at most 1,000.
        #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1000))]
        learning_rate: f64,
        /// Momentum: 0 to less than 1.
        momentum: f64,
    },
    /// Adam with β₁ = 0.9, β₂ = 0.999, ε = 1e-8.
    Adam {
        /// Learning rate: greater than 0, at most 1.
        #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1))]
        learning_rate: f64,
    },
    /// Adam with a second moment that is corrected by the known variance of the noise (Tang, Shpilevskiy and Lécuyer
    /// 2024, DP-AdamBC). Only for the private arm: without noise there is nothing to correct.
    DpAdam {
        /// Learning rate: greater than 0, at most 1.
        #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1))]
        learning_rate: f64,
    },
}

impl Optimizer {
    /// Returns the learning rate, before the schedule.
    pub const fn learning_rate(&self) -> f64 {
        match *self {
            Self::Sgd { learning_rate, .. } | Self::Adam { learning_rate } | Self::DpAdam { learning_rate } => {
                learning_rate
            }
        }
    }

    /// Returns the greatest learning rate that a spec may have.
    pub const fn most_learning_rate(&self) -> f64 {
        match self {
            Self::Sgd { .. } => 1000.0,
            Self::Adam { .. } | Self::DpAdam { .. } => 1.0,
        }
    }

    /// Returns the optimizer with another learning rate.
    #[must_use]
    pub const fn with_learning_rate(self, learning_rate: f64) -> Self {
        match self {
            Self::Sgd { momentum, .. } => Self::Sgd { learning_rate, momentum },
            Self::Adam { .. } => Self::Adam { learning_rate },
            Self::DpAdam { .. } => Self::DpAdam { learning_rate },
        }
    }
}

/// The schedule of the learning rate over the rounds, as a factor of the optimizer's rate. All local steps of a round
/// use the same factor.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Schedule))]
#[serde(tag = "shape", rename_all = "snake_case")]
pub enum RateSchedule {
    /// Always 1.
    #[default]
    Constant,
    /// Up to 1 in equal steps, then down in equal steps.
    Linear {
        /// Rounds of the rise: 0 to one less than all.
        #[serde(default)]
        warmup: u32,
        /// The factor in the last round: 0 to 1.
        #[serde(default)]
        r#final: f64,
    },
    /// Up to 1 in equal steps, then down along half a cosine.
    Cosine {
        /// Rounds of the rise: 0 to one less than all.
        #[serde(default)]
        warmup: u32,
        /// The factor in the last round: 0 to 1.
        #[serde(default)]
        r#final: f64,
    },
}

impl RateSchedule {
    /// Returns the factor of `round`, numbered from 1, of `rounds`: 0 to 1. All machines compute the same bits.
    pub fn factor(self, round: u32, rounds: u32) -> f64 {
        let (warmup, last, down): (u32, f64, fn(f64) -> f64) = match self {
            Self::Constant => return 1.0,
            Self::Linear { warmup, r#final } => (warmup, r#final, |part| 1.0 - part),
            Self::Cosine { warmup, r#final } => {
                (warmup, r#final, |part| f64::midpoint(1.0, libm::cos(std::f64::consts::PI * part)))
            }
        };
        if round <= warmup {
            return f64::from(round) / (f64::from(warmup) + 1.0);
        }
        let whole = rounds.saturating_sub(warmup).saturating_sub(1);
        if whole == 0 {
            return 1.0;
        }
        let part = f64::from((round - warmup - 1).min(whole)) / f64::from(whole);
        last + (1.0 - last) * down(part)
    }

    /// Returns whether the schedule is the default, which a spec may omit.
    const fn is_constant(&self) -> bool {
        matches!(self, Self::Constant)
    }
}

/// An exponential moving average of the parameters after each round, without the bias of its beginning: after t rounds
/// that of round s weighs dᵗ⁻ˢ(1 − d)/(1 − dᵗ). The average is measured, audited and stored; the steps continue from
/// the parameters themselves.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ema {
    /// d: the weight of a round relative to the round after it; greater than 0, less than 1.
    pub decay: f64,
}

/// The width of a coordinate in transit, in both directions. Rounding is post-processing of a release: it costs no
/// privacy, and shortens a vector to a half or a quarter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32 bits, as computed.
    #[default]
    F32,
    /// 16 bits: the range of 32-bit numbers with 8 binary digits, rounded to nearest.
    Bf16,
    /// 8 bits: steps of a scale that travels with each block of 256. The rounding is random and unbiased.
    Int8,
}

/// The transport of vectors between a site and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdExchange))]
pub struct VectorExchange {
    /// The width of numbers.
    #[serde(default)]
    pub precision: Precision,
}

impl VectorExchange {
    /// Returns whether the transport is the default, which a spec may omit.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    const fn is_plain(&self) -> bool {
        matches!(self.precision, Precision::F32)
    }
}

/// A series of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Rounds {
    /// The number of rounds: 1 to 100,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 100_000))]
    pub rounds: u32,
    /// The optimizer.
    #[serde(flatten)]
    pub optimizer: Optimizer,
    /// Rounds between two measurements on the test sets: 1 to 10,000. The last round is always measured.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub evaluate_every: u32,
    /// The time in seconds that a round waits for all vectors: 1 to 86,400.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 86400))]
    pub deadline_seconds: u32,
    /// The fewest submissions that close a round after its deadline: 1 to the number of contributors.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub quorum: u32,
    /// The learning rate over the rounds.
    #[serde(default, skip_serializing_if = "RateSchedule::is_constant")]
    pub schedule: RateSchedule,
    /// Averaging of iterates. Absent: the parameters after the last round are the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub averaging: Option<Ema>,
    /// The trained parts; the other parts stay as after the warm start. Parts without training have no gradient, so
    /// clipping, noise and transport shrink, for the same price. Absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<super::ModelPart>>))]
    pub train: Option<ModelParts>,
    /// Training of few coordinates of these parts. Absent: each parameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adaptation: Option<ParameterAdaptation>,
    /// The steps of each party between two averages: 1 to 10,000.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub local_steps: u32,
    /// Altered copies of each unit, whose mean gradient is clipped. Absent: each unit as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub augmentation: Option<UnitAugmentation>,
    /// The transport of vectors.
    #[serde(default, skip_serializing_if = "VectorExchange::is_plain")]
    pub exchange: VectorExchange,
}

impl Rounds {
    /// Makes `rounds` rounds of one step with default options: measured every 10 rounds, a deadline of an hour, a
    /// quorum of 1.
    pub const fn new(rounds: u32, optimizer: Optimizer) -> Self {
        Self {
            rounds,
            optimizer,
            evaluate_every: 10,
            deadline_seconds: 3600,
            quorum: 1,
            schedule: RateSchedule::Constant,
            averaging: None,
            train: None,
            adaptation: None,
            local_steps: 1,
            augmentation: None,
            exchange: VectorExchange { precision: Precision::F32 },
        }
    }

    /// Returns the parts of `model` that it trains.
    pub fn trained(&self, model: &AcousticModel) -> ModelParts {
        self.train.unwrap_or_else(|| model.parts())
    }

    /// Returns the number of trained coordinates of `model`, the length of each vector, for data of `inputs` coefficients and
    /// `classes` classes.
    pub fn coordinates(&self, model: &AcousticModel, inputs: u32, classes: u32) -> u64 {
        model.coordinates(self.trained(model), self.adaptation, inputs, classes)
    }

    /// Returns whether the parties send updates instead of gradients.
    pub const fn sends_updates(&self) -> bool {
        self.local_steps > 1
    }

    /// Returns each party's number of steps in all rounds.
    pub const fn steps(&self) -> u64 {
        self.rounds as u64 * self.local_steps as u64
    }
}

#[cfg(test)]
mod tests {
    use super::RateSchedule;

    fn factors(schedule: RateSchedule, rounds: u32) -> Vec<f64> {
        (1..=rounds).map(|round| schedule.factor(round, rounds)).collect()
    }

    #[test]
    fn schedule_rises_to_one_and_ends_at_final() {
        assert_eq!(factors(RateSchedule::Constant, 2), [1.0, 1.0]);
        let linear = RateSchedule::Linear { warmup: 3, r#final: 0.5 };
        assert_eq!(factors(linear, 6), [0.25, 0.5, 0.75, 1.0, 0.75, 0.5]);
        let cosine = factors(RateSchedule::Cosine { warmup: 1, r#final: 0.2 }, 6);
        let close = |a: f64, b: f64| (a - b).abs() < 1e-15;
        assert!(close(cosine[0], 0.5) && close(cosine[1], 1.0) && close(cosine[3], 0.6) && close(cosine[5], 0.2));
        assert!(cosine[1..].is_sorted_by(|a, b| a > b), "{cosine:?}");
    }

    #[test]
    fn a_schedule_of_one_round_takes_a_whole_step() {
        for schedule in
            [RateSchedule::Linear { warmup: 0, r#final: 0.0 }, RateSchedule::Cosine { warmup: 0, r#final: 0.0 }]
        {
            assert_eq!(factors(schedule, 1), [1.0]);
        }
    }
}
