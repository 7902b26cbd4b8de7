//! Linear regression by least squares from noisy sums of products, in closed form.
//!
//! With S the covariance matrix of the features, c their covariances with the target y and v the variance of y, the
//! coefficients are b = S⁻¹c, the intercept is that of the means, and the share of the variance that the features explain is
//! bᵀc/v. First order in the noise of the sums gives the deviations: db = S⁻¹(dc − dS b).
//!
//! The inverse is far from linear where the noise reaches the least eigenvalue of S. There the coefficients are not given:
//! each column is in units of its span, and the least eigenvalue must be at least twice 2√d·σ, the norm of a symmetric
//! matrix of d columns of noise whose greatest deviation is σ (Wigner's law).

use super::covariance::{Gradient, Moments, diagonalize};
use super::{CellSums, LEAST_DEVIATIONS, NumberEstimate};
use crate::job::evaluation::NORMAL_95;
use crate::table::TableColumn;

/// A fit of the first column by the others, in units of their spans.
struct LinearFit {
    coefficients: Vec<f64>,
    gradients: Vec<Gradient>,
    /// The diagonal of S⁻¹.
    inverse: Vec<f64>,
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
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        if least.is_nan() || least <= 4.0 * (count as f64).sqrt() * noise {
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
        Some(LinearFit { coefficients, gradients, inverse: (0..count).map(|place| inverse(place, place)).collect() })
    }

    /// Returns the share of the target's variance that a fit explains, and its deviation; `None` where noise hides the variance.
    fn explained(&self, fit: &LinearFit) -> Option<(f64, f64)> {
        let (variance, own) = (self.covariance(0, 0), self.gradient(0, 0));
        if variance <= NORMAL_95 * own.norm() {
            return None;
        }
        let mut gradient = self.no_gradient();
        let mut sum = 0.0;
        for (feature, (coefficient, slope)) in (1..).zip(fit.coefficients.iter().zip(&fit.gradients)) {
            let covariance = self.covariance(0, feature);
            sum += coefficient * covariance;
            gradient.add(covariance / variance, slope);
            gradient.add(coefficient / variance, &self.gradient(0, feature));
        }
        let share = sum / variance;
        gradient.add(-share / variance, &own);
        Some((share, gradient.norm()))
    }
}

impl CellSums<'_> {
    /// Returns the coefficient of each feature, the intercept and the explained share, of the regression of the first column.
    /// Where noise hides the fit, only the share, without a value.
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
        let Some((fit, share)) = moments.fit().and_then(|fit| moments.explained(&fit).map(|share| (fit, share))) else {
            return hidden();
        };
        let unit = |place: usize| moments.columns[place].span as f64 * own[place].kind.step();
        let middle = |place: usize| moments.columns[place].centre as f64 * own[place].kind.step();
        let residual = (moments.covariance(0, 0) * (1.0 - share.0)).max(0.0);
        let mut numbers = Vec::with_capacity(own.len() + 1);
        // In units of the target's span: the mean of the target less the parts of the features.
        let mut intercept = moments.mean(0);
        let mut slope = moments.mean_gradient(0);
        let mut sampled = residual * self.rows / rows;
        for (place, coefficient) in fit.coefficients.iter().enumerate() {
            let (feature, gradient) = (place + 1, &fit.gradients[place]);
            let scale = unit(0) / unit(feature);
            let sampling = (residual * fit.inverse[place] * self.rows / rows).sqrt();
            numbers.push(number(own[feature].name.clone(), *coefficient, gradient.norm(), sampling, scale));
            let mean = moments.mean(feature) + middle(feature) / unit(feature);
            intercept -= coefficient * mean;
            slope.add(-mean, gradient);
            slope.add(-coefficient, &moments.mean_gradient(feature));
            // The means and the coefficients of a fit are uncorrelated; those of features may add up.
            sampled = (sampled.sqrt() + sampling * mean.abs()).powi(2);
        }
        let mut constant = number("intercept".to_owned(), intercept, slope.norm(), sampled.sqrt(), unit(0));
        for value in [Some(&mut constant.low), Some(&mut constant.high), constant.value.as_mut()].into_iter().flatten()
        {
            *value += middle(0);
        }
        numbers.push(constant);
        let (value, noise) = share;
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
