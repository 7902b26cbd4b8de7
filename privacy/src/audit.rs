//! Empirical lower bounds on ε from an attack on a finished model. Always rounded down.
//!
//! An audit never proves privacy. A lower bound above the claim disproves it: the account must be frozen and the
//! release blocked. Canaries are inserted or left out, and a left-out canary is one with an emptied contribution: an
//! audit tests add-remove and zero-out claims alike. At claims in the hundreds an audit has no power: r correct guesses
//! never show more than about ln(r / ln 20).

use libm::{exp, log};

use crate::gaussian::GaussianProfile;
use crate::special::{binomial_pmf, normal_quantile};
use crate::unit::{Delta, Epsilon};

/// Why counts do not describe an audit.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AuditError {
    /// A part is larger than its whole.
    #[error("{part} must be at most {whole}")]
    Counts {
        /// The name of the count that is too large.
        part: &'static str,
        /// The name of the count that bounds it.
        whole: &'static str,
    },
    /// A count that must be positive is 0.
    #[error("{0} must be at least 1")]
    Empty(&'static str),
    /// The confidence is outside (0, 1).
    #[error("confidence must be greater than 0 and less than 1, not {0}")]
    Confidence(f64),
}

fn check_part(part: u64, whole: u64, names: (&'static str, &'static str)) -> Result<(), AuditError> {
    if part > whole { Err(AuditError::Counts { part: names.0, whole: names.1 }) } else { Ok(()) }
}

fn doubt(confidence: f64) -> Result<f64, AuditError> {
    if confidence > 0.0 && confidence < 1.0 { Ok(1.0 - confidence) } else { Err(AuditError::Confidence(confidence)) }
}

/// An audit in one training run (Steinke, Nasr and Jagielski 2023): independent fair coins insert canaries or leave
/// them out, and an attack guesses the coins. The number of guesses is fixed before looking at the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OneRun {
    canaries: u64,
    guesses: u64,
    correct: u64,
}

impl OneRun {
    /// Makes an audit of m canaries with r guesses about them (the rest abstained), of which v are correct.
    ///
    /// # Errors
    /// [`AuditError::Counts`] unless v ≤ r ≤ m.
    pub fn new(canaries: u64, guesses: u64, correct: u64) -> Result<Self, AuditError> {
        check_part(guesses, canaries, ("guesses", "canaries"))?;
        check_part(correct, guesses, ("correct guesses", "guesses"))?;
        Ok(Self { canaries, guesses, correct })
    }

    /// Bounds the probability that an (ε, δ)-DP run allows this many correct guesses; rounded up. (Their Theorem 5.2
    /// and Appendix D: β + 2 m δ α.)
    pub fn p_value(self, epsilon: Epsilon, delta: Delta) -> f64 {
        let (r, v) = (self.guesses, self.correct);
        // A guess is right with probability at most q = 1/(1 + e^{−ε}).
        let q = 1.0 / (1.0 + exp(-epsilon.get()));
        let rest = 1.0 / (1.0 + exp(epsilon.get()));
        let beta = upper_tail(r, v, q, rest);
        let mut alpha = 0.0f64;
        if delta.get() > 0.0 {
            // α = max_i Pr[v − i ≤ Bin < v] / i; the masses below v by ratios, from v − 1 down.
            let (mut sum, mut mass) = (0.0, 0.0);
            for i in 1..=v {
                let k = (v - i) as f64;
                mass = if i == 1 {
                    binomial_pmf(r as f64, k, q, rest)
                } else {
                    mass * (k + 1.0) / (r as f64 - k) * rest / q
                };
                if mass == 0.0 && i > 1 && sum > 0.0 {
                    break;
                }
                sum += mass;
                alpha = alpha.max(sum / i as f64);
            }
        }
        let p = beta + 2.0 * self.canaries as f64 * delta.get() * alpha;
        (p * (1.0 + 1e-11)).min(1.0)
    }

    /// Returns the greatest ε that this audit disproves at this confidence, for a claim at δ; 0 if none.
    ///
    /// # Errors
    /// [`AuditError::Confidence`] unless the confidence is between 0 and 1.
    pub fn epsilon_lower(self, delta: Delta, confidence: f64) -> Result<f64, AuditError> {
        let doubt = doubt(confidence)?;
        let disproved = |epsilon: f64| Epsilon::new(epsilon).is_ok_and(|epsilon| self.p_value(epsilon, delta) < doubt);
        if !disproved(0.0) {
            return Ok(0.0);
        }
        let (mut low, mut high) = (0.0, 1.0);
        while disproved(high) {
            (low, high) = (high, 2.0 * high);
        }
        while high - low > 1e-10 * high.max(1e-3) {
            let middle = 0.5 * (low + high);
            if disproved(middle) { low = middle } else { high = middle }
        }
        Ok(low)
    }
}

/// The confidence of the lower bound that reports show next to a claim.
pub const SHOWN: f64 = 0.95;

