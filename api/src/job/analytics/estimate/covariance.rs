//! Covariance matrices from noisy sums of products.
//!
//! With n rows, the sums sⱼ of the columns around their middles and the sums pⱼₖ of products, each with its own noise,
//! the covariance is c = p/n − sⱼsₖ/n². First order in the noise of n, s and p gives its variance, and that of a
//! correlation r = cⱼₖ/√(cⱼⱼcₖₖ).
//!
//! Noise can leave a matrix with a negative eigenvalue, which no table has. The matrix is computed with each column in
//! units of its span, and replaced by the nearest positive semidefinite one in the Frobenius norm: its negative
//! eigenvalues become zero (Higham 1988, theorem 2.1). The intervals are those of the numbers before that step; where
//! it moves a number out of its interval, the interval reaches to the number.

use super::{CellSums, LEAST_DEVIATIONS, NumberEstimate};
use crate::job::analytics::statistic::{BlockStatistic, CentredColumn};
use crate::job::evaluation::NORMAL_95;
use crate::table::TableColumn;

/// The sweeps of a diagonalization; matrices of 16 columns need fewer than 10.
const SWEEPS: usize = 30;

/// The derivatives of a number, times the deviation of the noise of each sum.
#[derive(Debug, Clone)]
pub(super) struct Gradient {
    rows: f64,
    sums: Vec<f64>,
    /// Of the products, by their position in the block.
    products: Vec<f64>,
}

impl Gradient {
    pub(super) fn norm(&self) -> f64 {
        let all = self.sums.iter().chain(&self.products).chain([&self.rows]);
        all.map(|slope| slope * slope).sum::<f64>().sqrt()
    }

    /// Adds `factor` times another gradient.
    pub(super) fn add(&mut self, factor: f64, other: &Self) {
        self.rows += factor * other.rows;
        self.sums.iter_mut().zip(&other.sums).for_each(|(own, other)| *own += factor * other);
        self.products.iter_mut().zip(&other.products).for_each(|(own, other)| *own += factor * other);
    }
}

/// The noisy moments of the columns, each in units of its span.
pub(super) struct Moments<'a> {
    pub(super) columns: &'a [CentredColumn],
    /// The number of rows, and the deviation of its noise.
    pub(super) rows: (f64, f64),
    sums: (Vec<f64>, f64),
    products: (Vec<f64>, f64),
}

impl Moments<'_> {
    pub(super) const fn count(&self) -> usize {
        self.columns.len()
    }

    /// Returns the position of a pair, the second column not before the first.
    const fn position(&self, first: usize, second: usize) -> usize {
        first * self.count() - first * (first + 1) / 2 + second
    }

    pub(super) fn covariance(&self, first: usize, second: usize) -> f64 {
        let rows = self.rows.0;
        self.products.0[self.position(first, second)] / rows - self.sums.0[first] * self.sums.0[second] / (rows * rows)
    }

    /// Returns the mean of a column around its middle.
    pub(super) fn mean(&self, place: usize) -> f64 {
        self.sums.0[place] / self.rows.0
    }

    pub(super) fn mean_gradient(&self, place: usize) -> Gradient {
        let mut gradient = self.no_gradient();
        gradient.rows = -self.rows.1 * self.mean(place) / self.rows.0;
        gradient.sums[place] = self.sums.1 / self.rows.0;
        gradient
    }

    pub(super) fn no_gradient(&self) -> Gradient {
        Gradient { rows: 0.0, sums: vec![0.0; self.count()], products: vec![0.0; self.products.0.len()] }
    }

    pub(super) fn gradient(&self, first: usize, second: usize) -> Gradient {
        let rows = self.rows.0;
        let mut gradient = self.no_gradient();
        let (one, other) = (self.sums.0[first], self.sums.0[second]);
        let product = self.products.0[self.position(first, second)];
        gradient.rows = self.rows.1 * (2.0 * one * other / rows - product) / (rows * rows);
        gradient.sums[first] -= self.sums.1 * other / (rows * rows);
        gradient.sums[second] -= self.sums.1 * one / (rows * rows);
        gradient.products[self.position(first, second)] = self.products.1 / rows;
        gradient
    }

    /// Returns the correlation of a pair and its deviation from noise; `None` where the noise hides a variance.
    fn correlation(&self, first: usize, second: usize) -> Option<(f64, f64)> {
        let variances = [first, second].map(|one| (self.covariance(one, one), self.gradient(one, one)));
        if variances.iter().any(|(variance, gradient)| *variance <= NORMAL_95 * gradient.norm()) {
            return None;
        }
        let root = (variances[0].0 * variances[1].0).sqrt();
        let correlation = self.covariance(first, second) / root;
        let mut gradient = self.gradient(first, second);
        let scaled = |slope: &mut f64| *slope /= root;
        scaled(&mut gradient.rows);
        gradient.sums.iter_mut().for_each(scaled);
        gradient.products.iter_mut().for_each(scaled);
        for (variance, own) in &variances {
            gradient.add(-correlation / (2.0 * variance), own);
        }
        Some((correlation, gradient.norm()))
    }
}

