//! Special functions, on `libm` only, so that browser, worker and server agree bit for bit.
//!
//! Nothing here may call a transcendental function of the standard library: those differ between platforms.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, PI};

use libm::{erfc, exp, expm1, lgamma, log, log1p};

/// 2⁻⁵³, the relative error of one rounded operation.
pub(crate) const UNIT: f64 = f64::EPSILON / 2.0;

/// Returns ln(eᵃ + eᵇ).
pub fn log_add(a: f64, b: f64) -> f64 {
    let (low, high) = if a < b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY || high == f64::INFINITY { high } else { high + log1p(exp(low - high)) }
}

/// Returns ln(eˣ − 1) for x ≥ 0; −∞ at 0. Never overflows.
pub fn ln_expm1(x: f64) -> f64 {
    if x < 1.0 { log(expm1(x)) } else { x + log1p(-exp(-x)) }
}

/// Returns ln(1 + eˣ), never overflows.
pub fn softplus(x: f64) -> f64 {
    if x > 0.0 { x + log1p(exp(-x)) } else { log1p(exp(x)) }
}

/// Returns ln Γ(x) for x > 0.
pub fn ln_gamma(x: f64) -> f64 {
    lgamma(x)
}

/// Returns ln of the binomial coefficient n over k, for 0 ≤ k ≤ n.
pub fn ln_binomial(n: f64, k: f64) -> f64 {
    lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0)
}

/// Returns the scaled complementary error function e^{t²} erfc(t), for t ≥ −5; relative error below 1e-15.
/// (`privacy` specification section 0: double-double square below 25, asymptotic series above.)
pub fn erfcx(t: f64) -> f64 {
    if t >= 25.0 {
        let s = 1.0 / (t * t);
        return (1.0 - s * erfcx_deficit(s)) / (t * PI.sqrt());
    }
    let square = t * t;
    // The rounding error of the square, exactly: its exponential would otherwise lose |t²| ulps.
    let rest = libm::fma(t, t, -square);
    exp(square) * erfc(t) * (1.0 + rest)
}

/// Returns (1 − t√π erfcx(t)) / s at s = 1/t² ≤ 1/625, by its asymptotic series 1/2 − 3s/4 + 15s²/8 − …; the first
/// omitted term is below 1e-17 of the first.
pub(crate) fn erfcx_deficit(s: f64) -> f64 {
    0.5 - s * (0.75 - s * (1.875 - s * (6.5625 - s * (29.531_25 - s * (162.421_875 - s * 1_055.742_187_5)))))
}

/// Returns erfcx(x) − erfcx(x + width) for x ≥ −5 and a width below 0.25: the integral of −erfcx′ by five-point
/// Gauss-Legendre, because the difference itself would cancel.
pub(crate) fn erfcx_fall(x: f64, width: f64) -> f64 {
    const NODES: [(f64, f64); 5] = [
        (0.0, 0.568_888_888_888_888_9),
        (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
        (-0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
        (0.906_179_845_938_664, 0.236_926_885_056_189_08),
        (-0.906_179_845_938_664, 0.236_926_885_056_189_08),
    ];
    let half = 0.5 * width;
    NODES.iter().map(|(node, weight)| weight * erfcx_slope(x + half * (1.0 + node))).sum::<f64>() * half
}

/// Returns −erfcx′(s) = 2/√π − 2 s erfcx(s), positive.
fn erfcx_slope(s: f64) -> f64 {
    if s < 25.0 {
        return FRAC_2_SQRT_PI - 2.0 * s * erfcx(s);
    }
    let u = 1.0 / (s * s);
    FRAC_2_SQRT_PI * u * erfcx_deficit(u)
}

/// Returns ln erfc(t), for every t; no underflow.
pub fn ln_erfc(t: f64) -> f64 {
    if t < 1.0 { log(erfc(t)) } else { log(erfcx(t)) - t * t }
}

/// Returns Φc(x) = Pr[N(0,1) > x].
pub fn normal_tail(x: f64) -> f64 {
    0.5 * erfc(x * FRAC_1_SQRT_2)
}

/// Returns the x at which Φ(x) = p, for p in (0, 1); relative error about 1e-15 of the nearer tail.
pub fn normal_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    // Newton on ln Φc, which is concave: from the right of the root it descends to it.
    let ln_p = log(p);
    let mut x = (-2.0 * ln_p).sqrt();
    for _ in 0..60 {
        let t = x * FRAC_1_SQRT_2;
        let next = x + (ln_erfc(t) - LN_2 - ln_p) * (0.5 * PI).sqrt() * erfcx(t);
        if (next - x).abs() <= 4.0 * UNIT * x.abs() {
            break;
        }
        x = next;
    }
    -x
}

/// Returns Pr[Bin(n, p) = k] given p and 1 − p, by the saddle-point form of Loader (2000); relative error about 1e-14.
pub fn binomial_pmf(n: f64, k: f64, p: f64, rest: f64) -> f64 {
    if p == 0.0 || rest == 0.0 {
        // All mass is at one end.
        let certain = if p == 0.0 { k <= 0.0 } else { k >= n };
        return if certain { 1.0 } else { 0.0 };
    }
    if k <= 0.0 {
        return exp(n * if rest > 0.5 { log1p(-p) } else { log(rest) });
    }
    if k >= n {
        return exp(n * if p > 0.5 { log1p(-rest) } else { log(p) });
    }
    let exponent = stirling_error(n) - stirling_error(k) - stirling_error(n - k);
    exp(exponent - deviance(k, n * p) - deviance(n - k, n * rest)) / (2.0 * PI * k * (n - k) / n).sqrt()
}

/// Returns ln Pr[Bin(n, p) = k], for 0 < p < 1 and whole 0 ≤ k ≤ n, and a bound on its error.
pub(crate) fn ln_binomial_pmf(n: f64, k: f64, p: f64, rest: f64) -> (f64, f64) {
    if k <= 0.0 || k >= n {
        let ln = if k <= 0.0 { n * log1p(-p) } else { n * log(p) };
        return (ln, 8.0 * UNIT * ln.abs());
    }
    let exponent = stirling_error(n) - stirling_error(k) - stirling_error(n - k);
    let (mean, others) = (n * p, n * rest);
    let distance = deviance(k, mean) + deviance(n - k, others);
    let ln = exponent - distance - 0.5 * log(2.0 * PI * k * (n - k) / n);
    // The rounding of the means moves the deviances by their distance from k and n − k.
    let moved = (k - mean).abs() + (n - k - others).abs();
    (ln, 8.0 * UNIT * (ln.abs() + distance + moved + 32.0))
}

/// Returns ln n! − ln(√(2πn) (n/e)ⁿ).
fn stirling_error(n: f64) -> f64 {
    if n < 16.0 {
        return lgamma(n + 1.0) - (n + 0.5) * log(n) + n - 0.5 * log(2.0 * PI);
    }
    let s = 1.0 / (n * n);
    (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))) / n
}

