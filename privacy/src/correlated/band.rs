//! The best banded encoder: of all Toeplitz encoders with b bands, the one with the least product of column norm and error
//! of the running sums (Choquette-Choo, Ganesh, McKenna, McMahan, Rush, Thakurta and Xu 2023, "(Amplified) Banded Matrix
//! Factorization"; Toeplitz as in McKenna 2024).
//!
//! With e = 1/((1 − x) C) as a power series, the squared error is Σ (T − t) e(t)². The product does not change with the
//! scale of C, and its minimum is that of error² + ρ² norm² for any ρ > 0: a problem of least squares, which the method of
//! Levenberg and Marquardt solves. ∂e/∂C(j) = −x^j / ((1 − x) C²).

use super::encoder::{NoiseEncoder, accumulate_series, multiply_series};

/// The most steps of the method.
const MOST_STEPS: usize = 400;
/// The relative decrease at which the method ends.
const TOLERANCE: f64 = 1e-13;

/// Returns the best encoder with `bands` bands, at least 1, for `steps` steps.
///
/// # Panics
/// If `steps` is 0.
pub fn find_best_banded(bands: usize, steps: usize) -> NoiseEncoder {
    let bands = bands.clamp(1, steps);
    // The truncated root of A, (1 − x)^−½.
    let mut point = BandCandidate::new(accumulate_series(bands, |k| (2.0 * k - 1.0) / (2.0 * k)), steps);
    let weight = point.error / point.norm;
    let mut damping = 1e-3;
    for _ in 0..MOST_STEPS {
        let Some(next) = point.step(weight, damping, steps).filter(|next| next.cost(weight) < point.cost(weight))
        else {
            damping *= 10.0;
            if damping > 1e12 {
                break;
            }
            continue;
        };
        let decrease = 1.0 - next.cost(weight) / point.cost(weight);
        point = next;
        damping = (damping * 0.2).max(1e-12);
        if decrease < TOLERANCE {
            break;
        }
    }
    NoiseEncoder::banded(&point.bands, steps)
}

/// A candidate.
struct BandCandidate {
    bands: Vec<f64>,
    inverse: Vec<f64>,
    /// e: the weights of a noise in the sums after it.
    sums: Vec<f64>,
    /// Σ (T − t) e(t)².
    error: f64,
    /// The squared norm of the bands.
    norm: f64,
}

impl BandCandidate {
    fn new(bands: Vec<f64>, steps: usize) -> Self {
        let encoder = NoiseEncoder::banded(&bands, steps);
        let inverse = encoder.inverse().to_vec();
        let sums = sum_prefixes(&inverse);
        let error = sums.iter().enumerate().map(|(t, sum)| (steps - t) as f64 * sum * sum).sum();
        let norm = bands.iter().map(|band| band * band).sum();
        Self { bands, inverse, sums, error, norm }
    }

    fn cost(&self, weight: f64) -> f64 {
        self.error + weight * self.norm
    }

    /// Returns the candidate after one damped step, if the step leaves the diagonal positive.
    fn step(&self, weight: f64, damping: f64, steps: usize) -> Option<Self> {
        let count = self.bands.len();
        let slope = multiply_series(&self.sums, &self.inverse, steps);
        let derivative = |t: usize, j: usize| if t >= j { -slope[t - j] } else { 0.0 };
        let mut matrix = vec![vec![0.0; count]; count];
        let mut right = vec![0.0; count];
        for t in 0..steps {
            let share = (steps - t) as f64;
            for (i, row) in matrix.iter_mut().enumerate() {
                right[i] -= share * derivative(t, i) * self.sums[t];
                for (j, value) in row.iter_mut().enumerate().take(i + 1) {
                    *value += share * derivative(t, i) * derivative(t, j);
                }
            }
        }
        for i in 0..count {
            right[i] -= weight * self.bands[i];
            matrix[i][i] = (matrix[i][i] + weight) * (1.0 + damping);
        }
        let change = solve(matrix, right)?;
        let bands: Vec<f64> = self.bands.iter().zip(&change).map(|(band, change)| band + change).collect();
        (bands[0] > 0.0 && bands.iter().all(|band| band.is_finite())).then(|| Self::new(bands, steps))
    }
}

/// Returns the sums of the first values.
fn sum_prefixes(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let add = |value: &f64| {
        sum += value;
        sum
    };
    values.iter().map(add).collect()
}

/// Solves a system with a symmetric positive matrix, of which the lower half is read, by Cholesky's factorization.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let count = right.len();
    for i in 0..count {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| matrix[i][k] * matrix[j][k]).sum();
            let rest = matrix[i][j] - sum;
            if i == j && (rest.is_nan() || rest <= 0.0) {
                return None;
            }
            matrix[i][j] = if i == j { rest.sqrt() } else { rest / matrix[j][j] };
        }
    }
    for i in 0..count {
        let sum: f64 = (0..i).map(|k| matrix[i][k] * right[k]).sum();
        right[i] = (right[i] - sum) / matrix[i][i];
    }
    for i in (0..count).rev() {
        let sum: f64 = (i + 1..count).map(|k| matrix[k][i] * right[k]).sum();
        right[i] = (right[i] - sum) / matrix[i][i];
    }
    Some(right)
}
