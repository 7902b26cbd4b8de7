//! All complex roots of a polynomial at once, by Aberth's simultaneous Newton iteration (Aberth, "Iteration methods for
//! finding all zeros of a polynomial simultaneously", Math. Comp. 27, 1973).

use realfft::num_complex::Complex;

/// Largest number of passes over all roots; simple roots need about ten.
const MOST: usize = 100;
/// The iteration ends after a pass that moves no root further than this.
const STILL: f64 = 1e-13;
/// Start of the iteration: radius of a circle, and a rotation so that no two starting points are conjugates.
const BEGIN: (f64, f64) = (0.9, 0.4);

/// Returns the roots of Σ cₖ z^(n−k), n being the degree, in no fixed order. The first coefficient is 1; trailing zeros are roots at 0.
pub(super) fn find_roots(coefficients: &[f64]) -> Vec<Complex<f64>> {
    let zeros = coefficients.iter().rev().take_while(|c| **c == 0.0).count();
    let coefficients = &coefficients[..coefficients.len() - zeros];
    let degree = coefficients.len().saturating_sub(1);
    let begin = |k: usize| Complex::from_polar(BEGIN.0, std::f64::consts::TAU * k as f64 / degree as f64 + BEGIN.1);
    let mut roots: Vec<_> = (0..degree).map(begin).collect();
    for _ in 0..MOST {
        let mut furthest = 0.0_f64;
        for k in 0..degree {
            let z = roots[k];
            let step = step(coefficients, &roots, k);
            // Where two estimates meet, or the slope is zero, the iteration continues beside that point.
            let step = if step.re.is_finite() && step.im.is_finite() { step } else { Complex::new(1e-3, 2e-3) };
            roots[k] = z - step;
            furthest = furthest.max(step.norm());
        }
        if furthest < STILL {
            break;
        }
    }
    roots.extend(std::iter::repeat_n(Complex::new(0.0, 0.0), zeros));
    roots
}

/// Returns Newton's step for root `k`, with the other estimates divided out.
fn step(coefficients: &[f64], roots: &[Complex<f64>], k: usize) -> Complex<f64> {
    let z = roots[k];
    let mut value = Complex::new(0.0, 0.0);
    let mut slope = Complex::new(0.0, 0.0);
    for coefficient in coefficients {
        slope = slope * z + value;
        value = value * z + coefficient;
    }
    if value.norm_sqr() == 0.0 {
        return value;
    }
    let newton = value / slope;
    let others = roots.iter().enumerate().filter(|(j, _)| *j != k).map(|(_, other)| (z - other).inv());
    let repulsion: Complex<f64> = others.sum();
    newton / (Complex::new(1.0, 0.0) - newton * repulsion)
}

#[cfg(test)]
mod tests {
    use realfft::num_complex::Complex;

    use super::find_roots;

    /// Returns the largest distance from an expected root to the nearest computed one.
    fn furthest(roots: &[Complex<f64>], expected: &[(f64, f64)]) -> f64 {
        assert_eq!(roots.len(), expected.len());
        let nearest = |(re, im): &(f64, f64)| {
            roots.iter().map(|root| (root - Complex::new(*re, *im)).norm()).fold(f64::INFINITY, f64::min)
        };
        expected.iter().map(nearest).fold(0.0, f64::max)
    }

    #[test]
    #[expect(clippy::unreadable_literal, reason = "as they were printed")]
    fn roots_are_eigenvalues_of_the_companion_matrix() {
        // Order 20, from a synthetic vowel; eigenvalues of its companion matrix by mpmath 1.3 with 40 digits.
        let filter = [
            1.0,
            -4.123517809,
            8.007480788,
            -9.022363202,
            5.411771283,
            -0.008752953,
            -2.683585273,
            1.532791315,
            0.678763728,
            -1.259573878,
            0.415357412,
            0.161809828,
            0.076156352,
            -0.398272324,
            0.398502838,
            -0.212471766,
            0.069168344,
            -0.023405236,
            0.019770531,
            -0.013850012,
            0.00467652,
        ];
        let expected = [
            (-0.7502416506532, -0.2090322427000),
            (-0.7502416506532, 0.2090322427000),
            (-0.4912651365975, -0.4822773848802),
            (-0.4912651365975, 0.4822773848802),
            (-0.3571377121138, -0.3508536993398),
            (-0.3571377121138, 0.3508536993398),
            (0.0961848373320, -0.6198227584868),
            (0.0961848373320, 0.6198227584868),
            (0.1865128795111, -0.9374387347561),
            (0.1865128795111, 0.9374387347561),
            (0.4145397248424, -0.5063289375684),
            (0.4145397248424, 0.5063289375684),
            (0.5219195735267, -0.8144392275546),
            (0.5219195735267, 0.8144392275546),
            (0.6629730870007, -0.2294751740381),
            (0.6629730870007, 0.2294751740381),
            (0.8168647454957, -0.5337775801111),
            (0.8168647454957, 0.5337775801111),
            (0.9614085561559, -0.1931542564939),
            (0.9614085561559, 0.1931542564939),
        ];
        let furthest = furthest(&find_roots(&filter), &expected);
        assert!(furthest < 1e-9, "{furthest:e}");
    }

    #[test]
    fn small_polynomials_have_their_known_roots() {
        assert!(find_roots(&[1.0]).is_empty());
        assert!(furthest(&find_roots(&[1.0, -0.25]), &[(0.25, 0.0)]) < 1e-12);
        assert!(furthest(&find_roots(&[1.0, 0.0, 0.81]), &[(0.0, 0.9), (0.0, -0.9)]) < 1e-12);
        assert!(furthest(&find_roots(&[1.0, -0.5, 0.0, 0.0]), &[(0.5, 0.0), (0.0, 0.0), (0.0, 0.0)]) < 1e-12);
    }

    #[test]
    fn double_root_is_returned_twice_with_half_the_digits() {
        assert!(furthest(&find_roots(&[1.0, -1.0, 0.25]), &[(0.5, 0.0), (0.5, 0.0)]) < 1e-6);
    }
}
