//! The exact Rényi loss of one text, released by sampling and a threshold.
//!
//! A text has n copies with the row and n − 1 without it. P is the output with the row, Q without it; f(j; n), T_n = Pr\[Bin(n,
//! β) ≥ k\] and γ are as in `bound.rs`, and E = e^ε. The side mass s is δ at ε, as [`super::delta`] charges it: at least the
//! hockey stick of every n, in both directions that the bound covers, and at least β^k.
//!
//! # One decomposition for every order
//!
//! A side mass is sound for several orders at once only if all orders use one decomposition P = (1−s)P' + sP'', Q = (1−s)Q' +
//! sQ'' (with one for each order, the disjunction lemma would charge s once for each). The loss of order α is then sup over
//! n of D_α(P'‖Q') and D_α(Q'‖P').
//!
//! **The set of survivors.** P = Bern(p), Q = Bern(q), p = T_n, q = T_{n−1}, b = p − q = β f(k−1; n−1). If b ≤ s, P and Q share
//! 1 − s of their mass and nothing is lost; that covers n = k, where q = 0 and b = β^k. Else P'' is "shown" and Q'' is "not
//! shown": P' = Bern((p−s)/(1−s)), Q' = Bern(q/(1−s)). Since p − Eq ≤ s and (1−q) − E(1−p) ≤ s, both ratios of P' and Q' are at
//! most E, so the loss is also at most that of a pure ε. The interval \[q', p'\] lies within \[q, p\], so it is at most the
//! loss without a side mass, too.
//!
//! **With counts**, the outcomes are ⊥ and j ≥ k, with ratio ρ_j = f(j; n)/f(j; n−1) = n(1−β)/(n−j). Let δ_n be the mass of (P −
//! EQ)⁺, P' = min(P, EQ)/(1−δ_n) and Q' = Q. As δ_n ≤ s, P'' exists. With ρ̃ = min(ρ, E) and h(x) = x^α − 1 − α(x−1),
//! Σ q ρ̃ = 1 − δ_n, hence Σ q ρ̃^α ≤ 1 + Σ q h(ρ̃) and
//!
//! * D_α(P'‖Q') ≤ \[ln(1 + Σ q h(ρ̃)) − α ln(1−s)\]/(α−1),
//! * D_α(Q'‖P') ≤ ln(1 + R)/(α−1), R = Σ q ρ̃ h(1/ρ̃), because Σ q ρ̃^{1−α} = 1 + R + (α−1)δ_n, and (α−1) ln(1−δ_n) + ln(1 + R +
//!   (α−1)δ_n) falls with δ_n.
//!
//! Reverse ratios are at most 1/(1−β) ≤ E, so P' and Q' are a pair of pure loss ε − ln(1−s).
//!
//! # The greatest over all n
//!
//! Finitely many evaluations bound every n, by intervals \[a, c\] (`search.rs`). D_α(Bern(q(1+t))‖Bern(q)) rises with t, and with q
//! at fixed t: keeping "shown" with probability q̂/q maps the pair of q to that of q̂ < q. And b/T_{n−1} falls with n, while
//! b/(1−T_n) rises to its limit β/(1−β): term by term, f(j; n−1)/f(k−1; n−1) rises with n for j ≥ k, and f(j; n)/f(k−1; n−1) falls
//! for j < k. So the ends of an interval give the greatest t and the greatest q of each direction.
//!
//! With counts, f(j; n−1) is greatest at n − 1 = ⌊j/β⌋, h is greatest at an end of the interval of ratios, and ρ_j falls with n.
//! For all n ≥ a ≥ k/γ: thresholding is post-processing of the full counts, and so is adding a row, Bin(n+1) = Bin(n) +
//! Bern(β). So the full counts at a, whose (P − EQ)⁺ lies on j > γa ≥ k and has mass δ_a ≤ s, bound all that follow.
//!
//! A unit with m different texts changes m counts, which are independent: losses and side masses add over them, and the
//! product of m pure pairs is a pure pair of m times the loss.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use libm::{exp, expm1, floor, log, log1p};

use super::Shown;
use super::bound::SampledRows;
use super::search::{CopiesInterval, greatest_over_copies};
use crate::special::log_add;

/// Covers the relative error of every evaluation here.
const COVER: f64 = 1.0 + 1e-9;

/// The release of one text, with the δ at ε that is charged apart.
pub(crate) struct TextRelease {
    rows: SampledRows,
    shows_counts: bool,
    rate: f64,
    copies: f64,
    ratio: f64,
    side: f64,
    /// By numbers of copies and by intervals, as bits: the orders of a curve need the same ones.
    tails: RefCell<BTreeMap<u64, CopiesTail>>,
    outcomes: RefCell<BTreeMap<(u64, u64), IntervalOutcomes>>,
}

