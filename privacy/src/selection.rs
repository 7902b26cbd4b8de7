//! The price of private selection: several runs, of which only the best is shown, as in a search for hyper-parameters.
//!
//! A base release (training *and* the noisy score, everything that influences the choice) is run K times, K secret, and
//! only the best is shown. Papernot and Steinke 2022: a curve for the base gives one for the selection, for any
//! criterion. The runs are not charged one by one, and none of their outputs may leave; K and the running time must not
//! leak. Where there may be no run at all (Poisson), a public default is shown.
//!
//! `bound.rs` bounds the hockey-stick curve of the selection directly (Koskela, Redberg and Wang 2024), for loss distributions.
//!
//! The running time does not reveal K when the number of runs is independent of K, and then K must have a bound; that
//! bound has a price too ([`Runs::CappedNegativeBinomial`]).

mod bound;
#[cfg(test)]
mod tests;

pub(crate) use bound::{RunProfiles, SelectionBound};

use std::num::NonZeroU16;

use libm::{exp, expm1, lgamma, log, log1p, pow};
use serde::{Deserialize, Serialize};

use crate::convert;
use crate::curve::Curve;
use crate::fixed::Fixed;
use crate::unit::{Delta, Epsilon, MeanRuns, RunShape, StoppingRate};

/// The distribution of the number of runs K.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "distribution", rename_all = "snake_case")]
pub enum Runs {
    /// Pr\[K = k\] ∝ (1−γ)^k Π_{l<k} (l+η)/(l+1), k ≥ 1: logarithmic at η = 0, geometric at η = 1.
    TruncatedNegativeBinomial {
        /// η.
        shape: RunShape,
        /// γ.
        stopping: StoppingRate,
    },
    /// Poisson, k ≥ 0.
    Poisson {
        /// m.
        mean: MeanRuns,
    },
    /// The truncated negative binomial, conditioned on at most `most` runs: drawn again until it is.
    CappedNegativeBinomial {
        /// η.
        shape: RunShape,
        /// γ.
        stopping: StoppingRate,
        /// Largest number of runs.
        most: NonZeroU16,
    },
}

/// Why a selection has no curve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SelectionError {
    /// The theorem is for Rényi curves without a side mass.
    #[error("a selection among releases that have a delta of their own has no price: select among Rényi releases only")]
    SideDelta,
}

impl Runs {
    /// Returns the increase of the loss at every order by a bound on the number of runs: ln(E\[K\] / E\[K; K ≤ m\]),
    /// rounded up; 0 without a bound.
    pub fn cap(self) -> f64 {
        match self {
            Self::CappedNegativeBinomial { shape, stopping, most } => {
                -log(TruncatedSums::from_terms(shape, stopping, most).share)
            }
            Self::TruncatedNegativeBinomial { .. } | Self::Poisson { .. } => 0.0,
        }
    }

    /// Returns E\[K\].
    pub fn mean(self) -> f64 {
        match self {
            Self::TruncatedNegativeBinomial { shape, stopping } => {
                let gamma = stopping.get();
                let ln_gamma = log(stopping.get());
                // η(1−γ)/(γ(1−γ^η)); x/expm1(x) is 1 at 0, which gives (1−γ)/(γ ln(1/γ)) there.
                let x = shape.get() * ln_gamma;
                let ratio = if x == 0.0 { 1.0 } else { x / expm1(x) };
                ratio * (1.0 - gamma) / (gamma * -ln_gamma)
            }
            Self::Poisson { mean } => mean.get(),
            Self::CappedNegativeBinomial { shape, stopping, most } => {
                let TruncatedSums { weighted, plain, .. } = TruncatedSums::from_terms(shape, stopping, most);
                weighted / plain
            }
        }
    }

    /// Returns Pr\[K = k\].
    pub fn probability(self, k: u32) -> f64 {
        let runs = f64::from(k);
        match self {
            Self::TruncatedNegativeBinomial { .. } | Self::CappedNegativeBinomial { .. } if k == 0 => 0.0,
            Self::TruncatedNegativeBinomial { shape, stopping } => {
                let eta = shape.get();
                let ln_gamma = log(stopping.get());
                let x = -eta * ln_gamma;
                // η/(γ^{−η} − 1), and 1/ln(1/γ) at η = 0.
                let ratio = if x == 0.0 { 1.0 } else { x / expm1(x) };
                // Π_{0<l<k} (l+η)/(l+1) = Γ(k+η) / (Γ(1+η) k!).
                let ln_product = lgamma(runs + eta) - lgamma(1.0 + eta) - lgamma(runs + 1.0);
                ratio / -ln_gamma * exp(runs * log1p(-stopping.get()) + ln_product)
            }
            Self::Poisson { mean } => exp(runs * log(mean.get()) - mean.get() - lgamma(runs + 1.0)),
            Self::CappedNegativeBinomial { most, .. } if k > u32::from(most.get()) => 0.0,
            Self::CappedNegativeBinomial { shape, stopping, most } => {
                let whole = Self::TruncatedNegativeBinomial { shape, stopping };
                let TruncatedSums { plain, .. } = TruncatedSums::from_terms(shape, stopping, most);
                whole.probability(k) / (whole.probability(1) * plain)
            }
        }
    }
}

