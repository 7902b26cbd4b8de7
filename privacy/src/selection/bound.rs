//! Hockey-stick bounds for the best of K runs, from the profile of one run (Koskela, Redberg and Wang 2024).
//!
//! Q and Q' are the distributions of one run under two neighbours, A and A' those of the best of K runs, φ(u) = E\[u^K\] the
//! generating function of K, p₀ = Pr\[K = 0\]. H_{P‖R}(ε) = sup over S of P(S) − e^ε R(S).
//!
//! # The density of the best
//!
//! Equal scores are put in order by a coin. Give each run an independent uniform mark, and compare scores first, marks
//! second: runs are then almost surely different, and a mark that does not depend on the data leaves the profile of a run
//! unchanged. (A rule by position, such as "the first", selects the same distribution, because the runs are
//! exchangeable.) With F(y) = Q(run ≤ y) all of k runs are at most y with probability F(y)^k, so A(best ≤ y) − p₀ = φ(F(y)) − p₀, and
//!
//! A(dy) = φ'(F(y)) Q(dy), A'(dy) = φ'(F'(y)) Q'(dy).
//!
//! φ has coefficients of at least 0, so φ' rises. Where K may be 0, the null outcome has the mass p₀ under both
//! neighbours, and adds p₀ max(1 − e^ε, 0) to H: nothing at ε ≥ 0.
//!
//! # Bound 1: one constant
//!
//! Let t = 1 − F(y), t' = 1 − F'(y). These are probabilities of one event under both neighbours, so at every s ≥ 0
//!
//! t' ≤ e^s t + H_{Q'‖Q}(s), and 1 − t ≤ e^s (1 − t') + H_{Q‖Q'}(s), so t' ≤ 1 − e^{−s} (1 − t − H_{Q‖Q'}(s)).
//!
//! Let G(t) ≤ 1 be the least of these right sides over a set of s, and C = sup over t of φ'(1−t)/φ'(1−G(t)) ≥ 1. Then
//! φ'(F') ≥ φ'(1−G(t)) ≥ φ'(F)/C, and for every set S
//!
//! A(S) − e^ε A'(S) ≤ ∫_S φ'(F) (dQ − (e^ε/C) dQ') ≤ ∫ φ'(F) dν, ν = (Q − (e^ε/C) Q')⁺.
//!
//! ν ≤ Q, ν has the mass d = H_{Q‖Q'}(ε − ln C), F is uniform under Q, and φ' rises: the integral is greatest when ν is the
//! top of Q. Hence
//!
//! **H_{A‖A'}(ε) ≤ φ(1) − φ(1 − d)**, the probability that one of K runs meets an event of probability d.
//!
//! It is at most E\[K\] d, the form of the paper, whose C for the negative binomial comes from a single s. Every s at once
//! makes C the exact supremum over the trade-off region of Q and Q'.
//!
//! C is an upper bound: an interval \[a, b\] of t contributes at most φ'(1−a)/φ'(1−G(b)), since φ' and G are monotone, and
//! intervals are halved until the largest is near a value that is attained. An interval that is no longer halved
//! keeps its upper bound.
//!
//! # Bound 2: all runs
//!
//! The best of k runs is a function of all of them, and K has the same distribution under both neighbours. Hockey sticks are
//! jointly convex, so for ε ≥ 0
//!
//! **H_{A‖A'}(ε) ≤ Σ_k Pr\[K = k\] H_{Q^k‖Q'^k}(ε)**, and from k = m + 1 on each term is at most Pr\[K = k\].
//!
//! It is the smaller one where a run loses little: there C costs more than a few more runs.
//!
//! Both hold for each direction with the profiles of that direction, so for add/remove they are computed twice.

use libm::{exp, expm1, log, log1p};

use super::Runs;

/// The functions of φ that the bounds need. Each is rounded up by more than its error, which is below 1e-12 of it. Numbers of
/// runs whose probabilities overflow have infinite or void bounds.
#[derive(Debug, Clone)]
pub(crate) struct SelectionBound {
    runs: Runs,
    /// k Pr\[K = k\] / Pr\[K = 1\] for k = 1, 2, ... of a capped number of runs; empty for the others.
    terms: Vec<f64>,
    /// 1 / Pr\[K = 1\] of a capped number of runs.
    scale: f64,
}

/// The relative margin for rounding.
const MARGIN: f64 = 1e-11;
/// Intervals of t are no longer halved when there are more than this.
const MOST_INTERVALS: usize = 1 << 14;

impl SelectionBound {
    pub(crate) fn new(runs: Runs) -> Self {
        let mut terms = Vec::new();
        if let Runs::CappedNegativeBinomial { shape, stopping, most } = runs {
            let mut term = 1.0;
            for k in 1..=most.get() {
                terms.push(term);
                let k = f64::from(k);
                term *= (1.0 - stopping.get()) * ((k + shape.get()) / k);
            }
        }
        let scale = (1..).map(f64::from).zip(&terms).map(|(k, term)| term / k).sum();
        Self { runs, terms, scale }
    }

