//! Discrete Gaussian noise that several parties add to one sum, with every unit in the sum and under Poisson sampling.
//!
//! Each of n honest parties adds N_ℤ(0, s²) to every coordinate of an integer vector, and the adversary sees the sum over all
//! parties. Vectors of colluding parties are constants to it. F is the law of the n parties' noise in one coordinate, G is
//! N_ℤ(0, ns²), F_v and G_v are the same shifted by v. Lengths are in steps of the grid.
//!
//! # The sum of discrete Gaussians is nearly one
//!
//! *Lemma 1* (Kairouz, Liu and Steinke 2021, Corollary 12). If s ≥ 1/2, then |ln F(z) − ln G(z)| ≤ τ/2 at every integer z, with
//! τ = 10 Σ_{k<n} e^{−2π²s²k/(k+1)}.
//!
//! *Proof.* Let X ~ N_ℤ(0, a²), Y ~ N_ℤ(0, b²), c² = a²b²/(a² + b²). Completing the square in Σ_x P[X = x] P[Y = z − x] gives the
//! mass of N_ℤ(0, a² + b²) at z, times a constant, times S(z) = Σ_x e^{−(x−m)²/(2c²)} with m = z a²/(a² + b²). By Poisson summation
//! S(z)/(√(2π) c) = 1 + 2 Σ_{j≥1} e^{−2π²c²j²} cos(2πjm), which is within 1 ± η for η = 2(y + y⁴ + y⁹ + …), y = e^{−2π²c²}. Both laws
//! have mass 1, so the mean of S times the constant is 1, and the ratio of the two laws is within [(1−η)/(1+η), (1+η)/(1−η)]. For
//! y ≤ 0.3 the logarithm of the upper end is at most 5y. Adding parties one by one, the k-th sum and the next party have
//! c² = s²k/(k+1) ≥ s²/2, so y ≤ e^{−π²/4} < 0.09, and adding one more party's noise to two laws does not widen their ratio. ∎
//!
//! Two parties with s = 0.2 are further apart than τ/2, so there is no price below s = 1/2.
//!
//! # Without sampling
//!
//! *Lemma 2* (their Proposition 14). For an integer vector v with |v| ≤ Δ₂ and α > 1, E_F[(F_v/F)^α] ≤ e^{(α−1)ρ(α)}, where ρ(α) is the
//! least of αa²/2 + τd, (α/2)(a² + 2a₁τ + τ²d) and (α/2)(a + √d τ)², with a = Δ₂/(√n s), a₁ = Δ₁/(√n s) and d coordinates.
//!
//! *Proof of the first.* By Lemma 1, F_v/F ≤ e^{τd} G_v/G, and G_v/G = e^{(2⟨x,v⟩ − |v|²)/(2ns²)}. So E_F[(F_v/F)^α] =
//! E_{F_v}[(F_v/F)^{α−1}] ≤ e^{(α−1)τd} E_{F_v}[(G_v/G)^{α−1}]. N_ℤ(0, s²) is sub-Gaussian with variance s² (Canonne, Kamath and Steinke 2020,
//! Lemma 3.6 of the full version), so F is with ns², and the last mean is at most e^{α(α−1)|v|²/(2ns²)}. ∎
//!
//! # Under Poisson sampling
//!
//! The sampled unit is in its site's vector with probability q, by a coin of that site alone. Other sites have coins of their own.
//!
//! *Theorem.* M and M' are the laws of the sum without and with the unit. For every integer α ≥ 2, D_α(M'‖M) and D_α(M‖M') are at most
//! ln(1 + Σ_{2≤k≤α} C(α,k) (1−q)^{α−k} q^k (e^{(k−1)ρ(k)} − 1))/(α−1).
//!
//! *Proof.* Fix all that is independent of the unit's coin and of the honest noise: the vectors of the other sites (whose batches are
//! their own), the coins and the roundings of the other units of the site, and the rounding v of this unit. The divergence is jointly
//! quasi-convex, so the bound for each outcome is one for the mixture. Up to a common shift M is then F and M' is (1−q)F + qF_v.
//!
//! Forward: ∫ M'^α M^{1−α} = E_F[(1 − q + qF_v/F)^α]. The binomial theorem expands it into the moments E_F[(F_v/F)^k]. Those of k = 0
//! and 1 are 1, the others are bounded by Lemma 2, and every coefficient is positive.
//!
//! Reverse: F is symmetric, so x ↦ v − x maps ℤᵈ onto itself and exchanges F and F_v. Mironov, Talwar and Zhang (2019), Theorem 5,
//! need no more for D_α(M‖M') ≤ D_α(M'‖M). ∎
//!
//! More honest parties than n only add noise, and the modulus of masked sums is post-processing. So n is the least number of
//! honest parties of any sum that can be opened.
//!
//! At a fractional order there are four bounds, and the least holds: the chord between integer orders (ln E[…^α] is convex in α, and 0
//! at 1), 1 + q(e^{(α−1)ρ(α)} − 1) by convexity of the power, ρ(α) itself, and the continuous mechanism:
//! M' ≤ e^{τd/2} M'_G and M ≥ e^{−τd/2} M_G by Lemma 1, where M_G and M'_G have the noise G, so the loss is that of G and at most
//! τd (2α−1)/(2(α−1)) more. The loss of G is that of the continuous Gaussian and [`super::ln_grid_excess`] more.
//!
//! A contribution that is replaced by another has the bounds of `substituted.rs`.