/// The probabilities of one number of copies n, each rounded up.
#[derive(Debug, Clone, Copy)]
struct CopiesTail {
    /// T_n.
    shown: f64,
    /// 1 − T_n.
    hidden: f64,
    /// β f(k−1; n−1).
    pivot: f64,
}

/// One outcome of the release with counts on an interval: a bound of its probability without the row, and the least and the
/// greatest ratio.
#[derive(Debug, Clone, Copy)]
struct CountOutcome {
    mass: f64,
    ratios: (f64, f64),
}

/// The outcomes of the release with counts on one interval.
type IntervalOutcomes = Rc<Vec<CountOutcome>>;

/// Above this threshold the sums over counts take seconds; the pure loss is charged.
const MOST_THRESHOLD_WITH_COUNTS: f64 = 2000.0;

impl TextRelease {
    /// Makes the release of texts that occur at least `k` times among rows kept with probability `rate`; `side` is
    /// [`super::delta`] at ε.
    pub(crate) fn new(shown: Shown, k: u32, rate: f64, epsilon: f64, side: f64) -> Self {
        let rows = SampledRows::new(rate, epsilon);
        Self {
            rows,
            shows_counts: shown.shows_counts(),
            rate,
            copies: f64::from(k),
            ratio: exp(epsilon),
            side,
            tails: RefCell::default(),
            outcomes: RefCell::default(),
        }
    }

    /// Returns the pure loss of the pairs (P', Q') as ε plus this.
    pub(crate) fn pure_excess(&self) -> f64 {
        if self.shows_counts { -log1p(-self.side) * COVER } else { 0.0 }
    }

    /// Returns an upper bound of the Rényi loss at an order, in nats; infinite where it is not computed. The search exceeds the
    /// greatest bound of one n by at most a part in five hundred, with counts in a hundred.
    pub(crate) fn loss(&self, order: f64) -> f64 {
        if self.shows_counts && self.copies > MOST_THRESHOLD_WITH_COUNTS {
            return f64::INFINITY;
        }
        let first = self.copies + 1.0;
        if self.shows_counts {
            greatest_over_copies(first, 1e-2, |interval| self.counts(interval, order) * COVER)
        } else {
            greatest_over_copies(first, 2e-3, |interval| self.set(interval, order) * COVER)
        }
    }

    /// Returns the probabilities at n copies.
    fn tail(&self, n: f64) -> CopiesTail {
        *self.tails.borrow_mut().entry(n.to_bits()).or_insert_with(|| self.compute_tail(n))
    }

    fn compute_tail(&self, n: f64) -> CopiesTail {
        if n < self.copies {
            return CopiesTail { shown: 0.0, hidden: 1.0, pivot: 0.0 };
        }
        let (ln, error) = self.rows.ln_mass(n - 1.0, self.copies - 1.0);
        let pivot = self.rate * exp(ln + error) * COVER;
        // The sum over the shorter side; the other is its complement.
        if n * self.rate < self.copies {
            let shown = exp(self.rows.ln_upper(n, self.copies, |_| 1.0)).min(1.0);
            CopiesTail { shown, hidden: 1.0 - shown * (1.0 - 1e-9), pivot }
        } else {
            let hidden = exp(self.rows.ln_lower(n, self.copies - 1.0, |_| 1.0)).min(1.0);
            CopiesTail { shown: 1.0 - hidden * (1.0 - 1e-9), hidden, pivot }
        }
    }

    /// Bounds β f(k−1; n−1)/(1 − T_n) for all n up to this; without one, for all n.
    fn removed_ratio(&self, last: Option<f64>) -> f64 {
        let limit = self.rate / (1.0 - self.rate) * COVER;
        let ratio = last.map(|last| self.tail(last)).map(|at| at.pivot / (at.hidden * (1.0 - 2e-9)));
        // 1 − T falls below every number; the limit of the ratio bounds it from there.
        ratio.map_or(limit, |ratio| ratio.min(limit))
    }

    /// Bounds the loss of the set of survivors for n in an interval.
    fn set(&self, interval: CopiesInterval, order: f64) -> f64 {
        let CopiesInterval { first, last } = interval;
        let kept = 1.0 - self.side;
        let before = self.tail(first - 1.0);
        let at = self.tail(first);
        let most_shown = last.map_or(1.0, |last| self.tail(last - 1.0).shown);
        let added = at.pivot / (before.shown * (1.0 - 2e-9)) - self.side / most_shown;
        let removed = self.removed_ratio(last) - self.side / at.hidden;
        bernoulli(added, most_shown / kept, order).max(bernoulli(removed, at.hidden / kept, order))
    }

