//! The three bounds. A value has n copies with the row and n − 1 without it; all other values are equal and
//! independent. X ~ Bin(n, β) copies are kept, f(j; n) = Pr[X = j], T_n(j) = Pr[X ≥ j], γ = 1 − (1−β)e^{−ε}.
//!
//! **The ratio.** f(j; n) / f(j; n−1) = n(1−β)/(n−j) exceeds e^ε exactly when j > γn. Where the row is there the loss
//! exceeds ε only on {j ≥ k, j > γn}; the published bound is the greatest mass of that set over n.
//!
//! **The exact value.** The hockey stick of the set {X ≥ j} is g_j(n) = T_n(j) − e^ε T_{n−1}(j), and
//! δ_n = max_{j≥k} g_j(n). Since T_n(j) − T_{n−1}(j) = β f(j−1; n−1),
//! g_j(n+1) − g_j(n) = β f(j−1; n−1) [n(1−β)/(n−j+1) − e^ε], which is positive exactly when n < (j−1)/γ: so g_j is greatest
//! at n = max(j, ⌈(j−1)/γ⌉). And conditioning on one of the other copies, g_{j+1}(n) = β g_j(n−1) + (1−β) g_{j+1}(n−1),
//! which is 0 for n ≤ j: by induction over n, g_{j+1} never exceeds max g_j. So sup_n δ_n = g_k(max(k, ⌈(k−1)/γ⌉)): one
//! evaluation, no search. It is summed as Σ_{j≥k} f(j; n) (j − γn)/(n(1−γ)), whose terms are positive there.
//!
//! **Where the row is missing** the loss exceeds ε only when the value fails to survive: h_k(n) = (1−T_{n−1}(k)) −
//! e^ε (1−T_n(k)). With κ = 1 − e^ε(1−β), h_k(n+1) > h_k(n) exactly when nκ < k−1. For κ ≤ 0 it rises to its limit 0 and
//! nothing is lost; else it is greatest at n = max(k, ⌈(k−1)/κ⌉), summed as Σ_{j<k} f(j; n) (nκ − j)/(n(1−β)).
//! When counts are shown, every ratio in this direction is at most 1/(1−β): hence the least ε.

use libm::{ceil, exp, expm1, log, log1p};

use crate::special::{UNIT, ln_binomial_pmf};

/// The sampling rate of rows, and the ε of the bounds.
pub(super) struct SampledRows {
    rate: f64,
    epsilon: f64,
    gamma: f64,
    /// 1 − γ, with all its digits.
    rest: f64,
}

/// Number of thresholds after which the search of the published bound stops and takes the bound on the rest.
const MOST_THRESHOLDS: u32 = 100_000;

/// Above this many copies differences of products with n lose their digits; weights are then replaced by their bound.
const MOST_COPIES: f64 = 1_073_741_824.0;

impl SampledRows {
    pub(super) fn new(rate: f64, epsilon: f64) -> Self {
        let ln_rest = log1p(-rate) - epsilon;
        Self { rate, epsilon, gamma: -expm1(ln_rest), rest: exp(ln_rest) }
    }

    /// Returns ln d(k, β, ε) = ln max_n Pr[X ≥ k, X > γn], rounded up.
    ///
    /// For a fixed threshold the tail grows with n, so of all n with threshold j only the largest, ⌈j/γ⌉ − 1, matters.
    /// All n' beyond it have at most e^{−n'K}, K = KL(γ‖β) (Chernoff). Once that is below the best value so far, no
    /// greater value follows. γ is rounded down a little, which only adds outcomes.
    pub(super) fn ln_published(&self, k: f64) -> f64 {
        let gamma = self.gamma * (1.0 - 8.0 * UNIT);
        let slope = self.chernoff();
        let (mut best, mut j) = (f64::NEG_INFINITY, k);
        for _ in 0..MOST_THRESHOLDS {
            let n = (ceil(j / gamma) - 1.0).max(j);
            best = best.max(self.ln_upper(n, j, |_| 1.0));
            let rest = -(n + 1.0) * slope;
            if rest <= best {
                return best;
            }
            j += 1.0;
        }
        best.max(-(ceil(j / gamma) - 1.0) * slope)
    }

    /// Returns true if k is the largest number of copies with threshold k, ⌈k/γ⌉ − 1 = k.
    pub(super) fn is_worst_of_its_threshold(&self, k: f64) -> bool {
        self.gamma * (1.0 - 8.0 * UNIT) * (k + 1.0) >= k
    }

    /// Returns true if g_k is greatest at n = k, (k−1)/γ ≤ k.
    pub(super) fn is_worst_removed(&self, k: f64) -> bool {
        self.gamma * (1.0 - 8.0 * UNIT) * k >= k - 1.0
    }

    /// Returns K = γ ln(γ/β) − (1−γ)ε, rounded down: Pr[X > γn] ≤ e^{−nK}.
    pub(super) fn chernoff(&self) -> f64 {
        let gain = self.gamma * log(self.gamma / self.rate);
        let loss = self.rest * self.epsilon;
        (gain - loss - 16.0 * UNIT * (gain.abs() + loss + self.gamma)).max(0.0)
    }