use std::f64::consts::PI;

use libm::exp;

use super::LEAST_LOSS;
use super::discrete::ln_grid_excess;
use super::sampled::{SampledGaussian, ln_binomial, ln_chord, ln_coin};
use super::substituted;
use crate::event::DistributedNoise;
use crate::special::{UNIT, softplus};

/// Beyond this many contributors a bound replaces the rest of the sum in τ.
const MOST_TERMS: u32 = 100_000;

/// The least s with which Lemma 1 holds, in steps of the grid.
const LEAST_STEPS: f64 = 0.5;

/// Returns true if the noise has a price: it comes from one party, or each party adds at least half a step.
pub(super) fn has_price(noise: &DistributedNoise) -> bool {
    noise.contributors.get() == 1 || noise.noise.get() >= LEAST_STEPS
}

/// The parameters of Lemma 2.
#[derive(Debug, Clone, Copy)]
struct UnsampledLoss {
    /// Δ₂/(√n s).
    a: f64,
    /// Δ₁/(√n s).
    a1: f64,
    tau: f64,
    /// d.
    dimension: f64,
}

impl UnsampledLoss {
    /// Returns the parameters for a unit that is removed or zeroed (`changes` 1), or replaced (2).
    fn new(noise: &DistributedNoise, changes: f64) -> Self {
        let dimension = f64::from(noise.dimension.get());
        let tau = if has_price(noise) { spread(noise) } else { f64::INFINITY };
        let l2 = sensitivity(noise);
        // An integer vector's 1-norm is at most its squared 2-norm.
        let l1 = l2 * dimension.sqrt().min(l2);
        let deviation = deviation(noise);
        Self { a: changes * l2 / deviation, a1: changes * l1 / deviation, tau, dimension }
    }

    /// Returns ρ(α).
    fn loss(&self, order: f64) -> f64 {
        let Self { a, a1, tau, dimension: d } = *self;
        let apart = 0.5 * order * a * a + tau * d;
        let mixed = 0.5 * order * (a * a + 2.0 * a1 * tau + tau * tau * d);
        let joint = a + d.sqrt() * tau;
        apart.min(mixed).min(0.5 * order * joint * joint).max(LEAST_LOSS)
    }
}

/// Returns √n s, the deviation of the noise in the sum.
fn deviation(noise: &DistributedNoise) -> f64 {
    noise.noise.get() * f64::from(noise.contributors.get()).sqrt()
}

/// Returns ρ(α) of a sum in which each of n contributors adds discrete Gaussian noise of its own: Lemma 2. `changes` is 1 for a
/// contribution removed or zeroed, 2 for one replaced. Infinite where Lemma 1 does not hold.
pub fn distributed_discrete_gaussian(noise: &DistributedNoise, changes: f64, order: f64) -> f64 {
    UnsampledLoss::new(noise, changes).loss(order)
}

/// A sum in which every contributor adds discrete Gaussian noise of its own, and the units of each site are a Poisson(q) sample.
/// It caches the values that several orders need.
#[derive(Debug)]
pub(super) struct SampledDistributed {
    q: f64,
    unsampled: UnsampledLoss,
    /// The same for a contribution that is replaced.
    replaced: UnsampledLoss,
    /// The continuous mechanism with the same deviation.
    continuous: SampledGaussian,
    z: f64,
    /// √n s.
    deviation: f64,
    /// The relative error of a base loss, mostly of the sum in τ.
    cover: f64,
}