    /// Returns φ(1) − φ(1 − d).
    pub(crate) fn hit(&self, d: f64) -> f64 {
        let d = d.min(1.0);
        let hit = match self.runs {
            Runs::TruncatedNegativeBinomial { shape, stopping } => {
                let gamma = stopping.get();
                // φ(u) = ((1 − (1−γ)u)^{−η} − 1)/(γ^{−η} − 1), and its limit at η = 0.
                let v = log1p((1.0 - gamma) / gamma * d);
                let eta = shape.get();
                if eta == 0.0 { v / -log(gamma) } else { expm1(-eta * v) / expm1(eta * log(gamma)) }
            }
            Runs::Poisson { mean } => -expm1(-mean.get() * d),
            Runs::CappedNegativeBinomial { .. } => {
                let ln_miss = log1p(-d);
                let counts = (1..).map(f64::from).zip(&self.terms);
                counts.map(|(k, term)| term / k * -expm1(k * ln_miss)).sum::<f64>() / self.scale
            }
        };
        (hit * (1.0 + MARGIN)).min(1.0)
    }

    /// Returns ln φ'(1−t) up to a constant.
    fn ln_slope(&self, t: f64) -> f64 {
        match self.runs {
            Runs::TruncatedNegativeBinomial { shape, stopping } => {
                let gamma = stopping.get();
                -(1.0 + shape.get()) * log(gamma + (1.0 - gamma) * t)
            }
            Runs::Poisson { mean } => -mean.get() * t,
            Runs::CappedNegativeBinomial { .. } => {
                let miss = 1.0 - t;
                log(self.terms.iter().rev().fold(0.0, |sum, term| sum * miss + term))
            }
        }
    }

    /// Returns ln C for an upper bound of G that rises.
    pub(crate) fn ln_ratio(&self, bound: impl Fn(f64) -> f64) -> f64 {
        let (mut attained, mut closed) = (0.0f64, 0.0f64);
        let mut open = vec![(0.0, 1.0)];
        while !open.is_empty() {
            let is_last = open.len() > MOST_INTERVALS;
            let mut halves = Vec::new();
            for (a, b) in open {
                let far = self.ln_slope(bound(b).clamp(0.0, 1.0));
                let upper = self.ln_slope(a) - far;
                attained = attained.max(self.ln_slope(b) - far);
                let middle = 0.5 * (a + b);
                if upper.is_nan() {
                    return f64::INFINITY;
                } else if is_last || upper <= attained * 1.002 + 1e-5 || middle <= a || middle >= b {
                    closed = closed.max(upper);
                } else {
                    halves.extend([(a, middle), (middle, b)]);
                }
            }
            open = halves;
        }
        closed * (1.0 + MARGIN) + MARGIN
    }

    /// Returns Pr\[K = k\] for k ≥ 1, rounded up.
    pub(crate) fn probability(&self, k: u32) -> f64 {
        let probability = match self.terms.get(k as usize - 1) {
            Some(term) => term / f64::from(k) / self.scale,
            None => self.runs.probability(k),
        };
        probability * (1.0 + MARGIN)
    }

    /// Returns a bound on Pr\[K > m\], by the greatest ratio of the next probabilities.
    pub(crate) fn beyond(&self, m: u32) -> f64 {
        let next = f64::from(m) + 1.0;
        let ratio = match self.runs {
            Runs::Poisson { mean } => mean.get() / (next + 1.0),
            Runs::CappedNegativeBinomial { most, .. } if u32::from(most.get()) <= m => return 0.0,
            Runs::TruncatedNegativeBinomial { shape, stopping }
            | Runs::CappedNegativeBinomial { shape, stopping, .. } => {
                (1.0 - stopping.get()) * ((next + shape.get()) / (next + 1.0)).max(1.0)
            }
        };
        if ratio < 1.0 { (self.probability(m + 1) / (1.0 - ratio) * (1.0 + MARGIN)).min(1.0) } else { 1.0 }
    }
}

/// Upper bounds of a profile at 0, h, 2h, ..., in the direction of a selection, and of its reverse.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunProfiles<'a> {
    /// h in nats.
    pub(crate) step: f64,
    /// H_{Q‖Q'}, falling.
    pub(crate) there: &'a [f64],
    /// H_{Q'‖Q}, falling.
    pub(crate) back: &'a [f64],
}