/// Returns x ln(x/m) + m − x, without cancellation near x = m.
fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() >= 0.1 * (x + m) {
        return x * log(x / m) + m - x;
    }
    // ln(x/m) = 2 atanh(v): the series in v² of the remainder.
    let v = (x - m) / (x + m);
    let mut term = 2.0 * x * v;
    let mut sum = (x - m) * v;
    for j in 1..1000 {
        term *= v * v;
        let next = sum + term / f64::from(2 * j + 1);
        if next.to_bits() == sum.to_bits() {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    #![expect(clippy::float_cmp, reason = "these edges are exact")]
    use super::*;

    fn close(a: f64, b: f64, tolerance: f64) -> bool {
        (a - b).abs() <= tolerance * b.abs()
    }

    #[test]
    fn erfcx_matches_known_digits_around_its_switch() {
        // mpmath, 25 digits.
        for (t, value) in [
            (-5.0, 144_009_798_674.661_04),
            (0.0, 1.0),
            (0.5, 0.615_690_344_192_925_9),
            (3.0, 0.179_001_151_181_389_95),
            (24.999, 0.022_550_473_014_042_084),
            (25.0, 0.022_549_572_432_641_36),
            (1e3, 5.641_893_014_533_877e-4),
        ] {
            assert!(close(erfcx(t), value, 4e-15), "{t}: {:e}", erfcx(t));
        }
    }

    /// Returns ln(eᵃ − eᵇ) for a ≥ b; −∞ at a = b, NaN for a < b (Mächler 2012: the form that keeps its digits depends on
    /// ln 2).
    fn log_sub(a: f64, b: f64) -> f64 {
        let x = b - a;
        if b == f64::NEG_INFINITY {
            a
        } else if a < b {
            f64::NAN
        } else {
            a + if x > -LN_2 { log(-expm1(x)) } else { log1p(-exp(x)) }
        }
    }

    #[test]
    fn log_add_and_log_sub_are_inverse() {
        for (a, b) in [(0.0, -40.0), (700.0, 699.0), (-1e3, -1e3 - 1e-3), (2.0, f64::NEG_INFINITY)] {
            assert!(close(log_sub(log_add(a, b), b), a, 1e-12) || a == 0.0, "{a} {b}");
        }
        assert_eq!(log_sub(1.0, 1.0), f64::NEG_INFINITY);
        assert!(log_sub(0.0, 1.0).is_nan());
    }

    #[test]
    fn ln_expm1_and_ln_erfc_keep_digits_at_extremes() {
        assert!(close(ln_expm1(1e-20), log(1e-20), 1e-15));
        assert!(close(ln_expm1(1e6), 1e6, 1e-15));
        assert!(close(ln_erfc(1.0), -1.849_605_509_933_248_2, 1e-14), "{}", ln_erfc(1.0));
        assert!(close(ln_erfc(100.0), -10_005.177_585_122_664, 1e-13), "{}", ln_erfc(100.0));
    }

    #[test]
    fn normal_quantile_inverts_tail() {
        for x in [-30.0, -8.0, -2.5, -1e-3, 0.0, 0.7, 3.0] {
            assert!((normal_quantile(normal_tail(-x)) - x).abs() < 1e-13 * (1.0 + x.abs() * exp(0.5 * x.max(0.0) * x)));
        }
    }

    #[test]
    fn binomial_masses_sum_to_one() {
        for (n, p) in [(1.0, 0.3), (40.0, 0.01), (1000.0, 0.6), (100_000.0, 0.99)] {
            let (mut sum, mut k) = (0.0, 0.0);
            while k <= n {
                let mass = binomial_pmf(n, k, p, 1.0 - p);
                let direct = exp(ln_binomial(n, k) + k * log(p) + (n - k) * log1p(-p));
                assert!((mass - direct).abs() <= 1e-8 * direct.max(1e-300), "{n} {k}");
                sum += mass;
                k += 1.0;
            }
            assert!(close(sum, 1.0, 1e-12), "{n}: {sum}");
        }
    }

    #[test]
    fn binomials_match_pascals_triangle() {
        assert!(close(exp(ln_binomial(10.0, 3.0)), 120.0, 1e-13));
        assert!(close(exp(ln_gamma(6.0)), 120.0, 1e-13));
    }
}
