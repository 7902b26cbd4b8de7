//! The sampled Gaussian when one contribution is replaced by another that is sampled by the same coin.
//!
//! This is how a record changes a release that protects its speaker: the speaker stays, and the contribution u, clipped to C,
//! becomes another one u'. Given the coins of all others the release is P = (1−q) N(0, σ²) + q N(u, σ²) or
//! Q = (1−q) N(0, σ²) + q N(u', σ²) around a common point, with ‖u‖, ‖u'‖ ≤ C and z = σ/C. The coins of the others are
//! independent of their contributions, so joint quasi-convexity of the divergence carries a bound for each outcome of them to
//! the whole release.
//!
//! Three upper bounds hold at every order α > 1, in both directions, and the least of them is charged:
//!
//! * **One removal, one addition.** With R = N(0, σ²), the release without the contribution, Hölder's inequality with the
//!   conjugate exponents p = (2α−1)/α and p/(p−1) = (2α−1)/(α−1) gives the weak triangle inequality of Rényi divergence
//!   (Mironov 2017, Proposition 11): D_α(P‖Q) ≤ (α − 1/p)/(α−1) D_{pα}(P‖R) + D_β(R‖Q) with β = p(α−1)/(p−1) + 1. These
//!   exponents make it D_α(P‖Q) ≤ 2α/(2α−1) D_{2α−1}(P‖R) + D_{2α}(R‖Q). Both terms are curves of a removal or an addition.
//!   For Gaussians it is an equality.
//! * **The coin known.** P and Q are mixtures with the same weights, and ∫ P^α Q^(1−α) is jointly convex (Liese and Vajda
//!   1987; van Erven and Harremoës 2014, Theorem 11): it is at most 1 − q + q e^{α(α−1)(2/z)²/2}.
//! * **No sampling.** D_α(P‖Q) ≤ D_α(N(u)‖N(u')) ≤ α (2/z)²/2, by joint quasi-convexity.
//!
//! Only the last terms use that the noise is Gaussian. For the noise of several parties ([`replaced`]) the loss between two
//! contributions without sampling takes their place.

use super::LEAST_LOSS;
use super::sampled::ln_convexity;
use crate::special::softplus;

/// Returns the Rényi loss at `order` of two successive changes, each of which loses at most `loss(β)` at every order β,
/// in either direction.
pub(super) fn two_changes(order: f64, mut loss: impl FnMut(f64) -> f64) -> f64 {
    let (removal, addition) = (2.0 * order - 1.0, 2.0 * order);
    addition / removal * loss(removal) + loss(addition)
}

/// Returns ρ(α) of one Gaussian release of a Poisson(q) sample with noise multiplier z = σ/C in which one contribution
/// is replaced; `added` is the loss of one that is added or removed.
pub(super) fn sampled_gaussian(q: f64, z: f64, order: f64, added: impl FnMut(f64) -> f64) -> f64 {
    let gaussian = super::gaussian(z / 2.0, order);
    if q >= 1.0 || gaussian.is_infinite() {
        return gaussian;
    }
    if q == 0.0 {
        return 0.0;
    }
    replaced(order, added, ln_convexity(q, z / 2.0, order), gaussian)
}

/// Returns the least of the three bounds: `added` is the loss of a contribution that is added or removed, `ln_coin` the logarithm of
/// the excess over 1 of the moment where the coin is known, `unsampled` the loss without sampling.
pub(super) fn replaced(order: f64, added: impl FnMut(f64) -> f64, ln_coin: f64, unsampled: f64) -> f64 {
    let coin_bound = softplus(ln_coin) / (order - 1.0);
    two_changes(order, added).min(coin_bound).clamp(LEAST_LOSS, unsampled)
}

#[cfg(test)]
mod tests {
    use super::super::{gaussian, pure, sampled};
    use super::{sampled_gaussian, two_changes};

    /// Returns D_α between the two mixtures by the trapezoid rule, for contributions `u` and `v` in units of C on one
    /// axis.
    fn divergence(q: f64, z: f64, (u, v): (f64, f64), order: f64) -> f64 {
        let step = z / 400.0;
        let reach = 14.0 * z + 2.0 * order;
        let density = |x: f64, at: f64| (-(x - at) * (x - at) / (2.0 * z * z)).exp();
        let count = (2.0 * reach / step) as usize;
        let mixture = |x: f64, at: f64| (1.0 - q) * density(x, 0.0) + q * density(x, at);
        let (mut sum, mut all) = (0.0, 0.0);
        for index in 0..=count {
            let x = -reach + step * index as f64;
            let p = mixture(x, u);
            let r = mixture(x, v);
            all += density(x, 0.0);
            if p > 0.0 && r > 0.0 {
                sum += (order * p.ln() + (1.0 - order) * r.ln()).exp();
            }
        }
        (sum / all).ln() / (order - 1.0)
    }

    fn price(q: f64, z: f64, order: f64) -> f64 {
        sampled_gaussian(q, z, order, |order| sampled::poisson_sampled_gaussian(q, z, order))
    }

    #[test]
    fn pairs_of_contributions_lose_at_most_the_price() {
        for (q, z) in [(0.02, 0.8), (0.1, 1.0), (0.3, 2.0), (0.7, 1.5), (0.95, 4.0)] {
            for order in [1.125, 1.5, 2.0, 3.0, 6.0] {
                let charge = price(q, z, order);
                for u in [-1.0, -0.4, 0.0, 0.5, 1.0] {
                    for v in [-1.0, -0.7, 0.0, 0.3, 1.0] {
                        let lost = divergence(q, z, (u, v), order);
                        assert!(lost <= charge * (1.0 + 1e-6) + 1e-9, "{q} {z} {order} {u} {v}: {lost} {charge}");
                    }
                }
            }
        }
    }

    #[test]
    fn two_gaussian_changes_equal_one_of_twice_the_size() {
        for order in [1.007_812_5, 1.5, 2.0, 64.0] {
            let two = two_changes(order, |order| gaussian(3.0, order));
            let exact = gaussian(1.5, order);
            assert!((two / exact - 1.0).abs() < 1e-12, "{order}: {two} {exact}");
        }
    }

    #[test]
    fn two_pure_changes_cover_twice_epsilon() {
        // Randomized response with three answers: the middle one of the three datasets lies between the others.
        let epsilon = 0.4_f64;
        for order in [1.25, 2.0, 8.0] {
            let e = epsilon.exp();
            // P : Q is e² on one answer, and each step from P to R to Q is within e.
            let p = e / (1.0 + e);
            let r = 1.0 / (1.0 + e);
            let lost = (p.powf(order) * r.powf(1.0 - order) + r.powf(order) * p.powf(1.0 - order)).ln() / (order - 1.0);
            assert!(lost <= two_changes(order, |order| pure(epsilon, order)));
        }
    }

    #[test]
    fn replacement_cost_lies_between_removal_and_unsampled() {
        for (q, z) in [(0.001, 0.6), (0.01, 1.0), (0.5, 2.0)] {
            for order in [1.5, 2.0, 8.0, 64.0] {
                let added = sampled::poisson_sampled_gaussian(q, z, order);
                let replaced = price(q, z, order);
                assert!(added < replaced && replaced <= gaussian(z / 2.0, order), "{q} {z} {order}");
            }
        }
    }
}
