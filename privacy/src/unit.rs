//! The quantities of differential privacy, validated at construction: every value is in range.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

/// Why a number is outside the range of its type.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum UnitError {
    /// The value is not inside the range of its type.
    #[error("{name} must be {range}, not {value}")]
    OutOfRange {
        /// The type's name, as a user reads it.
        name: &'static str,
        /// The admissible range, in words.
        range: &'static str,
        /// The given value.
        value: f64,
    },
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $label:literal, $range:literal, |$v:ident| $ok:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// Parses the number.
            ///
            /// # Errors
            /// [`UnitError::OutOfRange`] when the value is NaN or outside the range of the type.
            pub fn new($v: f64) -> Result<Self, UnitError> {
                if $ok {
                    Ok(Self($v))
                } else {
                    Err(UnitError::OutOfRange { name: $label, range: $range, value: $v })
                }
            }

            /// Returns the number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl TryFrom<f64> for $name {
            type Error = UnitError;
            fn try_from(value: f64) -> Result<Self, UnitError> {
                Self::new(value)
            }
        }

        impl From<$name> for f64 {
            fn from(value: $name) -> Self {
                value.0
            }
        }
    };
}

number! {
    /// ε, in nats: the greatest change of the log-probability of any output by the presence of one unit. Finite, ≥ 0.
    Epsilon, "epsilon", "a finite number of at least 0", |v| v.is_finite() && v >= 0.0
}
number! {
    /// δ: the probability mass on which the guarantee of ε may fail. In [0, 1).
    Delta, "delta", "at least 0 and less than 1", |v| (0.0..1.0).contains(&v)
}
impl Delta {
    /// No mass at all.
    pub const ZERO: Self = Self(0.0);
}

number! {
    /// z = σ / C: the standard deviation of the noise relative to the clip, never to twice the clip. Finite, > 0.
    NoiseMultiplier, "noise multiplier", "a finite number greater than 0", |v| v.is_finite() && v > 0.0
}
number! {
    /// α, the order of a Rényi divergence. Finite, > 1.
    Order, "order", "a finite number greater than 1", |v| v.is_finite() && v > 1.0
}

number! {
    /// η, the shape of a truncated negative binomial number of runs: 1 is geometric, 0 logarithmic. Finite, > −1.
    RunShape, "run shape", "a finite number greater than -1", |v| v.is_finite() && v > -1.0
}
number! {
    /// γ, the chance of stopping after each run. In (0, 1).
    StoppingRate, "stopping rate", "greater than 0 and less than 1", |v| v > 0.0 && v < 1.0
}
number! {
    /// m, the mean of a Poisson number of runs. Finite, ≥ 1.
    MeanRuns, "mean number of runs", "a finite number of at least 1", |v| v.is_finite() && v >= 1.0
}
number! {
    /// σ/γ: the standard deviation of discrete noise in steps of its grid. Finite, ≥ 8: below that the noise is so
    /// coarse that it is nearly constant.
    NoiseSteps, "noise in steps of the grid", "a finite number of at least 8", |v| v.is_finite() && v >= 8.0
}
number! {
    /// A length in steps of a grid. Finite, > 0.
    GridSteps, "length in steps of the grid", "a finite number greater than 0", |v| v.is_finite() && v > 0.0
}

/// q = k / 2³², the probability with which each unit enters a Poisson batch. In (0, 1]; exactly the number that the
/// sampler compares its random words with, so that the charge is for the actual rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct SamplingRate(u64);

impl SamplingRate {
    /// 2³², the denominator of every rate.
    pub const DENOMINATOR: u64 = 1 << 32;
    /// Every unit in every batch.
    pub const ONE: Self = Self(Self::DENOMINATOR);

    /// Returns the least dyadic rate that is not below `value`.
    ///
    /// # Errors
    /// [`UnitError::OutOfRange`] unless 0 < `value` ≤ 1.
    pub fn new(value: f64) -> Result<Self, UnitError> {
        if value > 0.0 && value <= 1.0 {
            Ok(Self(libm::ceil(value * Self::DENOMINATOR as f64) as u64))
        } else {
            Err(UnitError::OutOfRange { name: "sampling rate", range: "greater than 0 and at most 1", value })
        }
    }

    /// Returns the greatest dyadic rate that is not above `value`.
    ///
    /// # Errors
    /// [`UnitError::OutOfRange`] unless 2⁻³² ≤ `value` ≤ 1.
    pub fn floor(value: f64) -> Result<Self, UnitError> {
        let steps = libm::floor(value * Self::DENOMINATOR as f64);
        if steps >= 1.0 && value <= 1.0 {
            Ok(Self(steps as u64))
        } else {
            Err(UnitError::OutOfRange { name: "sampling rate", range: "at least 2^-32 and at most 1", value })
        }
    }

    /// Returns the rate of a unit at the turns of its group, b q, where `groups` groups have their turns one after another
    /// and this is the expected share of all units in a batch; `None` above 1. A rate that was rounded up from 1/b gives 1.
    pub fn for_turns(self, groups: NonZeroU32) -> Option<Self> {
        let groups = u64::from(groups.get());
        let numerator = self.0.checked_mul(groups)?;
        (numerator <= Self::DENOMINATOR + groups).then_some(Self(numerator.min(Self::DENOMINATOR)))
    }

    /// Returns k of k / 2³², in `1..=2³²`.
    pub const fn numerator(self) -> u64 {
        self.0
    }

    /// Returns the rate as a number; exact, because it is dyadic.
    pub fn get(self) -> f64 {
        self.0 as f64 / Self::DENOMINATOR as f64
    }
}

impl TryFrom<f64> for SamplingRate {
    type Error = UnitError;
    fn try_from(value: f64) -> Result<Self, UnitError> {
        Self::new(value)
    }
}

impl From<SamplingRate> for f64 {
    fn from(value: SamplingRate) -> Self {
        value.get()
    }
}
