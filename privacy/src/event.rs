//! Releases, past or planned. Rows of the ledger hold events; epsilon is derived from them.
//!
//! Variants are append-only: a stored event must stay readable for the life of the dataset that it was charged to. To
//! add one: a variant here, its price in `mechanism.rs`, a strategy in `event/any.rs` (the property tests of prices and
//! of the ledger draw from it).

#[cfg(test)]
pub(crate) mod any;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::histogram::Partition;
use crate::kanon::Shown;
use crate::selection::Runs;
use crate::unit::{Delta, Epsilon, GridSteps, NoiseMultiplier, NoiseSteps, SamplingRate};

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
        /// Number of repetitions; 0 costs nothing.
        count: u64,
        /// The repeated release.
        of: Box<Event>,
    },
    /// One discrete Gaussian release of everything: contributions rounded toward zero onto a grid and summed as integers,
    /// N_ℤ(0, (σ/γ)²) added.
    DiscreteGaussian {
        /// z = σ / C.
        noise_multiplier: NoiseMultiplier,
        /// σ/γ. Charged alike for every grid; recorded because the grid must be fine.
        steps: NoiseSteps,
    },
    /// One discrete Gaussian release of a secret Poisson sample, on any grid. At fractional orders it costs more than
    /// [`Event::PoissonSampledGaussian`], which is charged where the grid is so fine that the difference vanishes
    /// ([`crate::mechanism::ln_grid_excess`]).
    PoissonSampledDiscreteGaussian {
        /// q, exactly as drawn.
        sampling_rate: SamplingRate,
        /// z = σ / C.
        noise_multiplier: NoiseMultiplier,
        /// σ/γ.
        steps: NoiseSteps,
    },
    /// A sum, made under secure aggregation, to which every contributor added discrete Gaussian noise of its own.
    DistributedDiscreteGaussian(DistributedNoise),
    /// The same, where each site's vector is of a secret Poisson sample of its units, drawn at that site alone.
    PoissonSampledDistributedDiscreteGaussian {
        /// q, exactly as drawn.
        sampling_rate: SamplingRate,
        /// The noise of the contributors.
        noise: Box<DistributedNoise>,
    },
    /// All releases of one training whose noise is correlated by an encoder of b bands, under cyclic Poisson sampling
    /// ([`crate::correlated`]). One mechanism: its first release is charged for all of them.
    BandedGaussian {
        /// p: the probability of a unit to be in the batch at its group's turn, exactly as drawn.
        sampling_rate: SamplingRate,
        /// z = σ / (C ‖C(t)‖): relative to the clip times the column norm of the encoder.
        noise_multiplier: NoiseMultiplier,
        /// b: the bands of the encoder, and the groups that have their turns one after another.
        bands: NonZeroU32,
        /// T: the most releases.
        releases: NonZeroU32,
    },
    /// Values that occur at least k times among rows that were each kept with probability β. One release: any function
    /// of the survivors alone is free, a second sample is a second release.
    SampledThreshold {
        /// β, exactly as drawn.
        sampling_rate: SamplingRate,
        /// k.
        threshold: NonZeroU32,
        /// The ε at which δ is charged.
        epsilon: Epsilon,
        /// The shown values of the survivors, and the bound by which δ is charged.
        shown: Shown,
        /// The most different rows that one unit may have.
        rows_per_unit: NonZeroU32,
    },
    /// A word histogram with dummy words by truncated, shifted Laplace noise, seen by providers that do not all collude.
    TruncatedLaplace {
        /// s, in nats per word, exactly as drawn.
        rate: Epsilon,
        /// η₀, in dummies per word.
        shift: u32,
        /// d, the most words in which one unit may change the histogram, added and removed together.
        distance: NonZeroU32,
        /// The providers that the words are spread over, and the number of them that are assumed to collude. The guarantee
        /// holds against these.
        partition: Partition,
    },
    /// The release `of` as an account of a finer unit is charged for it: one contribution is replaced by another that has the same
    /// place in the sample. A record changes its speaker's contribution to a release that protects speakers in this way.
    Substituted {
        /// The release, which protects the coarser unit.
        of: Box<Event>,
    },
    /// The best of a secret random number of runs of one release.
    Selected {
        /// One run, with the score that selects the best.
        of: Box<Event>,
        /// The distribution of the number of runs.
        runs: Runs,
    },
}

/// Noise that many parties add to one sum (Kairouz, Liu and Steinke 2021). Lengths are in steps γ of the common grid.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DistributedNoise {
    /// C/γ: the norm to which a contribution is clipped before it is rounded.
    pub clip: GridSteps,
    /// s/γ: the standard deviation of each contributor's noise.
    pub noise: GridSteps,
    /// The number of contributors whose noise is surely in the sum: honest ones, after the worst allowed dropout, and
    /// without the unit's own contributor where its noise is removed with it.
    pub contributors: NonZeroU32,
    /// d, the coordinates of the sum.
    pub dimension: NonZeroU32,
    /// β: rounding is repeated until the norm is within the bound that holds with probability at least 1 − β; 0 for the
    /// certain bound alone.
    pub rounding_bias: Delta,
}

