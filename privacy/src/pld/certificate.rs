//! Gaussian certificates: the least μ for which one Gaussian release, and a δ₀ apart, dominate a whole closed plan.
//!
//! # The claim
//!
//! (P, Q) is the dominating pair of a plan whose parameters are fixed before its first output, H its hockey-stick curve, G
//! that of a Gaussian release of parameter μ. If
//!
//! H(ε) ≤ R(ε) = δ₀ + (1−δ₀) G(ε) for every real ε, in both directions,
//!
//! then the plan is post-processing of "with probability δ₀ everything, else one Gaussian release of μ" (Blackwell 1953; Dong, Roth
//! and Su 2022), also when an analyst chooses the queries between its releases and interleaves them with those of
//! other plans (Vadhan and Zhang 2023: an interactive mechanism is a post-processing of its pair). R is the curve of that
//! mixture: where everything is revealed the outputs are disjoint, and their curve is 1 at every ε.
//!
//! # Proof from finitely many evaluations
//!
//! **Negative ε.** The curve of every pair reflects: H_{P‖Q}(−ε) = 1 − e^{−ε} + e^{−ε} H_{Q‖P}(ε). R is the curve of a pair that is its own
//! reverse, so R(−ε) = 1 − e^{−ε} + e^{−ε} R(ε). Hence H_{P‖Q} ≤ R at −ε exactly where H_{Q‖P} ≤ R at ε: both directions at ε ≥ 0 are all
//! directions at all ε.
//!
//! **Between points.** Let x = e^ε. H is convex in x; with upper bounds Ĥ_i at ε_i = i·h ([`super::profile`]), it is at most their
//! chord. R is convex in x, so it is at least its tangent at ε_i, of slope −(1−δ₀) Φc(μ/2 + ε_i/μ). A chord lies below a line if
//! both ends do. So these two suffice for the interval: R(ε_i) ≥ Ĥ_i, and
//! R(ε_i) − (1−δ₀) e^{ε_i} Φc(μ/2 + ε_i/μ) (e^h − 1) ≥ Ĥ_{i+1}. The product e^ε Φc(μ/2 + ε/μ) is evaluated as ½ e^{−a²/2} erfcx(b/√2),
//! a = ε/μ − μ/2, b = a + μ, which neither overflows nor cancels.
//!
//! **The tail.** H falls and R ≥ δ₀, so the first i with Ĥ_i ≤ δ₀ settles all that follow.
//!
//! R is rounded down by more than the error of its evaluation (1e-12). μ is searched on the grid of multiples of 2⁻²⁰ by
//! bisection, point after point; the result has passed the test above itself, so nothing rests on the order of the search. The arithmetic is
//! `libm` and plain f64, so every machine finds the same μ.
//!
//! **Loud plans.** Where H is nearly 1 only its distance from 1 decides, which an absolute error hides (from a μ of about 13). Such a
//! plan is certified as two halves, each with half of δ₀: a composition of mixtures, whose μ² and δ₀ add.
//!
//! # Pairs
//!
//! The pairs of added and removed units dominate under composition (Zhu, Dong and Wang 2022). That of a replaced
//! unit under sampling is a conjecture, so its coin is told instead ([`Pair::known_coin`]). Noise on a grid of 2²⁰ steps to
//! a standard deviation changes a profile by a part of about 2⁻⁴⁰; the margin for evaluation errors covers it.
//!
//! Plain Gaussians in a plan compose exactly and need no δ₀: their μ² is added. A plan of only pure releases at δ₀ = 0 is an
//! ε-DP release, post-processing of randomized response. Its trade-off function is piecewise linear, with ends (0, 1) and (1, 0)
//! and a corner at 1/(1+e^ε) on both axes. That of a Gaussian of μ = 2Φ⁻¹(e^ε/(1+e^ε)) is convex and passes through all three, so it
//! lies below, and this Gaussian dominates.

use std::f64::consts::FRAC_1_SQRT_2;

use libm::{erfc, exp, expm1, log1p};

use super::grid::GridPart;
use super::pair::Pair;
use super::profile::ComposedProfile;
use super::window::WindowBuffers;
use super::{Plan, PldError};
use crate::fixed::Fixed;
use crate::gaussian::GaussianProfile;
use crate::special::{erfcx, normal_quantile};
use crate::unit::{Delta, Epsilon};

/// The Gaussian release that dominates a plan, and the mass apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GaussianCertificate {
    /// μ² in units of 2⁻⁶⁴, rounded up.
    mu_squared: Fixed,
    /// δ₀.
    side_delta: Fixed,
}

/// Multiples of this are the grid of μ.
const TICK: f64 = 1.0 / 1_048_576.0;
/// The largest μ of a certificate; a plan that needs more protects nobody.
const MOST_TICKS: u64 = 256 << 20;

