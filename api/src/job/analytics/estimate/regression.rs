//! Linear regression by least squares from noisy sums of products, in closed form.
//!
//! With S the covariance matrix of the features, c their covariances with the target y and v the variance of y, the
//! coefficients are b = S⁻¹c, the intercept is that of the means, and the share of the variance that the features explain is
//! bᵀc/v. First order in the noise of the sums gives the deviations: db = S⁻¹(dc − dS b).
//!
//! The inverse is far from linear where the noise reaches the least eigenvalue of S. There the coefficients are not given:
//! each column is in units of its span, and the least eigenvalue must be at least [`LEAST_NORMS`] times 2√d·σ, about the
//! norm of a symmetric matrix of d columns of independent noise with the deviation σ (Wigner's law), where σ is the
//! greatest deviation of an entry. Near this limit the first order is off by some hundredths of the coverage.

use super::covariance::{Gradient, Moments, diagonalize};
use super::{CellSums, LEAST_DEVIATIONS, NumberEstimate};
use crate::job::evaluation::NORMAL_95;
use crate::table::TableColumn;

/// The least eigenvalue of the features, in norms of its noise, at which coefficients are given.
const LEAST_NORMS: f64 = 4.0;

/// Returns the greatest half-width of the interval of a coefficient that is given, with each column in units of its
/// deviation, for `features` features without correlations whose deviation is half of their span.
pub(in crate::job::analytics) fn most_visible_error(features: usize) -> f64 {
    // The eigenvalues are 1/4, and the deviation of a coefficient is 4σ.
    NORMAL_95 * 4.0 * 0.25 / (LEAST_NORMS * 2.0 * (features as f64).sqrt())
}

/// A fit of the first column by the others, in units of their spans.
struct LinearFit {
    coefficients: Vec<f64>,
    gradients: Vec<Gradient>,
    /// S⁻¹.
    inverse: Vec<Vec<f64>>,
}

impl Moments<'_> {
    /// Returns the fit; `None` where noise hides a direction of the features.
    fn fit(&self) -> Option<LinearFit> {
        let count = self.count() - 1;
        let matrix: Vec<Vec<f64>> = (1..=count)
            .map(|row| (1..=count).map(|column| self.covariance(row.min(column), row.max(column))).collect())
            .collect();
        let noise = (1..=count)
            .flat_map(|first| (first..=count).map(move |second| (first, second)))
            .map(|(first, second)| self.gradient(first, second).norm())
            .fold(0.0, f64::max);
        let (values, vectors) = diagonalize(&matrix);
        let limit = LEAST_NORMS * 2.0 * (count as f64).sqrt() * noise;
        if !values.iter().all(|value| *value > limit) {
            return None;
        }
        let inverse = |row: usize, column: usize| {
            (0..count).map(|place| vectors[row][place] * vectors[column][place] / values[place]).sum::<f64>()
        };
        let solve = |row: usize| (0..count).map(|place| inverse(row, place) * self.covariance(0, place + 1)).sum();
        let coefficients: Vec<f64> = (0..count).map(solve).collect();
        // dc − dS b, feature by feature.
        let residual = |feature: usize| {
            let mut gradient = self.gradient(0, feature);
            for (other, coefficient) in (1..).zip(&coefficients) {
                gradient.add(-coefficient, &self.gradient(feature.min(other), feature.max(other)));
            }
            gradient
        };
        let residuals: Vec<Gradient> = (1..=count).map(residual).collect();
        let spread = |row: usize| {
            let mut gradient = self.no_gradient();
            residuals.iter().enumerate().for_each(|(place, other)| gradient.add(inverse(row, place), other));
            gradient
        };
        let gradients = (0..count).map(spread).collect();
        let row = |row: usize| (0..count).map(|column| inverse(row, column)).collect();
        Some(LinearFit { coefficients, gradients, inverse: (0..count).map(row).collect() })
    }

    /// Returns the part of the target's variance that a fit explains: bᵀ·Cov(X, y).
    fn explained_variance(&self, fit: &LinearFit) -> f64 {
        (1..).zip(&fit.coefficients).map(|(feature, one)| one * self.covariance(0, feature)).sum()
    }

    /// Returns the share of the target's variance that a fit explains, and its deviation; `None` where noise hides the variance.
    fn explained(&self, fit: &LinearFit) -> Option<(f64, f64)> {
        let (variance, own) = (self.covariance(0, 0), self.gradient(0, 0));
        if variance <= NORMAL_95 * own.norm() {
            return None;
        }
        let mut gradient = self.no_gradient();
        for (feature, (coefficient, slope)) in (1..).zip(fit.coefficients.iter().zip(&fit.gradients)) {
            gradient.add(self.covariance(0, feature) / variance, slope);
            gradient.add(coefficient / variance, &self.gradient(0, feature));
        }
        let share = self.explained_variance(fit) / variance;
        gradient.add(-share / variance, &own);
        Some((share, gradient.norm()))
    }
}