    /// Returns ln of the exact δ where the row is present, rounded up.
    pub(super) fn ln_removed(&self, k: f64) -> f64 {
        // The neighbours of the best n are as good where rounding could have missed it.
        let best = ceil((k - 1.0) / self.gamma);
        [best - 1.0, best, best + 1.0]
            .into_iter()
            .map(|n| self.ln_removed_of(n.max(k), k))
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the same for one number of copies. Rounding errors are added to every weight before negative ones are
    /// left out.
    pub(super) fn ln_removed_of(&self, n: f64, k: f64) -> f64 {
        let whole = n * self.rest;
        // j − γn in the form that cancels less.
        let direct = self.gamma < 0.5;
        let error = 8.0 * UNIT * if self.gamma < 0.5 { self.gamma * n } else { whole };
        let above = |j: f64| if direct { j - self.gamma * n } else { whole - (n - j) };
        self.ln_upper(n, k, |j| ((above(j) + error) / whole).clamp(0.0, 1.0))
    }

    /// Returns ln of the exact δ of the set of survivors where the row is absent, rounded up; −∞ when nothing is lost.
    pub(super) fn ln_added(&self, k: f64) -> f64 {
        let ln_rest = log1p(-self.rate);
        let kappa = -expm1(self.epsilon + ln_rest) + 8.0 * UNIT * (self.epsilon - ln_rest);
        if kappa <= 0.0 {
            return f64::NEG_INFINITY;
        }
        let best = ceil((k - 1.0) / kappa);
        let of = |n: f64| self.ln_added_of(n.max(k), k, kappa);
        [best - 1.0, best, best + 1.0].into_iter().map(of).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Returns the same for one number of copies.
    fn ln_added_of(&self, n: f64, k: f64, kappa: f64) -> f64 {
        let complement = 1.0 - self.rate;
        if n > MOST_COPIES {
            return self.ln_lower(n, k - 1.0, |_| kappa / complement);
        }
        let error = 8.0 * UNIT * n * kappa;
        self.ln_lower(n, k - 1.0, |j| ((n * kappa - j + error) / (n * complement)).max(0.0))
    }

    /// Returns ln Σ_{i≥from} f(i; n) w(i) for weights in [0, 1], rounded up: the first term, then ratios, which fall.
    pub(super) fn ln_upper(&self, n: f64, from: f64, weight: impl Fn(f64) -> f64) -> f64 {
        if from > n {
            return f64::NEG_INFINITY;
        }
        let odds = self.rate / (1.0 - self.rate);
        let ratio = |i: f64| (n - i) / (i + 1.0) * odds;
        let mut term = 1.0;
        let mut sum = weight(from);
        let mut i = from;
        while i < n {
            term *= ratio(i);
            i += 1.0;
            sum += term * weight(i);
            let next = ratio(i);
            if next < 1.0 && term * next <= NEGLIGIBLE * sum * (1.0 - next) {
                // Bounds all remaining terms.
                sum += term * next / (1.0 - next);
                break;
            }
        }
        self.ln_sum(n, from, sum, i - from)
    }

    /// Returns ln Σ_{i≤from} f(i; n) w(i) for weights ≥ 0 that grow toward 0, rounded up.
    pub(super) fn ln_lower(&self, n: f64, from: f64, weight: impl Fn(f64) -> f64) -> f64 {
        let odds = (1.0 - self.rate) / self.rate;
        let mut term = 1.0;
        let mut sum = weight(from);
        let mut i = from;
        let most = weight(0.0);
        while i > 0.0 {
            let ratio = i / (n - i + 1.0) * odds;
            if ratio < 1.0 && term * ratio * most <= NEGLIGIBLE * sum * (1.0 - ratio) {
                sum += term * ratio * most / (1.0 - ratio);
                break;
            }
            term *= ratio;
            i -= 1.0;
            sum += term * weight(i);
        }
        self.ln_sum(n, from, sum, from - i)
    }

    /// Returns ln f(j; n) and a bound on its error.
    pub(super) fn ln_mass(&self, n: f64, j: f64) -> (f64, f64) {
        ln_binomial_pmf(n, j, self.rate, 1.0 - self.rate)
    }

    /// Returns γ.
    pub(super) const fn gamma(&self) -> f64 {
        self.gamma
    }

    /// Returns ln of the first term times the sum of the others relative to it, rounded up; `terms` were added.
    fn ln_sum(&self, n: f64, first: f64, sum: f64, terms: f64) -> f64 {
        let (ln_first, error) = ln_binomial_pmf(n, first, self.rate, 1.0 - self.rate);
        ln_first + log(sum) + error + 4.0 * UNIT * (terms + 8.0)
    }
}

/// Greatest remainder of a sum, relative to it; it is added as a whole.
const NEGLIGIBLE: f64 = 1e-17;