/// Sums over the runs up to a bound, in units of Pr\[K = 1\].
struct TruncatedSums {
    /// Σ k Pr\[K = k\].
    weighted: f64,
    /// Σ Pr\[K = k\].
    plain: f64,
    /// The share of E\[K\] at or below the bound, rounded down.
    share: f64,
}

impl TruncatedSums {
    /// Sums the terms aₖ = k Pr\[K = k\] / Pr\[K = 1\]: a₁ = 1, aₖ₊₁ = aₖ (1−γ)(k+η)/k, and the sum of all of them is
    /// γ^{−(1+η)} (the binomial series). All terms are positive, so nothing cancels.
    fn from_terms(shape: RunShape, stopping: StoppingRate, most: NonZeroU16) -> Self {
        let eta = shape.get();
        let gamma = stopping.get();
        let (mut term, mut weighted, mut plain) = (1.0, 0.0, 0.0);
        for k in 1..=most.get() {
            let k = f64::from(k);
            weighted += term;
            plain += term / k;
            term *= (1.0 - gamma) * ((k + eta) / k);
        }
        // Each of the factors is rounded a few times.
        let slack = 1.0 - 8.0 * f64::from(most.get()) * f64::EPSILON;
        Self { weighted, plain, share: (weighted * pow(gamma, 1.0 + eta) * slack).min(1.0) }
    }
}

/// Returns the curve of the selection, on the base's grid.
///
/// Truncated negative binomial (Theorem 2): ρ'(λ) = ρ(λ) + min over λ̂ of \[(1+η)(1−1/λ̂)ρ(λ̂) + (1+η) ln(1/γ)/λ̂\] +
/// ln E\[K\]/(λ−1). Poisson (Theorem 6): ρ'(λ) = ρ(λ) + m δ̂ + ln(m)/(λ−1), δ̂ the base's δ at ε̂ = ln(1 + 1/(λ−1)). Either
/// way a divergence grows with its order, so each ρ'(λ) is then the least of those at λ and above. λ̂ is sought on the grid:
/// the finer it is, the better.
///
/// Capped at m: the proof of Theorem 2 bounds ρ'(λ) − ρ(λ) by ln(f'(q)^λ f'(p)^{1−λ})/(λ−1), f the generating function of K
/// and q, p probabilities of one test under the two neighbours (Lemma 7), which is ln f'(q)/(λ−1) + ln(f'(q)/f'(p)). With
/// fₘ' the part of f' up to the power m−1, the capped one is fₘ'/Pr\[K ≤ m\]. The first term is at most
/// ln E\[K | K ≤ m\]/(λ−1). In the second, fₘ'(q) ≤ f'(q), and fₘ'(p)/f'(p) falls in p (the omitted part has the higher
/// powers), so it is at least its value at 1, s = E\[K; K ≤ m\]/E\[K\]. So the cap adds ln(1/s), and the mean is the
/// capped one's.
///
/// # Errors
/// [`SelectionError::SideDelta`] when the base has a side mass.
pub fn curve(base: &Curve, runs: Runs) -> Result<Curve, SelectionError> {
    if base.side_delta() != Fixed::ZERO {
        return Err(SelectionError::SideDelta);
    }
    let ln_mean = log(runs.mean());
    let raw: Vec<f64> = match runs {
        Runs::TruncatedNegativeBinomial { shape, stopping } | Runs::CappedNegativeBinomial { shape, stopping, .. } => {
            let weight = 1.0 + shape.get();
            let ln_stop = -log(stopping.get());
            let cap = runs.cap();
            let choice = base
                .losses()
                .map(|(order, loss)| {
                    let order = order.get();
                    weight * ((1.0 - 1.0 / order) * loss.to_f64_up() + ln_stop / order)
                })
                .fold(f64::INFINITY, f64::min);
            let choice = choice + cap;
            base.losses().map(|(order, loss)| loss.to_f64_up() + choice + ln_mean / (order.get() - 1.0)).collect()
        }
        Runs::Poisson { mean } => base
            .losses()
            .map(|(order, loss)| {
                let above = order.get() - 1.0;
                // Rounded down: a smaller ε̂ only asks for a larger δ̂.
                let at = Epsilon::new(log1p(1.0 / above).next_down()).ok();
                let mass = at.and_then(|at| convert::delta(base, at)).map_or(1.0, Delta::get);
                loss.to_f64_up() + mean.get() * mass + ln_mean / above
            })
            .collect(),
    };
    let mut least = f64::INFINITY;
    let mut losses: Vec<f64> = raw
        .into_iter()
        .rev()
        .map(|loss| {
            least = least.min(loss);
            least
        })
        .collect();
    losses.reverse();
    let mut losses = losses.into_iter();
    Ok(Curve::evaluated(base.grid(), |_| losses.next().unwrap_or(f64::INFINITY)))
}

/// Returns ε of the best of a truncated negative binomial number of ε-DP runs: (2 + η) ε, rounded up (the limit of
/// Theorem 2 in both orders; at η = 1, three times ε, it is Liu and Talwar 2019).
pub fn pure(epsilon: f64, shape: RunShape) -> f64 {
    // A sum of at least 1 keeps its digits; two roundings, one ulp each.
    ((2.0 + shape.get()) * epsilon).next_up().next_up()
}