impl CellSums<'_> {
    /// Returns the coefficient of each feature, the intercept and the explained share, of the regression of the first column.
    /// Where noise hides the fit, only the share, without a value; so is the share where noise hides the target's variance.
    pub(super) fn regression(&self, columns: &[TableColumn]) -> Vec<NumberEstimate> {
        const SHARE: &str = "explained share";
        let hidden = || vec![NumberEstimate::hidden(SHARE, (0.0, 1.0))];
        let Some(moments) = self.read_moments() else { return Vec::new() };
        let Some((block, ..)) = self.blocks.first() else { return Vec::new() };
        let own: Vec<&TableColumn> = block.columns.iter().filter_map(|place| columns.get(*place)).collect();
        let (rows, rows_noise) = moments.rows;
        let is_small = rows <= 0.0 || rows < LEAST_DEVIATIONS * rows_noise;
        if is_small || own.len() != moments.count() || own.len() < 2 {
            return hidden();
        }
        let Some(fit) = moments.fit() else { return hidden() };
        let unit = |place: usize| moments.columns[place].span as f64 * own[place].kind.step();
        let middle = |place: usize| moments.columns[place].centre as f64 * own[place].kind.step();
        // The variance of the errors of a row, as the classical model has it, with m rows of a unit as alike as can be.
        let residual = (moments.covariance(0, 0) - moments.explained_variance(&fit)).max(0.0) * self.rows / rows;
        let mean = |place: usize| moments.mean(place) + middle(place) / unit(place);
        let mut numbers = Vec::with_capacity(own.len() + 1);
        // In units of the target's span: the mean of the target less the parts of the features.
        let mut intercept = moments.mean(0);
        let mut slope = moments.mean_gradient(0);
        for (place, coefficient) in fit.coefficients.iter().enumerate() {
            let (feature, gradient) = (place + 1, &fit.gradients[place]);
            let scale = unit(0) / unit(feature);
            let sampling = (residual * fit.inverse[place][place]).sqrt();
            numbers.push(number(own[feature].name.clone(), *coefficient, gradient.norm(), sampling, scale));
            intercept -= coefficient * mean(feature);
            slope.add(-mean(feature), gradient);
            slope.add(-coefficient, &moments.mean_gradient(feature));
        }
        let spread = (1..)
            .zip(&fit.inverse)
            .map(|(one, row)| mean(one) * (1..).zip(row).map(|(other, entry)| entry * mean(other)).sum::<f64>());
        let sampling = (residual * (1.0 + spread.sum::<f64>())).max(0.0).sqrt();
        let mut constant = number("intercept".to_owned(), intercept, slope.norm(), sampling, unit(0));
        for value in [Some(&mut constant.low), Some(&mut constant.high), constant.value.as_mut()].into_iter().flatten()
        {
            *value += middle(0);
        }
        numbers.push(constant);
        let Some((value, noise)) = moments.explained(&fit) else {
            numbers.extend(hidden());
            return numbers;
        };
        let half = NORMAL_95 * noise;
        numbers.push(NumberEstimate {
            label: SHARE.to_owned(),
            value: Some(value.clamp(0.0, 1.0)),
            low: (value - half).clamp(0.0, 1.0),
            high: (value + half).clamp(0.0, 1.0),
            noise,
            sampling: None,
        });
        numbers
    }
}

fn number(label: String, value: f64, noise: f64, sampling: f64, scale: f64) -> NumberEstimate {
    let half = NORMAL_95 * noise;
    NumberEstimate {
        label,
        value: Some(value * scale),
        low: (value - half) * scale,
        high: (value + half) * scale,
        noise: noise * scale,
        sampling: Some(sampling * scale),
    }
}
