//! Encoders of correlated noise: lower triangular Toeplitz matrices C with a positive diagonal.
//!
//! A mechanism with encoder C releases x + C⁻¹z for the clipped sums x of T steps and independent Gaussian noise z. That is
//! post-processing of Cx + z by an invertible matrix, so it costs what Cx + z costs: the sensitivity of x ↦ Cx in units
//! of the clip, over the deviation of z (Denisov, McMahan, Rush, Smith and Thakurta 2022). The running sums of the steps
//! get the error A C⁻¹ z, with A the matrix of running sums.
//!
//! A Toeplitz matrix is its first column, and its inverse is that of the reciprocal power series.

/// An encoder for a fixed number of steps.
#[derive(Debug, Clone)]
pub struct NoiseEncoder {
    /// The first column of C: one value a step, the first greater than 0.
    column: Vec<f64>,
    /// The first column of C⁻¹: the weights of the noises of this step and of the steps before it.
    inverse: Vec<f64>,
}

/// The deviations of the error of running sums, for z with deviation 1.
#[derive(Debug, Clone, Copy)]
pub struct RunningSumError {
    /// The root of the mean variance over all T sums.
    pub root_mean_square: f64,
    /// The deviation of the last sum.
    pub last: f64,
}

impl NoiseEncoder {
    /// Makes the encoder whose first column begins with `bands`; the rest of it is 0.
    ///
    /// # Panics
    /// If `steps` is 0, or the first value is not greater than 0.
    pub fn banded(bands: &[f64], steps: usize) -> Self {
        let column = pad_column(bands, steps);
        let inverse = invert_series(&column);
        Self { column, inverse }
    }

    /// Makes the encoder of independent noise.
    pub fn independent(steps: usize) -> Self {
        Self::banded(&[1.0], steps)
    }

    /// Makes the encoder of DP-λCGD: the noise of step t is z(t) − λ z(t − 1) (Kalinin, McKenna, Pagh and Lampert 2026).
    /// `lambda` is at least 0 and less than 1.
    pub fn geometric(lambda: f64, steps: usize) -> Self {
        let inverse = pad_column(&[1.0, -lambda], steps);
        Self { column: invert_series(&inverse), inverse }
    }

    /// Makes the encoder of BISR: of the inverse root of A, the first `width` diagonals (Kalinin, McKenna, Upadhyay and
    /// Lampert 2025).
    pub fn inverse_root(width: usize, steps: usize) -> Self {
        // (1 − x)^½, truncated.
        let weights = accumulate_series(width.min(steps), |k| (2.0 * k - 3.0) / (2.0 * k));
        let inverse = pad_column(&weights, steps);
        Self { column: invert_series(&inverse), inverse }
    }

    /// Returns the number of steps, T.
    pub const fn steps(&self) -> usize {
        self.column.len()
    }

    /// Returns the first column of C.
    pub fn column(&self) -> &[f64] {
        &self.column
    }

    /// Returns the first column of C⁻¹, which makes correlated noise of independent noise.
    pub fn inverse(&self) -> &[f64] {
        &self.inverse
    }

    /// Returns the largest norm of a column, that of the first, rounded up.
    pub fn column_norm(&self) -> f64 {
        round_norm_up(&self.column)
    }

