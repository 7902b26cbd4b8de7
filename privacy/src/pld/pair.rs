//! Single steps: the exact hockey-stick profile of each mechanism's dominating pair, in both directions.

use std::f64::consts::PI;

use libm::{asinh, exp, expm1, log, log1p, sinh};

use super::mills::{mills_fall, tail};
use crate::special::{ln_binomial, log_add};

/// One direction of a dominating pair (P, Q): the distribution of the loss ln P/Q under P.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum DirectionLoss {
    /// P = (1−q) N(0, z²) + q N(1, z²) against Q = N(0, z²).
    Remove { q: f64, z: f64 },
    /// The same pair, in the reverse direction.
    Add { q: f64, z: f64 },
    /// P = (1−q) N(0) + q N(1) against Q = (1−q) N(0) + q N(−1); its own reverse.
    Replace { q: f64, z: f64 },
    /// With probability q, told, a Gaussian N(2, z²) against N(0, z²), else nothing; its own reverse.
    KnownCoin { q: f64, z: f64 },
    /// P = Σ wₖ N(k, z²) against Q = N(0, z²): several units, each sampled independently.
    RemoveGroup { weights: Vec<f64>, z: f64 },
    /// The same pair, in the reverse direction.
    AddGroup { weights: Vec<f64>, z: f64 },
    /// Laplace of scale 1/ε; its own reverse.
    Laplace { epsilon: f64 },
    /// Finitely many losses with their masses, and the mass at infinity. A smooth one has the losses of a grid, and no
    /// other scale than their deviation.
    Finite { atoms: Vec<(f64, f64)>, infinite: f64, is_smooth: bool },
}

/// A mechanism's dominating pair. Costs of whole plans are the larger of both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub(super) directions: Vec<DirectionLoss>,
}

impl Pair {
    /// Returns true if the reverse direction is the same.
    pub(super) fn symmetric(&self) -> bool {
        self.directions.iter().all(|direction| *direction == self.directions[0])
    }

    /// Returns the pair of one Gaussian release of a Poisson(q) sample, one unit added or removed (or zeroed); q = 1 is
    /// the plain Gaussian.
    pub fn sampled_gaussian(q: f64, z: f64) -> Self {
        Self { directions: vec![DirectionLoss::Remove { q, z }, DirectionLoss::Add { q, z }] }
    }

    /// Returns the same, one unit replaced by another; z is still relative to the clip.
    pub fn sampled_gaussian_replacing(q: f64, z: f64) -> Self {
        Self { directions: vec![DirectionLoss::Replace { q, z }; 2] }
    }

    /// Returns a proved dominating pair of the same: the coin of the replaced unit is told. The release is a mixture over that
    /// coin, with the same weights before and after, and hockey sticks are jointly convex (`mechanism/substituted.rs`). Costs
    /// more than [`Pair::sampled_gaussian_replacing`], which is not known to dominate under composition.
    pub(super) fn known_coin(q: f64, z: f64) -> Self {
        Self { directions: vec![DirectionLoss::KnownCoin { q, z }; 2] }
    }

    /// Returns this pair, or one that is proved to dominate it.
    pub(super) fn proved(&self) -> Self {
        match self.directions[0] {
            DirectionLoss::Replace { q, z } => Self::known_coin(q, z),
            _ => self.clone(),
        }
    }

    /// Returns the same for `size` units added or removed together, each sampled independently: a mixture of Gaussians
    /// in each direction (Choquette-Choo, Ganesh, Steinke and Thakurta 2024; Ganesh 2024). Whether one direction
    /// dominates the other under composition is not proved for groups (for replacement it fails: Lebeda, Regehr, Kamath
    /// and Steinke 2024), so plans take the larger.
    pub fn sampled_gaussian_group(q: f64, z: f64, size: u32) -> Self {
        let g = f64::from(size);
        let weight = |k: u32| {
            let k = f64::from(k);
            // At q = 1 all the weight is on the whole group.
            let rest = if q < 1.0 {
                (g - k) * log1p(-q)
            } else if k < g {
                f64::NEG_INFINITY
            } else {
                0.0
            };
            exp(ln_binomial(g, k) + k * log(q) + rest)
        };
        let weights: Vec<f64> = (0..=size).map(weight).collect();
        Self {
            directions: vec![
                DirectionLoss::RemoveGroup { weights: weights.clone(), z },
                DirectionLoss::AddGroup { weights, z },
            ],
        }
    }