impl GaussianCertificate {
    /// Makes the certificate of any mechanism that is (ε, δ₀)-DP; `None` where ε is too large for the grid of μ.
    pub fn from_guarantee(epsilon: Epsilon, side: Delta) -> Option<Self> {
        Some(Self { mu_squared: square(pure_mu(epsilon.get())?), side_delta: Fixed::ceil(side.get()) })
    }

    /// Returns μ², rounded up.
    pub const fn mu_squared(&self) -> Fixed {
        self.mu_squared
    }

    /// Returns μ, rounded up.
    pub fn mu(&self) -> f64 {
        self.mu_squared.to_f64_up().sqrt().next_up()
    }

    /// Returns δ₀, rounded up.
    pub const fn side_delta(&self) -> Fixed {
        self.side_delta
    }
}

/// Returns μ² in fixed point, rounded up.
fn square(mu: f64) -> Fixed {
    Fixed::ceil((mu * mu).next_up())
}

/// Returns 2Φ⁻¹(e^ε/(1+e^ε)), rounded up; `None` beyond the grid.
fn pure_mu(epsilon: f64) -> Option<f64> {
    // 1/(1+e^ε), the lower tail; its error of some ulps moves the quantile by less than the margin.
    let tail = exp(-epsilon) / (1.0 + exp(-epsilon));
    if tail < 1e-300 {
        return None;
    }
    let mu = -2.0 * normal_quantile(tail.min(0.5));
    Some(ceil_tick(mu * (1.0 + 1e-12) + 1e-14))
}

/// Rounds up to the grid.
fn ceil_tick(mu: f64) -> f64 {
    libm::ceil(mu / TICK) * TICK
}

impl Plan {
    /// Returns the certificate of the plan at the side mass δ₀, with the least μ; `None` when no μ is enough: the plan reveals more
    /// than δ₀, or without δ₀ only a bound that is infinite is known.
    ///
    /// # Errors
    /// [`PldError::NoPair`] for a plan without loss distribution, [`PldError::TooWide`] when the losses do not fit into any sensible
    /// grid.
    pub fn gaussian_certificate(&self, side: Delta) -> Result<Option<GaussianCertificate>, PldError> {
        if let Some(event) = self.unpaired {
            return Err(PldError::NoPair(event));
        }
        if self.leaks || !self.gaussian.is_finite() {
            return Ok(None);
        }
        let gaussian = if self.gaussian > 0.0 { square(self.gaussian * (1.0 + 4e-12)) } else { Fixed::ZERO };
        if self.pairs.is_empty() {
            return Ok(Some(GaussianCertificate { mu_squared: gaussian, side_delta: Fixed::ZERO }));
        }
        let mu_squared = if side.get() > 0.0 {
            let pairs: Vec<_> = self.pairs.iter().map(|(pair, count)| (pair.proved(), *count)).collect();
            least_mu_squared(&pairs, side.get(), MOST_HALVINGS)?
        } else {
            let pure = Self { pairs: self.pairs.clone(), ..Self::default() }.pure_epsilon();
            pure.and_then(|epsilon| pure_mu(epsilon.get())).map(square)
        };
        Ok(mu_squared.map(|mu_squared| GaussianCertificate {
            mu_squared: mu_squared.plus(gaussian),
            side_delta: Fixed::ceil(side.get()),
        }))
    }
}

/// Loud plans are cut into at most 2⁶ parts, so that a price takes at most seven searches.
const MOST_HALVINGS: u32 = 6;

/// Returns the least μ² for pairs that are not plain Gaussians, rounded up: of the whole, or, where the whole is too loud for the
/// errors of one transform, twice that of a half with half the side mass. A half has each number of steps rounded up, so
/// two of them are at least the plan.
fn least_mu_squared(pairs: &[(Pair, u64)], side: f64, halvings: u32) -> Result<Option<Fixed>, PldError> {
    let revealed: f64 = pairs.iter().map(|(pair, count)| *count as f64 * log1p(-pair.directions[0].infinite())).sum();
    if -expm1(revealed) > side {
        return Ok(None);
    }
    let whole = least_mu(pairs, side)?;
    if whole.is_some() || halvings == 0 || pairs.iter().all(|(_, count)| *count < 2) {
        return Ok(whole.map(square));
    }
    let half: Vec<(Pair, u64)> = pairs.iter().map(|(pair, count)| (pair.clone(), count.div_ceil(2))).collect();
    Ok(least_mu_squared(&half, 0.5 * side, halvings - 1)?.map(|mu_squared| mu_squared.times(2)))
}

/// Spacing of the grid, in parts of a step's standard deviation: connect-the-dots adds h²/6 to the variance of every step, here
/// less than a part in ten thousand.
const FINENESS: f64 = 0.03;

/// Returns the least μ of the grid for pairs that are not plain Gaussians.
fn least_mu(pairs: &[(Pair, u64)], side: f64) -> Result<Option<f64>, PldError> {
    let buffers = &mut WindowBuffers::default();
    let profiles = profiles(pairs, side, buffers).ok_or(PldError::TooWide)?;
    // Where errors exceed δ₀, no μ is found; two halves would fare no better, because errors and side mass halve alike.
    if profiles.iter().any(|profile| profile.deltas.last().is_none_or(|last| *last > side)) {
        return Err(PldError::TooWide);
    }
    Ok(DominationSearch { profiles, side }.least_ticks().map(|ticks| ticks as f64 * TICK))
}