impl CellSums<'_> {
    pub(super) fn read_moments(&self) -> Option<Moments<'_>> {
        let [(_, rows, rows_noise), (sums, sum, sum_noise), (products, product, product_noise)] = &self.blocks[..]
        else {
            return None;
        };
        let BlockStatistic::Sums { columns, most: sum_most } = &sums.statistic else { return None };
        let BlockStatistic::Products { most: product_most, .. } = &products.statistic else { return None };
        let scale = |sums: &[f64], noise: f64, most: u64| {
            (sums.iter().map(|sum| sum / most as f64).collect(), noise / most as f64)
        };
        Some(Moments {
            columns,
            rows: (rows.first().copied().unwrap_or_default(), *rows_noise),
            sums: scale(sum, *sum_noise, *sum_most),
            products: scale(product, *product_noise, *product_most),
        })
    }

    /// Returns the covariance of each pair of columns, with the variances, and then each correlation.
    pub(super) fn covariance(&self, columns: &[TableColumn]) -> Vec<NumberEstimate> {
        let Some(moments) = self.read_moments() else { return Vec::new() };
        let Some((block, ..)) = self.blocks.first() else { return Vec::new() };
        let own: Vec<&TableColumn> = block.columns.iter().filter_map(|place| columns.get(*place)).collect();
        let count = moments.count().min(own.len());
        let unit = |place: usize| moments.columns[place].span as f64 * own[place].kind.step();
        let pairs: Vec<(usize, usize)> =
            (0..count).flat_map(|first| (first..count).map(move |second| (first, second))).collect();
        let name = |first: usize, second: usize| format!("{}, {}", own[first].name, own[second].name);
        let is_hidden = moments.rows.0 < LEAST_DEVIATIONS * moments.rows.1 || moments.rows.0 <= 0.0;
        let matrix: Vec<Vec<f64>> = if is_hidden {
            Vec::new()
        } else {
            let row = |first: usize| {
                (0..count).map(|second| moments.covariance(first.min(second), first.max(second))).collect()
            };
            project((0..count).map(row).collect())
        };
        let covariance = |(first, second): &(usize, usize)| {
            let (label, scale) = (name(*first, *second), unit(*first) * unit(*second));
            let least = if first == second { 0.0 } else { -scale };
            if is_hidden {
                return NumberEstimate::hidden(&label, (least, scale));
            }
            let (raw, value) = (moments.covariance(*first, *second), matrix[*first][*second]);
            let noise = moments.gradient(*first, *second).norm();
            let sampling = self.bound_sampling(&matrix, moments.rows.0, *first, *second);
            around(label, (raw, value.clamp(least / scale, 1.0)), noise, Some(sampling), (least / scale, 1.0), scale)
        };
        let correlation = |(first, second): &(usize, usize)| {
            let label = format!("correlation {}", name(*first, *second));
            let known = if is_hidden { None } else { moments.correlation(*first, *second) };
            let Some((raw, noise)) = known else { return NumberEstimate::hidden(&label, (-1.0, 1.0)) };
            let root = (matrix[*first][*first] * matrix[*second][*second]).sqrt();
            let value =
                if root > 0.0 { (matrix[*first][*second] / root).clamp(-1.0, 1.0) } else { raw.clamp(-1.0, 1.0) };
            around(label, (raw, value), noise, None, (-1.0, 1.0), 1.0)
        };
        let between = pairs.iter().filter(|(first, second)| first != second);
        pairs.iter().map(covariance).chain(between.map(correlation)).collect()
    }

    /// Returns an upper bound of the deviation from sampling: a column is within 2 of its mean, in units of its span,
    /// so E(x²y²) ≤ 4·min(E x², E y²).
    fn bound_sampling(&self, matrix: &[Vec<f64>], rows: f64, first: usize, second: usize) -> f64 {
        let fourth = 4.0 * matrix[first][first].min(matrix[second][second]);
        ((fourth - matrix[first][second].powi(2)).max(0.0) * self.rows / rows).sqrt()
    }
}