    /// Returns the pair of the Laplace mechanism of scale Δ₁/ε.
    pub fn laplace(epsilon: f64) -> Self {
        Self { directions: vec![DirectionLoss::Laplace { epsilon }; 2] }
    }

    /// Returns the pair of any (ε, δ)-DP mechanism: with probability δ everything, else binary randomized response
    /// (Kairouz, Oh and Viswanath 2015).
    pub fn approximate(epsilon: f64, delta: f64) -> Self {
        let up = (1.0 - delta) / (1.0 + exp(-epsilon));
        let down = (1.0 - delta) / (1.0 + exp(epsilon));
        let atoms = vec![(-epsilon, down), (epsilon, up)];
        Self { directions: vec![DirectionLoss::Finite { atoms, infinite: delta, is_smooth: false }; 2] }
    }

    /// Returns the pair of a mechanism with finitely many outcomes, given as (P, Q) for each; adds the reverse
    /// direction. Probabilities that are left out of P, or have no counterpart in Q, lose everything.
    pub fn finite(outcomes: &[(f64, f64)]) -> Self {
        let direction = |outcomes: &mut dyn Iterator<Item = (f64, f64)>| {
            let mut atoms = Vec::new();
            let mut infinite = 0.0;
            let mut left = 1.0;
            for (p, q) in outcomes {
                left -= p;
                if p > 0.0 && q > 0.0 {
                    atoms.push((log(p) - log(q), p));
                } else {
                    infinite += p;
                }
            }
            let infinite = infinite + if left > 1e-12 { left } else { 0.0 };
            DirectionLoss::Finite { atoms, infinite, is_smooth: false }
        };
        let there = direction(&mut outcomes.iter().copied());
        let back = direction(&mut outcomes.iter().map(|&(p, q)| (q, p)));
        Self { directions: vec![there, back] }
    }
}

/// Range of a normal variable, in standard deviations, beyond which the mass cannot matter (6e-16; at the low end it is
/// only moved up).
const REACH: f64 = 8.0;

impl DirectionLoss {
    /// Returns the mass at infinity.
    pub(super) fn infinite(&self) -> f64 {
        if let Self::Finite { infinite, .. } = self { *infinite } else { 0.0 }
    }

    /// Returns the loss below which the mass is negligible (below 1e-15), and the greatest loss, if there is one.
    pub(super) fn range(&self) -> (f64, Option<f64>) {
        match self {
            Self::Remove { q, z } => (sampled_loss(*q, *z, -REACH * z), None),
            Self::Add { q, z } => (-sampled_loss(*q, *z, REACH * z), (*q < 1.0).then(|| -log1p(-q))),
            Self::Replace { q, z } => {
                let x = -REACH * z;
                (sampled_loss(*q, *z, x) - sampled_loss(*q, *z, -x), None)
            }
            Self::KnownCoin { z, .. } => (sampled_loss(1.0, 0.5 * z, -REACH * 0.5 * z), None),
            Self::RemoveGroup { weights, z } => (group_loss(weights, *z, -REACH * z), None),
            Self::AddGroup { weights, z } => {
                let most = weights.first().filter(|weight| **weight > 0.0);
                (-group_loss(weights, *z, REACH * z), most.map(|weight| -log(*weight)))
            }
            Self::Laplace { epsilon } => (-epsilon, Some(*epsilon)),
            Self::Finite { atoms, .. } => {
                let losses = || atoms.iter().map(|atom| atom.0);
                (losses().fold(f64::INFINITY, f64::min), Some(losses().fold(f64::NEG_INFINITY, f64::max)))
            }
        }
    }