/// The confidence of the lower bound that blocks a release. An honest run is blocked with probability at most one in a
/// thousand, for any data and any number of canaries; since the claim is itself an upper bound, the true probability
/// may be smaller still. A broken mechanism gains ln(ln 1000 / ln 20) = 0.84 of the bound by this choice.
pub const BLOCKING: f64 = 0.999;

/// Returns the greatest ε that several one-run audits of the same run disprove together: the best of them, with the
/// error probability divided among all (a union bound; the canaries of each are independent of everything else in the
/// run). 0 if none.
///
/// # Errors
/// [`AuditError::Confidence`] unless the confidence is between 0 and 1.
pub fn epsilon_lower_of_all(audits: &[OneRun], delta: Delta, confidence: f64) -> Result<f64, AuditError> {
    let shared = 1.0 - doubt(confidence)? / audits.len().max(1) as f64;
    audits.iter().try_fold(0.0f64, |best, audit| Ok(best.max(audit.epsilon_lower(delta, shared)?)))
}

/// A membership-inference attack at one threshold, fixed on separate data before these counts were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    true_positives: u64,
    members: u64,
    false_positives: u64,
    nonmembers: u64,
}

/// The bounds of a membership attack, simultaneously valid at the requested confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MembershipBound {
    /// The true-positive rate is at least this.
    pub tpr_lower: f64,
    /// The false-positive rate is at most this.
    pub fpr_upper: f64,
    /// ε is at least this.
    pub epsilon_lower: f64,
    /// If the mechanism is a Gaussian, its μ is at least this.
    pub mu_lower: f64,
    /// If the mechanism is a Gaussian, ε at δ is at least this; 0 for δ = 0, where no Gaussian has one.
    pub epsilon_lower_if_gaussian: f64,
}

impl Membership {
    /// Makes an attack from its positive answers among so many members and so many non-members.
    ///
    /// # Errors
    /// [`AuditError`] when a count exceeds its total, or a total is 0.
    pub fn new(true_positives: u64, members: u64, false_positives: u64, nonmembers: u64) -> Result<Self, AuditError> {
        if members == 0 {
            return Err(AuditError::Empty("members"));
        }
        if nonmembers == 0 {
            return Err(AuditError::Empty("nonmembers"));
        }
        check_part(true_positives, members, ("true positives", "members"))?;
        check_part(false_positives, nonmembers, ("false positives", "nonmembers"))?;
        Ok(Self { true_positives, members, false_positives, nonmembers })
    }

    /// Returns lower bounds for a claim at δ: Clopper-Pearson for both rates, each with half of the error probability.
    ///
    /// # Errors
    /// [`AuditError::Confidence`] unless the confidence is between 0 and 1.
    pub fn bound(self, delta: Delta, confidence: f64) -> Result<MembershipBound, AuditError> {
        let half = 0.5 * doubt(confidence)?;
        let (tpr, _) = clopper_pearson(self.true_positives, self.members, half);
        let (_, fpr) = clopper_pearson(self.false_positives, self.nonmembers, half);
        let ln_ratio = |above: f64, below: f64| if above > 0.0 { log(above / below) } else { 0.0 };
        let there = ln_ratio(tpr - delta.get(), fpr);
        let back = ln_ratio(1.0 - fpr - delta.get(), 1.0 - tpr);
        // Rates strictly inside (0, 1) have quantiles.
        let inside = tpr > 0.0 && fpr < 1.0;
        let mu = if inside { (normal_quantile(tpr) - normal_quantile(fpr)).max(0.0) * DOWN } else { 0.0 };
        let gaussian = GaussianProfile::of_mu(mu).epsilon(delta).map_or(0.0, Epsilon::get);
        Ok(MembershipBound {
            tpr_lower: tpr,
            fpr_upper: fpr,
            epsilon_lower: there.max(back).max(0.0) * DOWN,
            mu_lower: mu,
            epsilon_lower_if_gaussian: gaussian * DOWN,
        })
    }
}

/// Covers the rounding of a lower bound.
const DOWN: f64 = 1.0 - 1e-10;

/// Returns one-sided Clopper-Pearson bounds on a rate with k successes in n trials, each wrong with probability at most
/// `doubt`: (lower, rounded down; upper, rounded up). For n ≥ 1 and k ≤ n.
pub fn clopper_pearson(k: u64, n: u64, doubt: f64) -> (f64, f64) {
    // The upper bound is the lower bound on the other outcome.
    (rate_lower(k, n, doubt), 1.0 - rate_lower(n - k.min(n), n, doubt))
}

/// Returns the greatest rate p (within 1e-13) for which k or more successes in n trials are no likelier than `doubt`.
fn rate_lower(k: u64, n: u64, doubt: f64) -> f64 {
    if k == 0 {
        return 0.0;
    }
    if k >= n {
        return exp(log(doubt) / n as f64).next_down();
    }
    let (mut low, mut high) = (0.0, k as f64 / n as f64);
    while high - low > 1e-13 * high {
        let middle = 0.5 * (low + high);
        if upper_tail(n, k, middle, 1.0 - middle) <= doubt { low = middle } else { high = middle }
    }
    low
}