/// Returns an estimate, scaled, with the interval of `raw` within a range, wide enough to contain `value`.
fn around(
    label: String,
    (raw, value): (f64, f64),
    noise: f64,
    sampling: Option<f64>,
    range: (f64, f64),
    scale: f64,
) -> NumberEstimate {
    let half = NORMAL_95 * noise;
    NumberEstimate {
        label,
        value: Some(value * scale),
        low: (raw - half).clamp(range.0, value) * scale,
        high: (raw + half).clamp(value, range.1) * scale,
        noise: noise * scale,
        sampling: sampling.map(|sampling| sampling * scale),
    }
}

/// Returns the nearest positive semidefinite matrix.
fn project(matrix: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let count = matrix.len();
    let (values, vectors) = diagonalize(&matrix);
    if values.iter().all(|value| *value >= 0.0) {
        return matrix;
    }
    let entry = |row: usize, column: usize| {
        let term = |place: usize| values[place].max(0.0) * vectors[row][place] * vectors[column][place];
        (0..count).map(term).sum::<f64>()
    };
    (0..count).map(|row| (0..count).map(|column| entry(row, column)).collect()).collect()
}

/// Returns the eigenvalues of a symmetric matrix, and its eigenvectors as columns, by Jacobi's rotations (Golub and Van Loan
/// 2013, algorithm 8.5.2).
pub(super) fn diagonalize(matrix: &[Vec<f64>]) -> (Vec<f64>, Vec<Vec<f64>>) {
    let count = matrix.len();
    let mut values = matrix.to_vec();
    let mut vectors: Vec<Vec<f64>> =
        (0..count).map(|row| (0..count).map(|column| f64::from(u8::from(row == column))).collect()).collect();
    for _ in 0..SWEEPS {
        for (first, second) in (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second))) {
            rotate(&mut values, &mut vectors, first, second);
        }
    }
    ((0..count).map(|place| values[place][place]).collect(), vectors)
}

/// Makes an entry of a symmetric matrix zero by a rotation, and applies it to the vectors.
fn rotate(values: &mut [Vec<f64>], vectors: &mut [Vec<f64>], first: usize, second: usize) {
    let entry = values[first][second];
    if entry.abs() < f64::MIN_POSITIVE {
        return;
    }
    let ratio = (values[second][second] - values[first][first]) / (2.0 * entry);
    let tangent = ratio.signum() / (ratio.abs() + (ratio * ratio + 1.0).sqrt());
    let cosine = 1.0 / (tangent * tangent + 1.0).sqrt();
    let sine = tangent * cosine;
    let turn = |one: f64, other: f64| (cosine * one - sine * other, sine * one + cosine * other);
    for row in values.iter_mut().chain(vectors.iter_mut()) {
        (row[first], row[second]) = turn(row[first], row[second]);
    }
    let (before, after) = values.split_at_mut(second);
    for (one, other) in before[first].iter_mut().zip(after[0].iter_mut()) {
        (*one, *other) = turn(*one, *other);
    }
}

#[cfg(test)]
mod tests {
    use super::project;

    #[test]
    fn projection_has_no_negative_eigenvalue_and_keeps_others() {
        let valid = vec![vec![2.0, 0.5, 0.1], vec![0.5, 1.0, -0.2], vec![0.1, -0.2, 0.7]];
        assert_eq!(project(valid.clone()), valid);
        // The eigenvalues of [[1, 2], [2, 1]] are 3 and -1: what remains is 3/2 in each entry.
        let projected = project(vec![vec![1.0, 2.0], vec![2.0, 1.0]]);
        assert!(projected.iter().flatten().all(|entry| (entry - 1.5).abs() < 1e-12), "{projected:?}");
        // Quadratic forms of a projected matrix of pseudo-random entries are not negative.
        let entry = |one: usize, other: usize| ((one * other * 37 + one + other) % 19) as f64 - 9.0;
        let projected = project((0..8).map(|row| (0..8).map(|column| entry(row, column)).collect()).collect());
        for seed in 1..200_usize {
            let vector: Vec<f64> = (0..8).map(|place| ((seed * (place + 3) * 29) % 23) as f64 - 11.0).collect();
            let form: f64 = (0..8)
                .flat_map(|row| (0..8).map(move |column| (row, column)))
                .map(|(row, column)| projected[row][column] * vector[row] * vector[column])
                .sum();
            assert!(form > -1e-9, "{seed}: {form}");
        }
    }
}
