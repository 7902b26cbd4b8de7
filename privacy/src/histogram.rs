//! Noise for word histograms: dummy words, a truncated and shifted Laplace count of them for every word of a vocabulary.
//!
//! For each word X = η₀ + discrete Laplace of rate s, η = max(X, 0) dummies are added, so counts only grow (Ahmed et al.
//! 2020; Bater et al. 2018). With α = e^{−s}: Pr[X = x] = tanh(s/2) α^{|x−η₀|}, and t = Pr[X ≤ 0] = α^{η₀}/(1+α).
//!
//! **The guarantee** for histograms that differ by d words in all (d copies added or removed, of any words): where no
//! X_i < j_i among the j_i copies of word i, the loss is at most ε₀ = s d. The mass of the rest is at most
//! Σ t e^{s(j_i − 1)}, convex in the j_i, so greatest for d copies of one word or for d different words:
//! δ₀ = t max(e^{s(d−1)}, d). The published calibration has the first alone and is wrong for d ≥ 2 different words by up to
//! d e^{−s(d−1)}. A vocabulary smaller than d is not credited: with few words some copies coincide, and neither extreme is
//! then the worst.
//!
//! An emptied word (zero-out) is a copy removed, and so is one of these differences; the distance d counts it like any other.
//!
//! **Partition.** Segments go to N providers at random; m that collude see a sample of rate m/N. One-way differences
//! keep (ln(1 + (m/N)(e^{ε₀} − 1)), (m/N) δ₀) for one segment or for independent ones; differences both ways are two
//! steps, which multiplies δ by e^ε. The trust assumption is part of the record, because the guarantee holds against m
//! colluding providers.
//!
//! Nothing here draws noise. The rate is the exact rate of the sampler, and the charge is for that rate.

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;

use libm::{ceil, exp, expm1, floor, log, log1p, tanh};
use serde::{Deserialize, Serialize};

use crate::amplify;
use crate::special::UNIT;
use crate::unit::{Delta, Epsilon};

/// Why no such noise exists.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum HistogramError {
    /// At rate 0 the noise is unbounded.
    #[error("the loss per word must be greater than 0: raise epsilon or lower the distance")]
    Rate,
    /// More providers collude than exist.
    #[error("{colluding} of {providers} providers cannot collude: count at most all of them")]
    Partition {
        /// Number of providers.
        providers: u32,
        /// Number of providers that are assumed to collude.
        colluding: u32,
    },
    /// Without δ no shift is sufficient.
    #[error("delta must be greater than 0: truncation always has a mass of its own")]
    NoDelta,
    /// The shift exceeds the range of numbers.
    #[error("no number of dummies below 2^32 is enough: raise epsilon or delta, or lower the distance")]
    Shift,
}

/// The number of providers that segments are spread over, independently and uniformly, and the number of them that are
/// assumed to combine their parts: at least one (each sees its own), at most all (then partition hides nothing).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "StoredPartition", into = "StoredPartition")]
pub struct Partition {
    providers: NonZeroU32,
    colluding: NonZeroU32,
}

impl Partition {
    /// One provider that sees everything.
    pub const NONE: Self = Self { providers: NonZeroU32::MIN, colluding: NonZeroU32::MIN };

    /// Makes a partition over `providers`, of which `colluding` combine their parts.
    ///
    /// # Errors
    /// [`HistogramError::Partition`] when more collude than exist.
    pub fn new(providers: NonZeroU32, colluding: NonZeroU32) -> Result<Self, HistogramError> {
        if colluding > providers {
            return Err(HistogramError::Partition { providers: providers.get(), colluding: colluding.get() });
        }
        Ok(Self { providers, colluding })
    }

    /// Returns the number of providers.
    pub const fn providers(self) -> NonZeroU32 {
        self.providers
    }

    /// Returns the number of providers that are assumed to collude.
    pub const fn colluding(self) -> NonZeroU32 {
        self.colluding
    }

    /// Returns m/N, the share of the segments that colluding providers see.
    pub fn share(self) -> f64 {
        f64::from(self.colluding.get()) / f64::from(self.providers.get())
    }
}

#[derive(Serialize, Deserialize)]
struct StoredPartition {
    providers: NonZeroU32,
    colluding: NonZeroU32,
}

impl TryFrom<StoredPartition> for Partition {
    type Error = HistogramError;
    fn try_from(stored: StoredPartition) -> Result<Self, HistogramError> {
        Self::new(stored.providers, stored.colluding)
    }
}

impl From<Partition> for StoredPartition {
    fn from(partition: Partition) -> Self {
        Self { providers: partition.providers, colluding: partition.colluding }
    }
}

/// The ways in which two histograms at distance d may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Differences {
    /// Words are only added, or only removed.
    OneWay,
    /// Some are added and some removed, as when one word is exchanged for another.
    #[default]
    Mixed,
}

/// The noise: a rate s > 0, in nats per word, and a shift η₀.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TruncatedLaplace {
    rate: f64,
    shift: u32,
}

impl TruncatedLaplace {
    /// Makes noise of this rate and shift.
    ///
    /// # Errors
    /// [`HistogramError::Rate`] at rate 0.
    pub fn new(rate: Epsilon, shift: u32) -> Result<Self, HistogramError> {
        if rate.get() > 0.0 { Ok(Self { rate: rate.get(), shift }) } else { Err(HistogramError::Rate) }
    }