/// Returns Pr[Bin(n, p) ≥ k], given p and 1 − p; relative error about 1e-12.
fn upper_tail(n: u64, k: u64, p: f64, rest: f64) -> f64 {
    let size = n as f64;
    if k == 0 {
        return 1.0;
    }
    if (k as f64) <= size * p {
        // Below the mean the other tail is the smaller one.
        return 1.0 - far_tail(size, (n - k) as f64 + 1.0, rest, p);
    }
    far_tail(size, k as f64, p, rest)
}

/// Returns Pr[Bin(n, p) ≥ k] for k above the mean: the first mass and its falling ratios.
fn far_tail(n: f64, k: f64, p: f64, rest: f64) -> f64 {
    let mut mass = binomial_pmf(n, k, p, rest);
    let mut j = k;
    let mut sum = mass;
    while j < n && mass > 1e-18 * sum {
        mass *= (n - j) / (j + 1.0) * p / rest;
        sum += mass;
        j += 1.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bound_rises_with_correct_guesses(r in 1u64..400, v in 0u64..400, ln_delta in -20.0f64..-3.0) {
            let v = v % r;
            let delta = Delta::new(exp(ln_delta)).unwrap();
            let at = |v| OneRun::new(2 * r, r, v).unwrap().epsilon_lower(delta, 0.95).unwrap();
            prop_assert!(at(v) <= at(v + 1));
            let pure = OneRun::new(2 * r, r, v).unwrap().epsilon_lower(Delta::new(0.0).unwrap(), 0.95).unwrap();
            prop_assert!(at(v) <= pure);
        }

        #[test]
        fn p_value_rises_with_claim(r in 1u64..300, v in 0u64..300, a in 0.0f64..6.0, b in 0.0f64..6.0) {
            let audit = OneRun::new(r, r, v % (r + 1)).unwrap();
            let p = |epsilon| audit.p_value(Epsilon::new(epsilon).unwrap(), Delta::new(0.0).unwrap());
            prop_assert!(p(a.min(b)) <= p(a.max(b)) * (1.0 + 1e-9));
        }

        #[test]
        fn rate_lies_between_its_bounds(n in 1u64..2000, k in 0u64..2000, doubt in 0.001f64..0.3) {
            let k = k % (n + 1);
            let (lower, upper) = clopper_pearson(k, n, doubt);
            let rate = k as f64 / n as f64;
            prop_assert!(0.0 <= lower && lower <= rate && rate <= upper && upper <= 1.0);
        }
    }

    #[test]
    fn perfect_guessing_saturates() {
        let zero = Delta::new(0.0).unwrap();
        let bound = OneRun::new(100, 100, 100).unwrap().epsilon_lower(zero, 0.95).unwrap();
        // All of r right has probability q^r, so q = 0.05^{1/r} exactly.
        let q = exp(log(0.05) / 100.0);
        assert!((bound - log(q / (1.0 - q))).abs() < 1e-8);
    }

    #[test]
    fn random_guessing_gives_zero_bound() {
        let delta = Delta::new(1e-5).unwrap();
        assert_eq!(OneRun::new(1000, 1000, 500).unwrap().epsilon_lower(delta, 0.95), Ok(0.0));
        assert_eq!(OneRun::new(10, 0, 0).unwrap().epsilon_lower(delta, 0.95), Ok(0.0));
        let bound = Membership::new(50, 100, 50, 100).unwrap().bound(delta, 0.95).unwrap();
        assert_eq!((bound.epsilon_lower, bound.mu_lower, bound.epsilon_lower_if_gaussian), (0.0, 0.0, 0.0));
    }

    #[test]
    fn several_audits_share_error_probability() {
        let delta = Delta::new(0.0).unwrap();
        let good = OneRun::new(100, 100, 95).unwrap();
        let bad = OneRun::new(100, 100, 50).unwrap();
        let alone = epsilon_lower_of_all(&[good], delta, SHOWN).unwrap();
        let same = |a: f64, b: f64| assert_eq!(a.to_bits(), b.to_bits());
        same(alone, good.epsilon_lower(delta, SHOWN).unwrap());
        let both = epsilon_lower_of_all(&[bad, good], delta, SHOWN).unwrap();
        same(both, good.epsilon_lower(delta, 1.0 - 0.5 * (1.0 - SHOWN)).unwrap());
        assert!(both < alone && both > 0.0);
        assert_eq!(epsilon_lower_of_all(&[], delta, SHOWN), Ok(0.0));
    }

    #[test]
    fn impossible_audit_counts_are_refused() {
        assert!(OneRun::new(10, 11, 0).is_err());
        assert!(OneRun::new(10, 5, 6).is_err());
        assert!(Membership::new(2, 1, 0, 1).is_err());
        assert!(Membership::new(0, 0, 0, 1).is_err());
        let delta = Delta::new(0.0).unwrap();
        assert!(OneRun::new(1, 1, 1).unwrap().epsilon_lower(delta, 1.0).is_err());
        assert!(Membership::new(1, 1, 0, 1).unwrap().bound(delta, f64::NAN).is_err());
    }
}
