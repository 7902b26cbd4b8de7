//! What was, or would be, released. Rows of the ledger hold events; epsilon is derived from them.
//!
//! Variants are append-only: a stored event must stay readable for the life of the dataset it was charged to.
//! To add one: a variant here, its price in `mechanism.rs`, a strategy in the property tests.

use serde::{Deserialize, Serialize};

use crate::unit::{Delta, Epsilon, NoiseMultiplier, SamplingRate};

/// A release, described by the exact parameters of the mechanism that made it. Noise is relative to the sensitivity,
/// so an event is the same for every clip.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// One Gaussian release of everything: N(0, (zC)²) on a sum of L2 sensitivity C.
    Gaussian {
        /// z = σ / C.
        noise_multiplier: NoiseMultiplier,
    },
    /// One Gaussian release of a secret Poisson sample: each unit is in it with probability q, independently.
    PoissonSampledGaussian {
        /// q, exactly as drawn.
        sampling_rate: SamplingRate,
        /// z = σ / C.
        noise_multiplier: NoiseMultiplier,
    },
    /// One Laplace release with scale Δ₁ / ε.
    Laplace {
        /// ε of the pure guarantee.
        epsilon: Epsilon,
    },
    /// Any mechanism that is ε-DP.
    Pure {
        /// ε.
        epsilon: Epsilon,
    },
    /// Any mechanism that is (ε, δ)-DP.
    Approximate {
        /// ε.
        epsilon: Epsilon,
        /// δ.
        delta: Delta,
    },
    /// A release without noise. Costs infinity; only datasets marked public or open may pay it.
    NonPrivate,
    /// Several releases one after another.
    Composed {
        /// The parts, in any order.
        events: Vec<Event>,
    },
    /// The same release, `count` times.
    Repeated {
        /// How many times; 0 costs nothing.
        count: u64,
        /// What is repeated.
        of: Box<Event>,
    },
}

impl Event {
    /// This event, `count` times.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self::Repeated { count, of: Box::new(self) }
    }
}
