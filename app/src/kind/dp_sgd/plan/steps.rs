//! A plan's steps: the optimizer, the learning-rate schedule, the trained coordinates, the exchanged vectors.

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{
    Arm, Clipping, Ema, Optimizer, ParameterAdaptation, Precision, RateSchedule, UnitAugmentation, VectorExchange,
};

/// The optimizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOptimizer {
    /// Stochastic gradient descent.
    Sgd,
    /// Adam.
    Adam,
    /// Adam corrected for the noise's variance; plain Adam in the open arm, which has no noise.
    DpAdam,
}

/// The shape of the learning-rate schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleShape {
    /// Constant.
    #[default]
    Constant,
    /// Linear decay.
    Linear,
    /// Decay along half a cosine.
    Cosine,
}

/// The trained coordinates of the trained parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdaptationKind {
    /// Each parameter.
    #[default]
    Full,
    /// See [`ParameterAdaptation::LowRank`].
    LowRank,
    /// See [`ParameterAdaptation::Biases`].
    Biases,
}

/// The options of the rounds. By default none is used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepOptions {
    /// Steps of each party between two averages.
    pub local: u32,
    /// Momentum of SGD.
    pub momentum: f64,
    /// The shape of the learning-rate schedule.
    pub shape: ScheduleShape,
    /// Rounds of warm-up.
    pub warmup: u32,
    /// The final factor of the learning rate.
    pub last: f64,
    /// The decay of the iterates' average in each round; 0 for none.
    pub averaging: f64,
    /// The precision of exchanged vectors.
    pub precision: Precision,
    /// The clipping of every private party.
    pub clipping: Clipping,
    /// Copies of each unit with the usual alterations; at most 1 for none.
    pub copies: u32,
    /// The trained coordinates of the trained parts.
    pub adaptation: AdaptationKind,
    /// The rank of an adaptation of low rank.
    pub rank: u32,
}

impl Default for StepOptions {
    fn default() -> Self {
        Self {
            local: 1,
            momentum: 0.0,
            shape: ScheduleShape::Constant,
            warmup: 0,
            last: 0.0,
            averaging: 0.0,
            precision: Precision::F32,
            clipping: Clipping::Flat,
            copies: 1,
            adaptation: AdaptationKind::Full,
            rank: 8,
        }
    }
}

impl StepOptions {
    /// Returns the optimizer of an arm.
    pub fn optimizer(&self, arm: Arm, step: StepOptimizer, learning_rate: f64) -> Optimizer {
        match step {
            StepOptimizer::Sgd => Optimizer::Sgd { learning_rate, momentum: self.momentum },
            StepOptimizer::DpAdam if arm == Arm::Private => Optimizer::DpAdam { learning_rate },
            StepOptimizer::Adam | StepOptimizer::DpAdam => Optimizer::Adam { learning_rate },
        }
    }

    /// Returns the schedule.
    pub fn schedule(&self) -> RateSchedule {
        let warmup = self.warmup;
        let last = self.last;
        match self.shape {
            ScheduleShape::Constant => RateSchedule::Constant,
            ScheduleShape::Linear => RateSchedule::Linear { warmup, r#final: last },
            ScheduleShape::Cosine => RateSchedule::Cosine { warmup, r#final: last },
        }
    }

    /// Returns the averaging of iterates.
    pub fn averaging(&self) -> Option<Ema> {
        (self.averaging != 0.0).then_some(Ema { decay: self.averaging })
    }

    /// Returns the altered copies of each unit.
    pub fn augmentation(&self) -> Option<UnitAugmentation> {
        (self.copies > 1).then(|| UnitAugmentation::with_usual_alterations(self.copies))
    }

    /// Returns the training of few coordinates.
    pub fn adaptation(&self) -> Option<ParameterAdaptation> {
        match self.adaptation {
            AdaptationKind::Full => None,
            AdaptationKind::LowRank => Some(ParameterAdaptation::LowRank { rank: self.rank }),
            AdaptationKind::Biases => Some(ParameterAdaptation::Biases),
        }
    }

    /// Returns the exchange of vectors.
    pub fn exchange(&self) -> VectorExchange {
        VectorExchange { precision: self.precision }
    }
}