    /// Returns the noise with the least shift that keeps (ε, δ) at distance d against the colluding providers of a
    /// partition. The rate is a multiple of 2⁻³² nat, so that a sampler can draw it exactly.
    ///
    /// # Errors
    /// [`HistogramError`] when δ is 0, or ε so small that the rate would be 0 or the shift out of range.
    pub fn calibrated(
        epsilon: Epsilon,
        delta: Delta,
        distance: NonZeroU32,
        partition: Partition,
        differences: Differences,
    ) -> Result<Self, HistogramError> {
        const STEPS: f64 = 4_294_967_296.0;
        let (base, mass) = amplify::before_sampling(epsilon.get(), delta.get(), partition.share());
        let mass = match differences {
            Differences::OneWay => mass,
            Differences::Mixed => mass * exp(-epsilon.get()) * (1.0 - 8.0 * UNIT),
        };
        let rate = floor(base / f64::from(distance.get()) * STEPS) / STEPS;
        let rate = Epsilon::new(rate).map_err(|_| HistogramError::Rate)?;
        Self::least_shift(
            rate,
            distance,
            Delta::new(mass.min(1.0f64.next_down())).map_err(|_| HistogramError::NoDelta)?,
        )
    }

    /// Returns the noise of this rate with the least shift whose δ₀ at distance d is at most `delta`.
    ///
    /// # Errors
    /// [`HistogramError`] when the rate or δ is 0, or no shift below 2³² is sufficient.
    pub fn least_shift(rate: Epsilon, distance: NonZeroU32, delta: Delta) -> Result<Self, HistogramError> {
        if delta.get() <= 0.0 {
            return Err(HistogramError::NoDelta);
        }
        let s = rate.get();
        let unshifted = Self::new(rate, 0)?;
        let keeps = |shift: u32| Self { shift, ..unshifted }.delta(distance) <= delta.get();
        // ⌈(ln(max(e^{s(d−1)}, d)/δ) − ln(1+α))/s⌉, and one step either way for rounding.
        let ideal = ceil((unshifted.ln_words(distance) - log(delta.get()) - log1p(exp(-s))) / s).max(0.0);
        if ideal >= f64::from(u32::MAX) - 2.0 {
            return Err(HistogramError::Shift);
        }
        let first = (ideal as u32).saturating_sub(1);
        let shift = (first..=first + 3).find(|&shift| keeps(shift)).ok_or(HistogramError::Shift)?;
        Ok(Self { shift, ..unshifted })
    }

    /// Returns s, in nats per word.
    pub const fn rate(self) -> f64 {
        self.rate
    }

    /// Returns η₀.
    pub const fn shift(self) -> u32 {
        self.shift
    }

    /// Returns Pr[η = x] dummies of one word.
    pub fn probability(self, dummies: u64) -> f64 {
        if dummies == 0 {
            return exp(self.ln_zero());
        }
        let away = (dummies as f64 - f64::from(self.shift)).abs();
        tanh(0.5 * self.rate) * exp(-self.rate * away)
    }

    /// Returns E\[η\], dummies of one word: η₀ + α^{η₀+1}/(1−α²).
    pub fn mean(self) -> f64 {
        f64::from(self.shift) + self.excess()
    }

    /// Returns Var\[η\] = 2α/(1−α)² − α^{η₀+1}/(1−α)² − 2η₀c − c², with c = α^{η₀+1}/(1−α²).
    pub fn variance(self) -> f64 {
        let s = self.rate;
        let shift = f64::from(self.shift);
        let excess = self.excess();
        let square = expm1(-s) * expm1(-s);
        (2.0 * exp(-s) - exp(-s * (shift + 1.0))) / square - 2.0 * shift * excess - excess * excess
    }

    fn excess(self) -> f64 {
        exp(-self.rate * (f64::from(self.shift) + 1.0)) / -expm1(-2.0 * self.rate)
    }

    /// Returns ε₀ = s d, rounded up.
    pub fn epsilon(self, distance: NonZeroU32) -> f64 {
        let d = f64::from(distance.get());
        if distance.get() == 1 { self.rate } else { (self.rate * d).next_up() }
    }

    /// Returns δ₀ = t max(e^{s(d−1)}, d), rounded up, at most 1; without a partition it also holds for differences both
    /// ways.
    pub fn delta(self, distance: NonZeroU32) -> f64 {
        let zero = self.ln_zero();
        let words = self.ln_words(distance);
        let slack = 8.0 * UNIT * (words - zero + f64::from(self.shift) * self.rate + 2.0);
        exp(zero + words + slack).clamp(f64::MIN_POSITIVE, 1.0)
    }

    /// Returns (ε, δ) against the colluding providers of a partition, rounded up; δ at most 1.
    pub fn guarantee(self, distance: NonZeroU32, partition: Partition, differences: Differences) -> (f64, f64) {
        let base = self.epsilon(distance);
        let mass = self.delta(distance);
        if partition.colluding == partition.providers {
            return (base, mass);
        }
        let (epsilon, delta) = amplify::by_sampling(base, mass, partition.share().next_up());
        match differences {
            Differences::OneWay => (epsilon, delta),
            Differences::Mixed => {
                let twice = delta * exp(epsilon) * (1.0 + 8.0 * UNIT * (1.0 + epsilon));
                (epsilon, twice.min(1.0))
            }
        }
    }

    /// Returns ln t.
    fn ln_zero(self) -> f64 {
        -self.rate * f64::from(self.shift) - log1p(exp(-self.rate))
    }

    /// Returns ln max(e^{s(d−1)}, d).
    fn ln_words(self, distance: NonZeroU32) -> f64 {
        let d = f64::from(distance.get());
        (self.rate * (d - 1.0)).max(log(d))
    }
}