    /// Returns roughly the standard deviation of the loss, for the choice of a grid. Bounded losses need a finer grid:
    /// their few values do not smooth out.
    pub(super) fn spread(&self) -> f64 {
        match self {
            // With much noise a step's loss is q times the Gaussian's; with little it is that of the rare sampled ones.
            Self::Remove { q, z } | Self::Add { q, z } | Self::Replace { q, z } => {
                (q * expm1(1.0 / (z * z)).sqrt()).min(q.sqrt() / z)
            }
            Self::KnownCoin { q, z } => 2.0 * q.sqrt() / z,
            Self::RemoveGroup { weights, z } | Self::AddGroup { weights, z } => {
                let mean: f64 = weights.iter().enumerate().map(|(k, weight)| k as f64 * weight).sum();
                mean / z
            }
            Self::Laplace { epsilon } => 0.02 * epsilon,
            Self::Finite { atoms, is_smooth, .. } => {
                let deviation = atoms.iter().map(|(loss, mass)| mass * loss * loss).sum::<f64>().sqrt();
                if *is_smooth { deviation } else { 0.02 * deviation }
            }
        }
    }

    /// Returns roughly the mean of the finite losses.
    pub(super) fn mean(&self) -> f64 {
        match self {
            Self::Finite { atoms, .. } => atoms.iter().map(|(loss, mass)| mass * loss).sum(),
            // Of a Gaussian loss.
            _ => 0.5 * self.spread() * self.spread(),
        }
    }

    /// Returns δ(ε) = Σ max(P − e^ε Q, 0) without the mass at infinity, at any real ε; relative error about 1e-13.
    pub(super) fn profile(&self, epsilon: f64) -> f64 {
        match self {
            Self::Remove { q, z } => {
                let excess = expm1(epsilon) + q;
                if excess <= 0.0 {
                    return -expm1(epsilon);
                }
                // The outcome at which the loss is ε.
                let x = z * z * log1p(expm1(epsilon) / q) + 0.5;
                q * tail_gap((x - 1.0) / z, 1.0 / z)
            }
            Self::Add { q, z } => {
                let excess = expm1(-epsilon) + q;
                if excess <= 0.0 {
                    return 0.0;
                }
                let y = z * z * log1p(expm1(-epsilon) / q) + 0.5;
                // Mirrored: e^ε q φ((1−y)/z) [m(−y/z) − m((1−y)/z)].
                let (near, width) = (-y / z, 1.0 / z);
                mirrored_gap(*q, epsilon, excess, near, width)
            }
            Self::Replace { q, z } => {
                let k = log(*q) - 0.5 / (z * z);
                let scaled = sinh(0.5 * epsilon) * (1.0 - q);
                // asinh(s/e^k) for e^k that may underflow.
                let ln_scaled = log(scaled.abs()) - k;
                let turn = if ln_scaled > 40.0 {
                    (ln_scaled + std::f64::consts::LN_2) * scaled.signum()
                } else {
                    asinh(scaled * exp(-k))
                };
                let turn = if scaled == 0.0 { 0.0 } else { turn };
                let x = z * z * (0.5 * epsilon + turn);
                q * tail_gap((x - 1.0) / z, 1.0 / z) + q * exp(epsilon) * reflected_tail_gap(x / z, 1.0 / z)
            }
            Self::KnownCoin { q, z } => {
                q * Self::Remove { q: 1.0, z: 0.5 * z }.profile(epsilon) + (1.0 - q) * -expm1(epsilon.min(0.0))
            }
            Self::RemoveGroup { weights, z } => {
                if epsilon <= log(weights[0]) {
                    return -expm1(epsilon);
                }
                let x = group_outcome(weights, *z, epsilon);
                let gap = |(k, weight): (usize, &f64)| {
                    if *weight == 0.0 { 0.0 } else { weight * tail_gap((x - k as f64) / z, k as f64 / z) }
                };
                weights.iter().enumerate().skip(1).map(gap).sum()
            }
            Self::AddGroup { weights, z } => {
                if weights[0] > 0.0 && epsilon >= -log(weights[0]) {
                    return 0.0;
                }
                let y = group_outcome(weights, *z, -epsilon);
                // As for one unit, term by term: 1 = e^ε Σ wₖ e^{(2ky−k²)/(2z²)} at the outcome y.
                let near = -y / z;
                let mixture = || weights.iter().enumerate().skip(1).filter(|(_, weight)| **weight > 0.0);
                if near < -7.0 {
                    let excess = expm1(-epsilon) + mixture().map(|(_, weight)| weight).sum::<f64>();
                    let beyond: f64 = mixture().map(|(k, weight)| weight * tail(near + k as f64 / z)).sum();
                    return exp(epsilon) * (excess * tail(near) - beyond);
                }
                let gap = |(k, weight): (usize, &f64)| weight * reflected_tail_gap(near, k as f64 / z);
                exp(epsilon) * mixture().map(gap).sum::<f64>()
            }
            Self::Laplace { epsilon: most } => {
                if epsilon >= *most {
                    0.0
                } else if epsilon <= -most {
                    -expm1(epsilon)
                } else {
                    -expm1(0.5 * (epsilon - most))
                }
            }
            Self::Finite { atoms, .. } => {
                let above = |&&(loss, _): &&(f64, f64)| loss > epsilon;
                atoms.iter().filter(above).map(|(loss, mass)| mass * -expm1(epsilon - loss)).sum()
            }
        }
    }
}