impl Event {
    /// Returns the event against the server with all other sites, for a sum to which several sites add noise: the site's own
    /// noise is left. `None` for other events.
    pub fn to_insider(&self) -> Option<Self> {
        let alone = |noise: &DistributedNoise| DistributedNoise { contributors: NonZeroU32::MIN, ..*noise };
        match self {
            Self::DistributedDiscreteGaussian(noise) => Some(Self::DistributedDiscreteGaussian(alone(noise))),
            Self::PoissonSampledDistributedDiscreteGaussian { sampling_rate, noise } => {
                let noise = Box::new(alone(noise));
                Some(Self::PoissonSampledDistributedDiscreteGaussian { sampling_rate: *sampling_rate, noise })
            }
            Self::Substituted { of } => Some(Self::Substituted { of: Box::new(of.to_insider()?) }),
            _ => None,
        }
    }

    /// Returns a short name for messages.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Gaussian { .. } => "a Gaussian",
            Self::PoissonSampledGaussian { .. } => "a Poisson-sampled Gaussian",
            Self::Laplace { .. } => "a Laplace",
            Self::Pure { .. } => "a pure release",
            Self::Approximate { .. } => "an approximate release",
            Self::NonPrivate => "a release without noise",
            Self::Composed { .. } => "a composition",
            Self::Repeated { .. } => "a repetition",
            Self::DiscreteGaussian { .. } => "a discrete Gaussian",
            Self::PoissonSampledDiscreteGaussian { .. } => "a Poisson-sampled discrete Gaussian",
            Self::DistributedDiscreteGaussian(_) => "a distributed discrete Gaussian",
            Self::PoissonSampledDistributedDiscreteGaussian { .. } => "a Poisson-sampled distributed discrete Gaussian",
            Self::BandedGaussian { .. } => "a banded Gaussian",
            Self::SampledThreshold { .. } => "sampling with a threshold",
            Self::TruncatedLaplace { .. } => "a truncated Laplace",
            Self::Substituted { .. } => "a substitution",
            Self::Selected { .. } => "a selection",
        }
    }

    /// Returns the release inside repetitions, substitutions and selections; the event itself if it is none of these. A
    /// composition has no single inner release and returns itself.
    pub fn innermost(&self) -> &Self {
        match self {
            Self::Repeated { of, .. } | Self::Substituted { of } | Self::Selected { of, .. } => of.innermost(),
            _ => self,
        }
    }

    /// Returns true if some part is a private selection, whose loss distribution is a bound: its Rényi curve may be lower.
    pub fn has_selection(&self) -> bool {
        match self {
            Self::Selected { .. } => true,
            Self::Composed { events } => events.iter().any(Self::has_selection),
            Self::Repeated { of, .. } | Self::Substituted { of } => of.has_selection(),
            _ => false,
        }
    }

    /// Returns the most releases of a mechanism that is charged as a whole, by its first release; `None` for an event that each
    /// release is charged for.
    pub fn whole_releases(&self) -> Option<u64> {
        match self {
            Self::BandedGaussian { releases, .. } => Some(releases.get().into()),
            Self::Substituted { of } => of.whole_releases(),
            _ => None,
        }
    }

    /// Returns how often an account is charged for this event when a job makes `releases` releases: once for a mechanism that
    /// is charged as a whole.
    pub fn count_charges(&self, releases: u64) -> u64 {
        if self.whole_releases().is_some() { releases.min(1) } else { releases }
    }

    /// Returns the event of a job that plans `releases` releases, at least 1, instead of its own number; another event for a
    /// mechanism that is charged as a whole, the same for others.
    #[must_use]
    pub fn with_planned_releases(&self, releases: u64) -> Self {
        match self {
            Self::BandedGaussian { sampling_rate, noise_multiplier, bands, .. } => {
                let releases = NonZeroU32::new(u32::try_from(releases).unwrap_or(u32::MAX)).unwrap_or(NonZeroU32::MIN);
                let (sampling_rate, noise_multiplier) = (*sampling_rate, *noise_multiplier);
                Self::BandedGaussian { sampling_rate, noise_multiplier, bands: *bands, releases }
            }
            Self::Substituted { of } => Self::Substituted { of: Box::new(of.with_planned_releases(releases)) },
            _ => self.clone(),
        }
    }

    /// Repeats this event `count` times.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self::Repeated { count, of: Box::new(self) }
    }
}
