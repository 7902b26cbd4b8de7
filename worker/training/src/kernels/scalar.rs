//! Elementary functions in plain arithmetic, so that loops over them become vector code.

/// Returns eˣ to about 1e-7 relative, for any x; 0 below −87.
///
/// Range reduction x = n ln 2 + r, |r| ≤ ln 2 / 2, then a polynomial of degree 7 (Taylor) for eʳ.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    /// 1.5 · 2²³: adding it rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-88.0, 88.0);
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    let mut y = 1.0 / 5040.0;
    for coefficient in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        y = r.mul_add(y, coefficient);
    }
    // 2ⁿ: the low bits of the shifted number are n.
    let power = f32::from_bits((shifted.to_bits().wrapping_add(127)) << 23);
    if x < -87.0 { 0.0 } else { y * power }
}

/// Returns 1 / (1 + e⁻ˣ).
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Returns tanh x, to about 1e-7 absolute.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    2.0f32.mul_add(sigmoid(2.0 * x), -1.0)
}

#[cfg(test)]
mod tests {
    use super::{exp, sigmoid, tanh};

    #[test]
    fn elementary_functions_agree_with_double_precision() {
        for step in -8600_i32..=8600 {
            let x = step as f32 / 100.0;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) / exact - 1.0).abs() < 4e-7, "exp {x}");
            assert!((f64::from(tanh(x)) - f64::from(x).tanh()).abs() < 4e-7, "tanh {x}");
            assert!((f64::from(sigmoid(x)) - 1.0 / (1.0 + (-f64::from(x)).exp())).abs() < 4e-7, "sigmoid {x}");
        }
        assert_eq!((exp(-1e9), tanh(-1e9), sigmoid(1e9)), (0.0, -1.0, 1.0));
    }

    #[test]
    fn nan_stays_nan() {
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan());
    }
}