impl RunProfiles<'_> {
    /// Returns the same with the directions exchanged.
    pub(crate) const fn reversed(self) -> Self {
        Self { step: self.step, there: self.back, back: self.there }
    }

    /// Returns an upper bound of H_{Q‖Q'}(ε) at any ε: the chord between points, and the reflection
    /// H_{Q‖Q'}(−ε) = 1 − e^{−ε} + e^{−ε} H_{Q'‖Q}(ε).
    pub(crate) fn there_at(self, epsilon: f64) -> f64 {
        if epsilon < 0.0 {
            return -expm1(epsilon) + exp(epsilon) * self.reversed().there_at(-epsilon);
        }
        let position = libm::floor(epsilon / self.step);
        let last = self.there.len() - 1;
        if position >= last as f64 {
            return self.there[last];
        }
        let part = expm1(epsilon - position * self.step) / expm1(self.step);
        let (left, right) = (self.there[position as usize], self.there[position as usize + 1]);
        (left + part.clamp(0.0, 1.0) * (right - left)) * (1.0 + MARGIN)
    }

    /// Returns G(t): an upper bound of t' at t, and at all lower t.
    pub(crate) fn most_above(self, t: f64) -> f64 {
        let of_back = |i: usize| exp(i as f64 * self.step) * t + self.back[i];
        let of_there = |i: usize| 1.0 - exp(-(i as f64) * self.step) * (1.0 - t - self.there[i]);
        let least = least_near(self.back.len(), of_back).min(least_near(self.there.len(), of_there));
        (least * (1.0 + MARGIN)).min(1.0)
    }
}

/// Returns a value of a function that falls and then rises, near its least one. Any value is a valid bound.
fn least_near(length: usize, value: impl Fn(usize) -> f64) -> f64 {
    let (mut low, mut high) = (0, length - 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if value(middle) <= value(middle + 1) { high = middle } else { low = middle + 1 }
    }
    value(low)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use std::num::NonZeroU16;

    use super::*;
    use crate::unit::{MeanRuns, RunShape, StoppingRate};

    fn all() -> Vec<Runs> {
        let stopping = StoppingRate::new(0.2).unwrap();
        let mut all = vec![Runs::Poisson { mean: MeanRuns::new(4.0).unwrap() }];
        for shape in [-0.5, 0.0, 1.0, 2.5].map(|shape| RunShape::new(shape).unwrap()) {
            all.push(Runs::TruncatedNegativeBinomial { shape, stopping });
            let most = NonZeroU16::new(12).unwrap();
            all.push(Runs::CappedNegativeBinomial { shape, stopping, most });
        }
        all
    }

    #[test]
    fn functions_of_runs_match_their_probabilities() {
        for runs in all() {
            let bound = SelectionBound::new(runs);
            let sum =
                |of: &dyn Fn(f64) -> f64| -> f64 { (1..600).map(|k| runs.probability(k) * of(f64::from(k))).sum() };
            for d in [1e-9f64, 0.01, 0.3, 0.9, 1.0] {
                let expected = sum(&|k| 1.0 - (1.0 - d).powf(k));
                let got = bound.hit(d);
                assert!(
                    (got / expected - 1.0).abs() < 1e-6 * (1.0 + 1e-9 / d) && got >= 1e-8 * d,
                    "{runs:?} {d}: {got} {expected}"
                );
                let slope = sum(&|k| k * (1.0 - d).powf(k - 1.0)) / runs.mean();
                let got = bound.ln_slope(d) - bound.ln_slope(0.0);
                assert!((got - slope.ln()).abs() < 1e-9, "{runs:?} {d}: {got} {slope}");
            }
            for m in [1, 5, 11, 12, 30] {
                let tail: f64 = (m + 1..900).map(|k| runs.probability(k)).sum();
                assert!(bound.beyond(m) >= tail * (1.0 - 1e-12), "{runs:?} {m}: {} {tail}", bound.beyond(m));
            }
        }
    }

    /// For ε-DP runs G is that of randomized response, and C of the negative binomial at most e^{(1+η)ε}.
    #[test]
    fn constant_is_the_supremum_over_the_trade_off_region() {
        let epsilon: f64 = 0.7;
        let region = |t: f64| (epsilon.exp() * t).min(1.0 - (-epsilon).exp() * (1.0 - t));
        for runs in all() {
            let bound = SelectionBound::new(runs);
            let got = bound.ln_ratio(region);
            let at = |i: u32| {
                let t = f64::from(i) / 100_000.0;
                bound.ln_slope(t) - bound.ln_slope(region(t))
            };
            let attained = (0..=100_000).map(at).fold(0.0, f64::max);
            assert!(got >= attained && got < 1.01 * attained, "{runs:?}: {got} {attained}");
            if let Runs::TruncatedNegativeBinomial { shape, .. } = runs {
                assert!(got <= (1.0 + shape.get()) * epsilon, "{runs:?}: {got}");
            }
        }
        assert!(SelectionBound::new(all()[1]).ln_ratio(|t| t) < 1e-3);
    }
}
