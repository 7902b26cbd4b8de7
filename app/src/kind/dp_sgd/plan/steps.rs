//! A plan's steps: what a step is, how the learning rate goes, what leaves.

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{Arm, Clipping, Ema, Exchange, Optimizer, Precision, Schedule};

/// How a mean gradient becomes a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Stochastic gradient descent.
    Sgd,
    /// Adam.
    Adam,
    /// Adam freed of the noise's variance; plain Adam in the open arm, which has none.
    DpAdam,
}

/// How the learning rate goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Always the same.
    #[default]
    Constant,
    /// Down in a straight line.
    Linear,
    /// Down along half a cosine.
    Cosine,
}

/// What of the rounds is out of the ordinary. Its default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Steps {
    /// Steps of each party between two averages.
    pub local: u32,
    /// Momentum of SGD.
    pub momentum: f64,
    /// How the learning rate goes.
    pub shape: Shape,
    /// Rounds in which it rises.
    pub warmup: u32,
    /// What is left of it in the last round.
    pub last: f64,
    /// What an average of the iterates keeps in each round; 0 for none.
    pub averaging: f64,
    /// In how many bits vectors travel.
    pub precision: Precision,
    /// How every private party clips.
    pub clipping: Clipping,
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            local: 1,
            momentum: 0.0,
            shape: Shape::Constant,
            warmup: 0,
            last: 0.0,
            averaging: 0.0,
            precision: Precision::F32,
            clipping: Clipping::Flat,
        }
    }
}

impl Steps {
    /// The optimizer of an arm.
    pub fn optimizer(&self, arm: Arm, step: Step, learning_rate: f64) -> Optimizer {
        match step {
            Step::Sgd => Optimizer::Sgd { learning_rate, momentum: self.momentum },
            Step::DpAdam if arm == Arm::Private => Optimizer::DpAdam { learning_rate },
            Step::Adam | Step::DpAdam => Optimizer::Adam { learning_rate },
        }
    }

    /// The schedule.
    pub fn schedule(&self) -> Schedule {
        let (warmup, last) = (self.warmup, self.last);
        match self.shape {
            Shape::Constant => Schedule::Constant,
            Shape::Linear => Schedule::Linear { warmup, r#final: last },
            Shape::Cosine => Schedule::Cosine { warmup, r#final: last },
        }
    }

    /// The averaging of iterates.
    pub fn averaging(&self) -> Option<Ema> {
        (self.averaging != 0.0).then_some(Ema { decay: self.averaging })
    }

    /// How vectors travel.
    pub fn exchange(&self) -> Exchange {
        Exchange { precision: self.precision }
    }
}