    /// Bounds the loss with counts for n in an interval.
    fn counts(&self, interval: CopiesInterval, order: f64) -> f64 {
        let last = interval.last.unwrap_or(interval.first);
        if interval.last.is_none() && interval.first * self.rows.gamma() * (1.0 - 1e-9) < self.copies {
            // The full counts bound all that follow only where their greatest losses are above the threshold.
            return f64::INFINITY;
        }
        let key = (interval.first.to_bits(), interval.last.map_or(0, f64::to_bits));
        let known = self.outcomes.borrow().get(&key).cloned();
        let outcomes = known.unwrap_or_else(|| {
            let outcomes = Rc::new(self.outcomes(interval, last));
            self.outcomes.borrow_mut().insert(key, Rc::clone(&outcomes));
            outcomes
        });
        let (mut forward, mut back) = (0.0, 0.0);
        for CountOutcome { mass, ratios: (low, high) } in outcomes.iter() {
            // h falls to 0 at a ratio of 1 and rises beyond; so does ρ h(1/ρ). One end decides unless 1 lies between.
            let [mut there, mut from] = [0.0f64; 2];
            for ratio in [(*high > 1.0).then_some(*high), (*low < 1.0).then_some(*low)].into_iter().flatten() {
                there = there.max(rise(ratio - 1.0, order));
                from = from.max(ratio * rise((1.0 - ratio) / ratio, order));
            }
            forward += mass * there;
            back += mass * from;
        }
        let forward = log1p(forward) - order * log1p(-self.side);
        forward.max(log1p(back)) / (order - 1.0)
    }

    /// Lists the outcomes on an interval: ⊥ and the counts from the threshold; without a last n, all counts at the first.
    fn outcomes(&self, interval: CopiesInterval, last: f64) -> Vec<CountOutcome> {
        let first = interval.first;
        let ratio = |n: f64, j: f64| if j < n { (n / (n - j) * (1.0 - self.rate)).min(self.ratio) } else { self.ratio };
        let mut outcomes = Vec::new();
        let mut j = 0.0;
        if interval.last.is_some() {
            let mass = self.tail(first - 1.0).hidden;
            outcomes.push(CountOutcome { mass, ratios: (1.0 / (1.0 + self.removed_ratio(Some(last))), 1.0) });
            j = self.copies;
        }
        let mut total = 0.0;
        while j < last {
            let n = (floor(j / self.rate) + 1.0).clamp(first.max(j + 1.0), last);
            let (ln, error) = self.rows.ln_mass(n - 1.0, j);
            let mass = exp(ln + error);
            outcomes.push(CountOutcome { mass, ratios: (ratio(last, j), ratio(first, j)) });
            total += mass;
            let fall = (last - 1.0 - j) / (j + 1.0) * self.rate / (1.0 - self.rate);
            if j > self.rate * last && fall < 1.0 && mass * fall <= 1e-25 * total * (1.0 - fall) {
                // All further counts.
                outcomes.push(CountOutcome { mass: mass * fall / (1.0 - fall), ratios: (ratio(last, j), self.ratio) });
                break;
            }
            j += 1.0;
        }
        outcomes
    }
}

/// Returns h(1 + t) = (1+t)^α − 1 − αt for t ≥ −1, rounded up; relative error below 1e-9.
fn rise(t: f64, order: f64) -> f64 {
    if t.abs() * order.max(1.0) >= 0.25 {
        return ((if t > -1.0 { expm1(order * log1p(t)) } else { -1.0 }) - order * t).max(0.0);
    }
    // The binomial series; its terms fall at least by the factor |t| max(α, 1).
    let mut term = 0.5 * order * (order - 1.0) * t * t;
    let mut sum = term;
    for m in 3..60 {
        let m = f64::from(m);
        term *= (order - m + 1.0) / m * t;
        sum += term;
        if term.abs() <= 1e-17 * sum {
            break;
        }
    }
    sum.max(0.0)
}

/// Returns D_α(Bern(q(1+t))‖Bern(q)), rounded up; its greatest value at this t, ln(1 + t), where q is too large for it.
fn bernoulli(t: f64, q: f64, order: f64) -> f64 {
    if t <= 0.0 || q <= 0.0 {
        return 0.0;
    }
    if q * (1.0 + t) >= 1.0 {
        return log1p(t);
    }
    let ln_power = order * log1p(t);
    if ln_power > 600.0 {
        return (log_add(0.0, log(q) + ln_power) / (order - 1.0)).min(log1p(t));
    }
    let sum = q * rise(t, order) + (1.0 - q) * rise(-q * t / (1.0 - q), order);
    (log1p(sum) / (order - 1.0)).min(log1p(t))
}