impl SampledDistributed {
    /// Returns the mechanism with sampling rate q in [0, 1].
    pub(super) fn new(q: f64, noise: &DistributedNoise) -> Self {
        let deviation = deviation(noise);
        let z = deviation / sensitivity(noise);
        Self {
            q,
            unsampled: UnsampledLoss::new(noise, 1.0),
            replaced: UnsampledLoss::new(noise, 2.0),
            continuous: SampledGaussian::new(q, z),
            z,
            deviation,
            cover: 1.0 + UNIT * (32.0 + f64::from(noise.contributors.get().min(MOST_TERMS))),
        }
    }

    /// Returns ρ(α) for a unit that is added, removed or zeroed: the theorem at integer orders, the least of the four bounds at others.
    /// q = 1 is [`distributed_discrete_gaussian`], q = 0 costs nothing. Order > 1; anything else is infinite.
    pub(super) fn loss(&mut self, order: f64) -> f64 {
        if self.q == 0.0 && order > 1.0 {
            return 0.0;
        }
        if !(self.q > 0.0 && self.q <= 1.0 && order > 1.0 && order.is_finite()) {
            return f64::INFINITY;
        }
        let unsampled = self.unsampled.loss(order);
        if self.q >= 1.0 || unsampled.is_infinite() {
            return unsampled;
        }
        let growth = |k: f64| (k - 1.0) * self.unsampled.loss(k) * self.cover;
        let ln_moment = |order: f64| softplus(ln_binomial(self.q, order, growth));
        if order.fract() == 0.0 {
            return (ln_moment(order) / (order - 1.0)).clamp(LEAST_LOSS, unsampled);
        }
        let by_moments = ln_chord(order, ln_moment).min(softplus(ln_coin(self.q, growth(order)))) / (order - 1.0);
        let distance = self.unsampled.tau * self.unsampled.dimension * (order - 0.5) / (order - 1.0);
        let excess = exp(ln_grid_excess(self.unsampled.dimension, self.deviation, self.z, order)) + distance;
        // The quadrature is worth its time only where it can win.
        let by_distance = if excess < by_moments { self.continuous.loss(order) + excess } else { f64::INFINITY };
        by_moments.min(by_distance).clamp(LEAST_LOSS, unsampled)
    }

    /// Returns ρ(α) for a contribution that is replaced by another under the same coin.
    pub(super) fn loss_of_replacement(&mut self, order: f64) -> f64 {
        let unsampled = self.replaced.loss(order);
        if self.q >= 1.0 || unsampled.is_infinite() {
            return unsampled;
        }
        if self.q == 0.0 {
            return 0.0;
        }
        let ln_coin = ln_coin(self.q, (order - 1.0) * unsampled * self.cover);
        substituted::replaced(order, |order| self.loss(order), ln_coin, unsampled)
    }
}

/// Returns Δ₂ in steps of the grid, after stochastic rounding that is repeated until the norm is within its bound:
/// min(C + √d, √(C² + d/4 + √(2 ln(1/β)) (C + √d/2))).
pub fn sensitivity(noise: &DistributedNoise) -> f64 {
    let clip = noise.clip.get();
    let root = f64::from(noise.dimension.get()).sqrt();
    let worst = clip + root;
    let bias = noise.rounding_bias.get();
    if bias <= 0.0 {
        return worst;
    }
    let likely = clip * clip + 0.25 * root * root + (-2.0 * libm::log(bias)).sqrt() * (clip + 0.5 * root);
    worst.min(likely.sqrt())
}

/// Returns τ.
pub fn spread(noise: &DistributedNoise) -> f64 {
    let scale = -2.0 * PI * PI * noise.noise.get() * noise.noise.get();
    let terms = noise.contributors.get() - 1;
    let term = |k: u32| exp(scale * f64::from(k) / (f64::from(k) + 1.0));
    let summed_terms = terms.min(MOST_TERMS);
    // Terms fall with k.
    let rest = if terms > summed_terms { f64::from(terms - summed_terms) * term(summed_terms) } else { 0.0 };
    10.0 * ((1..=summed_terms).map(term).sum::<f64>() + rest)
}

#[cfg(test)]
mod tests;