/// Returns ln(1 − q + q e^{(2x−1)/(2z²)}).
fn sampled_loss(q: f64, z: f64, x: f64) -> f64 {
    let t = (x - 0.5) / (z * z);
    if q >= 1.0 { t } else { log_add(log1p(-q), log(q) + t) }
}

/// Returns φ(v) [m(v) − m(v + w)], with Mills' ratio m = Φc/φ and w > 0: P's tail less e^ε times Q's, without
/// cancellation.
fn tail_gap(v: f64, w: f64) -> f64 {
    let density = exp(-0.5 * v * v) / (2.0 * PI).sqrt();
    if v < -7.0 {
        // φ(v)/φ(v+w) = e^{w(v + w/2)}.
        return tail(v) - exp(w * (v + 0.5 * w)) * tail(v + w);
    }
    density * mills_fall(v, w)
}

/// Returns φ(v + w) [m(v) − m(v + w)].
fn reflected_tail_gap(v: f64, w: f64) -> f64 {
    let far = v + w;
    if v < -7.0 {
        return exp(-w * (v + 0.5 * w)) * tail(v) - tail(far);
    }
    exp(-0.5 * far * far) / (2.0 * PI).sqrt() * mills_fall(v, w)
}

/// Returns δ of the add direction: e^ε q φ(v + w) [m(v) − m(v + w)] at v = −y/z. In the tail, where the ratio
/// overflows, it uses (1 − e^ε(1−q)) Φ(y/z) − e^ε q Φ((y−1)/z), and 1 − e^ε(1−q) = e^ε · excess.
fn mirrored_gap(q: f64, epsilon: f64, excess: f64, v: f64, w: f64) -> f64 {
    if v < -7.0 {
        return exp(epsilon) * (excess * tail(v) - q * tail(v + w));
    }
    exp(epsilon) * q * reflected_tail_gap(v, w)
}

/// Returns ln Σ wₖ e^{(2kx − k²)/(2z²)}, and its slope in x.
fn group_parts(weights: &[f64], z: f64, x: f64) -> (f64, f64) {
    let unit = 1.0 / (z * z);
    let term = |(k, weight): (usize, &f64)| {
        let k = k as f64;
        (log(*weight) + (k * x - 0.5 * k * k) * unit, k * unit)
    };
    let terms: Vec<(f64, f64)> = weights.iter().enumerate().map(term).collect();
    let greatest = terms.iter().map(|term| term.0).fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut slope) = (0.0, 0.0);
    for (ln_term, rate) in terms {
        let share = exp(ln_term - greatest);
        sum += share;
        slope += share * rate;
    }
    (greatest + log(sum), slope / sum)
}

fn group_loss(weights: &[f64], z: f64, x: f64) -> f64 {
    group_parts(weights, z, x).0
}

