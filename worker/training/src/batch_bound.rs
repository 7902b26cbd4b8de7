//! Bounds the size of a Poisson batch, except with negligible probability.
//!
//! The number of units drawn in n trials with probability q each is Bin(n, q). By the Chernoff bound
//! P[X ≥ k] ≤ exp(−n·KL(k/n ‖ q)) for k > n·q (Hoeffding 1963, "Probability inequalities for sums of bounded random variables",
//! Theorem 1). [`max_batch_size`] is the least number that is exceeded with a probability of at most 2⁻⁵⁰ by this bound, and never
//! below ⌈nq + 6·√(nq(1−q))⌉ (`privacy.md`, 14.7) nor above n.

use undertone_privacy::SamplingRate;

/// ln 2⁵⁰: a batch exceeds [`max_batch_size`] with a probability of at most exp(−LN_RARE) = 8.9·10⁻¹⁶.
const LN_RARE: f64 = 50.0 * std::f64::consts::LN_2;

/// Returns the number of units that `trials` draws with `rate` exceed with a probability of at most 2⁻⁵⁰.
pub fn max_batch_size(trials: u64, rate: SamplingRate) -> u64 {
    let (n, q) = (trials as f64, rate.get());
    if trials == 0 || q >= 1.0 {
        return trials;
    }
    let usual = (n * q + 6.0 * (n * q * (1.0 - q)).sqrt()).ceil() as u64;
    // The least k above the mean with P[X ≥ k] ≤ 2⁻⁵⁰: the bound falls as k grows.
    let (mut low, mut high) = ((n * q).floor() as u64 + 1, trials + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_rare(middle, n, q) { high = middle } else { low = middle + 1 }
    }
    (low - 1).max(usual).min(trials)
}

/// Returns true if exp(−n·KL(k/n ‖ q)) ≤ 2⁻⁵⁰.
fn is_rare(k: u64, n: f64, q: f64) -> bool {
    let a = k as f64 / n;
    if a > 1.0 {
        return true;
    }
    let rest = if a < 1.0 { (1.0 - a) * ((1.0 - a) / (1.0 - q)).ln() } else { 0.0 };
    n * (a * (a / q).ln() + rest) >= LN_RARE
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "constants of a test are in range")]

    use undertone_privacy::SamplingRate;

    use super::max_batch_size;

    /// Returns P[Bin(n, q) > m], as the sum of its terms.
    fn tail(n: u64, q: f64, m: u64) -> f64 {
        let mut term = (n as f64 * (1.0 - q).ln()).exp();
        let mut sum = 0.0;
        for k in 0..=n {
            if k > m {
                sum += term;
            }
            term *= (n - k) as f64 / (k + 1) as f64 * q / (1.0 - q);
        }
        sum
    }

    #[test]
    fn batch_bound_fails_with_probability_below_2_to_the_minus_50() {
        for (n, q) in [(10, 0.5), (50, 0.125), (200, 0.05), (1_000, 0.01), (1_000, 0.3)] {
            let q = SamplingRate::new(q).unwrap();
            let most = max_batch_size(n, q);
            let usual = n as f64 * q.get() + 6.0 * (n as f64 * q.get() * (1.0 - q.get())).sqrt();
            assert!(tail(n, q.get(), most) <= 2_f64.powi(-50), "{n} {q:?} {most}");
            assert!(most <= n && (most == n || most as f64 >= usual), "{n} {q:?} {most}");
        }
    }

    #[test]
    fn batch_bound_never_exceeds_the_units() {
        let q = |q| SamplingRate::new(q).unwrap();
        assert_eq!(max_batch_size(0, q(0.5)), 0);
        assert_eq!(max_batch_size(48, SamplingRate::ONE), 48);
        // A batch of all ten units is not rare enough.
        assert_eq!(max_batch_size(10, q(0.125)), 10);
        assert_eq!(max_batch_size(100_000, q(0.01)), 1_273);
    }
}