    /// Returns the sensitivity, in clips, for units that take part in any steps of which two differ by at least
    /// `period` ≥ 1, rounded up. The values of C must be at least 0 and must not increase down the column.
    ///
    /// The steps 0, b, 2b, … are the worst for every vector of contributions of norm 1 (Kalinin and Lampert 2024).
    /// Proof: let c(s) be column s. The squared norm of Σ c(s) ⊗ x(s) over a set of steps is
    /// Σ ⟨c(s), c(t)⟩ ⟨x(s), x(t)⟩, at most Σ ⟨c(s), c(t)⟩ because no value of C is negative, and equal for equal x.
    /// ⟨c(s), c(t)⟩ is the sum over i < T − max(s, t) of C(i) C(i + |s − t|). It falls with max(s, t), which shortens the
    /// sum, and with |s − t|, because C does not increase. Numbered in order, the j-th step of any such set is at least
    /// (j − 1) b, and the distance of two is at least b times the distance of their numbers; so each product is at most that
    /// of the steps 0, b, 2b, … with the same numbers. More steps add products that are not negative.
    ///
    /// # Panics
    /// If the values of C do not meet the condition.
    pub fn sensitivity(&self, period: usize) -> f64 {
        assert!(
            self.column.iter().all(|value| *value >= 0.0) && self.column.is_sorted_by(|one, next| one >= next),
            "the closed form holds for encoders with falling values of at least 0"
        );
        let mut sum = self.column.clone();
        for first in (period.max(1)..self.steps()).step_by(period.max(1)) {
            sum[first..].iter_mut().zip(&self.column).for_each(|(sum, value)| *sum += value);
        }
        round_norm_up(&sum)
    }

    /// Returns the error of the running sums.
    pub fn errors(&self) -> RunningSumError {
        let mut weight = 0.0;
        // The weight of the noise of step s in the sum of step t depends on t − s.
        let sums = self.inverse.iter().map(|value| {
            weight += value;
            weight
        });
        let squares: Vec<f64> = sums.map(|weight| weight * weight).collect();
        let steps = squares.len();
        let all: f64 = squares.iter().enumerate().map(|(k, square)| square * (steps - k) as f64).sum();
        let root_mean_square = (all / steps as f64).sqrt();
        RunningSumError { root_mean_square, last: squares.iter().sum::<f64>().sqrt() }
    }
}

/// Returns the first coefficients of the series that begins with 1 and multiplies its k-th by `ratio(k)` of the one
/// before.
pub(super) fn accumulate_series(length: usize, ratio: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut values = vec![1.0; length.max(1)];
    for k in 1..values.len() {
        values[k] = values[k - 1] * ratio(k as f64);
    }
    values
}

/// Returns the first `length` coefficients of the product of two power series.
pub(super) fn multiply_series(one: &[f64], other: &[f64], length: usize) -> Vec<f64> {
    let mut values = vec![0.0; length];
    for (first, one) in one.iter().enumerate().take(length) {
        values[first..].iter_mut().zip(other).for_each(|(value, other)| *value += one * other);
    }
    values
}

/// Returns the reciprocal of a power series, as long as the series itself.
///
/// # Panics
/// If it is empty, or does not begin with a value greater than 0.
fn invert_series(series: &[f64]) -> Vec<f64> {
    assert!(series.first().is_some_and(|first| *first > 0.0), "the diagonal of an encoder is greater than 0");
    let mut values = vec![0.0; series.len()];
    values[0] = series[0].recip();
    for k in 1..series.len() {
        let sum: f64 = series[1..=k].iter().zip(values[..k].iter().rev()).map(|(one, other)| one * other).sum();
        values[k] = -sum * values[0];
    }
    values
}

/// Returns `steps` values that begin with `values` and end with zeros.
fn pad_column(values: &[f64], steps: usize) -> Vec<f64> {
    let mut column = vec![0.0; steps];
    column.iter_mut().zip(values).for_each(|(place, value)| *place = *value);
    column
}

/// Returns the norm of sums of first columns, rounded up.
///
/// The columns whose values are computed are those of DP-λCGD and of BISR. All terms of their recursions are at least 0,
/// so that nothing cancels: a value after k steps, each a sum of at most n terms, has a relative error of at most
/// k (n + 1) 2⁻⁵³. The sums of columns and the norm add at most 3n · 2⁻⁵³. 2n² · 2⁻⁵² is more than both together.
fn round_norm_up(values: &[f64]) -> f64 {
    let squares: f64 = values.iter().map(|value| value * value).sum();
    squares.sqrt() * (1.0 + 2.0 * (values.len() * values.len()) as f64 * f64::EPSILON)
}