/// Returns the outcome at which the group's loss is ε: the loss is convex and rises in x, so Newton from the right
/// converges.
fn group_outcome(weights: &[f64], z: f64, epsilon: f64) -> f64 {
    let mut x = 1.0;
    while group_loss(weights, z, x) < epsilon {
        x = 2.0 * x + z;
    }
    for _ in 0..200 {
        let (loss, slope) = group_parts(weights, z, x);
        let next = x - (loss - epsilon) / slope;
        if (next - x).abs() <= 1e-15 * x.abs().max(z) || !next.is_finite() {
            break;
        }
        x = next;
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_of_both_directions_reflect() {
        // δ of (P, Q) at −ε is 1 − e^{−ε} + e^{−ε} δ of (Q, P) at ε.
        let pairs = [
            Pair::sampled_gaussian(0.1, 0.7),
            Pair::sampled_gaussian(0.9, 5.0),
            Pair::sampled_gaussian(1.0, 2.0),
            Pair::sampled_gaussian_replacing(0.3, 1.5),
            Pair::known_coin(0.3, 1.5),
            Pair::sampled_gaussian_group(0.1, 0.7, 3),
            Pair::sampled_gaussian_group(0.9, 5.0, 2),
            Pair::sampled_gaussian_group(1.0, 6.0, 4),
            Pair::laplace(0.8),
        ];
        for pair in pairs {
            for epsilon in [1e-6, 0.01, 0.09, 0.5, 2.0, 7.0] {
                for (there, back) in [(0, 1), (1, 0)] {
                    let got = pair.directions[there].profile(-epsilon);
                    let expected = -expm1(-epsilon) + exp(-epsilon) * pair.directions[back].profile(epsilon);
                    assert!((got / expected - 1.0).abs() < 1e-9, "{pair:?} {epsilon} {there}: {got:e} {expected:e}");
                }
            }
        }
    }

    #[test]
    fn group_pair_of_one_equals_unit_pair() {
        for (q, z) in [(0.1, 0.7), (0.5, 3.0)] {
            let one = Pair::sampled_gaussian(q, z);
            let group = Pair::sampled_gaussian_group(q, z, 1);
            for epsilon in [-0.5, 0.0, 0.1, 1.0, 4.0] {
                for direction in 0..2 {
                    let a = one.directions[direction].profile(epsilon);
                    let b = group.directions[direction].profile(epsilon);
                    assert!((a - b).abs() <= 1e-11 * a, "{direction} {epsilon}: {a:e} {b:e}");
                }
            }
        }
    }

    /// Checks both directions of a group against the trapezoid rule on its densities.
    #[test]
    fn group_profiles_match_integrals_of_densities() {
        for (q, z, size) in [(0.1_f64, 1.2_f64, 3_u32), (0.4, 2.5, 5), (0.02, 0.6, 8)] {
            let pair = Pair::sampled_gaussian_group(q, z, size);
            let DirectionLoss::RemoveGroup { weights, .. } = &pair.directions[0] else {
                panic!("the removal comes first")
            };
            let step = z / 2000.0;
            let density = |x: f64| exp(-0.5 * (x / z) * (x / z)) / (2.0 * PI).sqrt() / z;
            let mixture = |x: f64| -> f64 { weights.iter().enumerate().map(|(k, w)| w * density(x - k as f64)).sum() };
            let points = ((f64::from(size) + 18.0 * z) / step) as i64;
            for epsilon in [-0.3, 0.0, 0.2, 1.0] {
                let (mut remove, mut add) = (0.0, 0.0);
                for index in 0..=points {
                    let x = -9.0 * z + index as f64 * step;
                    let with = mixture(x);
                    let without = density(x);
                    remove += (with - exp(epsilon) * without).max(0.0) * step;
                    add += (without - exp(epsilon) * with).max(0.0) * step;
                }
                for (direction, expected) in [(0, remove), (1, add)] {
                    let got = pair.directions[direction].profile(epsilon);
                    assert!(
                        (got - expected).abs() < 1e-6,
                        "{q} {z} {size} {epsilon} {direction}: {got:e} {expected:e}"
                    );
                }
            }
        }
    }
}