/// Composes both directions, on the finest grid of a power of two that can be computed.
pub(super) fn profiles(pairs: &[(Pair, u64)], side: f64, buffers: &mut WindowBuffers) -> Option<Vec<ComposedProfile>> {
    let (mut variance, mut steps) = (0.0, 0.0);
    for (pair, count) in pairs {
        let spread = pair.directions[0].spread();
        variance += *count as f64 * spread * spread;
        steps += *count as f64;
    }
    let (_, exponent) = libm::frexp((FINENESS * (variance / steps).sqrt()).clamp(1e-6, 0.25));
    let mut step = libm::ldexp(1.0, exponent - 1);
    let symmetric = pairs.iter().all(|(pair, _)| pair.symmetric());
    while step < 16.0 {
        let mut both = Vec::new();
        for direction in 0..if symmetric { 1 } else { 2 } {
            let part = |(pair, count): &(Pair, u64)| {
                GridPart::new(&pair.directions[direction], step, side * 1e-6 / (steps + 1.0), *count)
            };
            let parts: Option<Vec<GridPart>> = pairs.iter().map(part).collect();
            both.extend(parts.and_then(|parts| ComposedProfile::new(&parts, side * 1e-6, buffers)));
        }
        if both.len() == if symmetric { 1 } else { 2 } {
            return Some(both);
        }
        step *= 2.0;
    }
    None
}

/// The test of a μ against both directions.
struct DominationSearch {
    profiles: Vec<ComposedProfile>,
    side: f64,
}

impl DominationSearch {
    /// Returns the least μ, in ticks, whose mixture dominates every direction at every ε; see the module. A point where μ fails
    /// raises it to the least that holds there. Few points come first, so that most of the others hold at once; the last pass
    /// is the proof of the answer. `None` beyond [`MOST_TICKS`].
    fn least_ticks(&self) -> Option<u64> {
        let mut ticks = 1;
        for stride in [1024, 32, 1] {
            for direction in 0..self.profiles.len() {
                ticks = self.raise(ticks, direction, stride)?;
            }
        }
        let is_proved = (0..self.profiles.len())
            .all(|direction| self.points(direction, 1).all(|point| self.holds(ticks as f64 * TICK, direction, point)));
        is_proved.then_some(ticks)
    }

    /// Returns the points of a direction that are above δ₀, every `stride`-th of them.
    fn points(&self, direction: usize, stride: usize) -> impl Iterator<Item = usize> {
        let deltas = &self.profiles[direction].deltas;
        (0..deltas.len()).step_by(stride).take_while(|point| deltas[*point] > self.side)
    }

    /// Raises μ until it holds at every `stride`-th point of a direction.
    fn raise(&self, from: u64, direction: usize, stride: usize) -> Option<u64> {
        let mut ticks = from;
        for point in self.points(direction, stride) {
            let holds = |ticks: u64| self.holds(ticks as f64 * TICK, direction, point);
            if holds(ticks) {
                continue;
            }
            let (mut low, mut step) = (ticks, 1);
            while !holds(low + step) {
                (low, step) = (low + step, 2 * step);
                if low >= MOST_TICKS {
                    return None;
                }
            }
            let mut high = low + step;
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if holds(middle) { high = middle } else { low = middle }
            }
            ticks = high;
        }
        Some(ticks)
    }

    /// Returns true if both inequalities hold from one point to the next.
    fn holds(&self, mu: f64, direction: usize, point: usize) -> bool {
        let profile = &self.profiles[direction];
        let epsilon = point as f64 * profile.step;
        let here = profile.deltas[point];
        if here <= self.side {
            return true;
        }
        // Without a next point the profile never falls to δ₀.
        let Some(next) = profile.deltas.get(point + 1) else { return false };
        let Ok(at) = Epsilon::new(epsilon) else { return false };
        let kept = 1.0 - self.side;
        let value = self.side + kept * GaussianProfile::of_mu(mu).delta(at) * (1.0 - 1e-10);
        let fall = kept * weighted_tail(mu, epsilon) * profile.growth() * (1.0 + 1e-10);
        value >= here && value - fall >= *next
    }
}

/// Returns e^ε Φc(μ/2 + ε/μ), for ε ≥ 0; relative error about 1e-14.
fn weighted_tail(mu: f64, epsilon: f64) -> f64 {
    let a = epsilon / mu - 0.5 * mu;
    let b = a + mu;
    // b ≥ μ/2 > 0, so the scaled function stays in range.
    if epsilon == 0.0 { 0.5 * erfc(b * FRAC_1_SQRT_2) } else { 0.5 * exp(-0.5 * a * a) * erfcx(b * FRAC_1_SQRT_2) }
}

#[cfg(test)]
mod tests;
