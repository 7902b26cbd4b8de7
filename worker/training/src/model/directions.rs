//! The leading left singular vectors of a matrix, with the same bits on each machine.
//!
//! Participants compute them from the same parameters, each alone, and train along them. So the algorithm is additions,
//! multiplications, divisions and square roots of 64-bit numbers in a fixed order, on one thread and without fused
//! multiply-adds: IEEE 754 determines each result. No library of matrices guarantees that.
//!
//! 1. The Gram matrix of the smaller side: W·Wᵀ, or Wᵀ·W.
//! 2. Its eigenvectors, by cyclic Jacobi rotations (Golub and Van Loan 2013, "Matrix computations", section 8.5).
//! 3. The vectors of W·Wᵀ themselves, or W times those of Wᵀ·W, by descending eigenvalue, and equal ones in their order.
//! 4. Gram–Schmidt, twice (Giraud et al. 2005, "Rounding error analysis of the classical Gram-Schmidt orthogonalization
//!    process"). A direction that vanishes in it, as in a matrix of lower rank, becomes what is left of the unit vector
//!    farthest from the others.
//! 5. The sign: the element of the largest absolute value is positive.

/// The most sweeps of rotations. About ten suffice, as the convergence is quadratic.
const SWEEPS: usize = 60;
/// The part of the trace below which an element off the diagonal counts as zero.
const NEGLIGIBLE: f64 = 1e-18;
/// The part of the largest singular value below which a direction counts as vanished.
const VANISHED: f64 = 1e-10;

/// Returns the leading left singular vectors of a row-major matrix `[rows, columns]`, as the orthonormal columns of a
/// row-major matrix `[rows, rank]`.
///
/// # Panics
/// If the matrix has another size, or the rank exceeds its smaller side.
pub(super) fn find_directions(matrix: &[f32], [rows, columns]: [usize; 2], rank: usize) -> Vec<f64> {
    assert_eq!(matrix.len(), rows * columns, "a matrix of {rows} × {columns}");
    assert!(rank <= rows.min(columns), "at most as many directions as the smaller side has");
    let is_wide = rows <= columns;
    let vectors = find_eigenvectors(multiply_gram(matrix, [rows, columns]), rows.min(columns));
    let candidates = vectors.into_iter().take(rank).map(|vector| {
        if is_wide {
            return vector;
        }
        let row = |row: &[f32]| row.iter().zip(&vector).map(|(value, share)| f64::from(*value) * share).sum::<f64>();
        matrix.chunks_exact(columns).map(row).collect()
    });
    let basis = orthonormalize(candidates, rows);
    (0..rows).flat_map(|row| basis.iter().map(move |direction| direction[row])).collect()
}

/// Returns the products of the rows of a matrix, or of its columns if these are fewer: `[side, side]`.
fn multiply_gram(matrix: &[f32], [rows, columns]: [usize; 2]) -> Vec<f64> {
    let (side, items) = (rows.min(columns), rows.max(columns));
    let mut gram = vec![0.0; side * side];
    let mut item = vec![0.0; side];
    for number in 0..items {
        for (place, value) in item.iter_mut().enumerate() {
            let (row, column) = if rows <= columns { (place, number) } else { (number, place) };
            *value = f64::from(matrix[row * columns + column]);
        }
        for (sums, factor) in gram.chunks_exact_mut(side).zip(&item) {
            sums.iter_mut().zip(&item).for_each(|(sum, value)| *sum += factor * value);
        }
    }
    gram
}

/// Returns the eigenvectors of a symmetric matrix `[side, side]` without negative eigenvalues, by descending eigenvalue.
fn find_eigenvectors(mut matrix: Vec<f64>, side: usize) -> Vec<Vec<f64>> {
    let mut vectors = vec![0.0; side * side];
    vectors.iter_mut().step_by(side + 1).for_each(|diagonal| *diagonal = 1.0);
    let trace: f64 = matrix.iter().step_by(side + 1).sum();
    for _ in 0..SWEEPS {
        let mut is_diagonal = true;
        for p in 0..side {
            for q in p + 1..side {
                if matrix[p * side + q].abs() <= NEGLIGIBLE * trace {
                    continue;
                }
                is_diagonal = false;
                let rotation = JacobiRotation::annihilate(&matrix, side, (p, q));
                rotation.rotate_rows(&mut matrix, side);
                rotation.rotate_columns(&mut matrix, side);
                (matrix[p * side + q], matrix[q * side + p]) = (0.0, 0.0);
                rotation.rotate_rows(&mut vectors, side);
            }
        }
        if is_diagonal {
            break;
        }
    }
    let eigenvalues: Vec<f64> = matrix.iter().step_by(side + 1).copied().collect();
    let mut order: Vec<usize> = (0..side).collect();
    order.sort_by(|one, other| eigenvalues[*other].total_cmp(&eigenvalues[*one]));
    order.into_iter().map(|index| vectors[index * side..(index + 1) * side].to_vec()).collect()
}

/// A rotation in the plane of two coordinates.
struct JacobiRotation {
    /// The coordinates, p < q.
    plane: (usize, usize),
    cosine: f64,
    sine: f64,
}

impl JacobiRotation {
    /// Returns the rotation J with a zero at (p, q) of Jᵀ·A·J, for a symmetric matrix A that has none there.
    fn annihilate(matrix: &[f64], side: usize, (p, q): (usize, usize)) -> Self {
        let slope = (matrix[q * side + q] - matrix[p * side + p]) / (2.0 * matrix[p * side + q]);
        let root = (1.0 + slope * slope).sqrt();
        let tangent = if slope >= 0.0 { 1.0 / (slope + root) } else { 1.0 / (slope - root) };
        let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
        Self { plane: (p, q), cosine, sine: tangent * cosine }
    }

    /// Rotates a pair of coordinates.
    const fn rotate(&self, first: f64, second: f64) -> (f64, f64) {
        (self.cosine * first - self.sine * second, self.sine * first + self.cosine * second)
    }

    /// Rotates two rows of a matrix.
    fn rotate_rows(&self, matrix: &mut [f64], side: usize) {
        let (p, q) = self.plane;
        let (above, below) = matrix.split_at_mut(q * side);
        for (first, second) in above[p * side..(p + 1) * side].iter_mut().zip(&mut below[..side]) {
            (*first, *second) = self.rotate(*first, *second);
        }
    }

    /// Rotates two columns of a matrix.
    fn rotate_columns(&self, matrix: &mut [f64], side: usize) {
        let (p, q) = self.plane;
        for row in matrix.chunks_exact_mut(side) {
            (row[p], row[q]) = self.rotate(row[p], row[q]);
        }
    }
}

/// Returns orthonormal vectors of `length` numbers along the candidates, of which the first is the longest.
fn orthonormalize(candidates: impl Iterator<Item = Vec<f64>>, length: usize) -> Vec<Vec<f64>> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut least = None;
    for candidate in candidates {
        let least = *least.get_or_insert_with(|| VANISHED * multiply(&candidate, &candidate).sqrt());
        let mut direction = reduce(candidate, &basis, least).unwrap_or_else(|| find_remaining(&basis, length));
        let largest = direction
            .iter()
            .copied()
            .fold(0.0_f64, |largest, value| if value.abs() > largest.abs() { value } else { largest });
        if largest < 0.0 {
            for value in &mut direction {
                *value = -*value;
            }
        }
        basis.push(direction);
    }
    basis
}

/// Returns the part of a vector orthogonal to a basis, with norm 1; `None` if no more than `least` is left of it.
fn reduce(mut vector: Vec<f64>, basis: &[Vec<f64>], least: f64) -> Option<Vec<f64>> {
    let mut limit = least;
    for _ in 0..2 {
        for direction in basis {
            let share = multiply(direction, &vector);
            vector.iter_mut().zip(direction).for_each(|(value, own)| *value -= share * own);
        }
        let norm = multiply(&vector, &vector).sqrt();
        if norm.is_nan() || norm <= limit {
            return None;
        }
        for value in &mut vector {
            *value /= norm;
        }
        limit = 0.0;
    }
    Some(vector)
}

/// Returns the direction orthogonal to a basis of fewer than `length` directions that is nearest to a unit vector.
fn find_remaining(basis: &[Vec<f64>], length: usize) -> Vec<f64> {
    let shares = |place: usize| basis.iter().map(|direction| direction[place] * direction[place]).sum::<f64>();
    let farthest = (0..length).min_by(|one, other| shares(*one).total_cmp(&shares(*other))).unwrap_or(0);
    let unit: Vec<f64> = (0..length).map(|place| if place == farthest { 1.0 } else { 0.0 }).collect();
    reduce(unit, basis, 0.0).expect("fewer directions than dimensions leave one")
}

fn multiply(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha20Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::find_directions;

    fn random_matrix([rows, columns]: [usize; 2], seed: u64) -> Vec<f32> {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        (0..rows * columns).map(|_| rng.next_u32() as f32 / u32::MAX as f32 - 0.5).collect()
    }

    /// Returns the largest error of an inner product of two columns of `[rows, rank]`.
    fn measure_orthonormality(basis: &[f64], rank: usize) -> f64 {
        let product = |a: usize, b: usize| basis.chunks_exact(rank).map(|row| row[a] * row[b]).sum::<f64>();
        let pairs = (0..rank).flat_map(|a| (0..=a).map(move |b| (a, b)));
        pairs.map(|(a, b)| (product(a, b) - f64::from(u8::from(a == b))).abs()).fold(0.0, f64::max)
    }

    /// Returns the squared norm of the part of a matrix within the directions.
    fn measure_share(matrix: &[f32], columns: usize, basis: &[f64], rank: usize) -> f64 {
        let mut sum = 0.0;
        for direction in 0..rank {
            for column in 0..columns {
                let rows = matrix.chunks_exact(columns).zip(basis.chunks_exact(rank));
                let share: f64 = rows.map(|(row, own)| f64::from(row[column]) * own[direction]).sum();
                sum += share * share;
            }
        }
        sum
    }

    #[test]
    fn directions_are_orthonormal_for_any_shape_and_rank() {
        let shapes: [[usize; 2]; 7] = [[13, 256], [64, 256], [65, 9], [9, 65], [40, 40], [1, 5], [5, 1]];
        for (number, shape) in shapes.into_iter().enumerate() {
            let side = shape[0].min(shape[1]);
            let full = random_matrix(shape, number as u64);
            // Rows and columns that repeat leave about half the rank, or a third.
            let deficient: Vec<f32> = (0..shape[0] * shape[1])
                .map(|place| full[place / shape[1] / 2 * 2 * shape[1] + place % shape[1] / 3 * 3])
                .collect();
            for matrix in [full, deficient, vec![0.0; shape[0] * shape[1]]] {
                for rank in [1, side.div_ceil(2), side] {
                    let basis = find_directions(&matrix, shape, rank);
                    assert_eq!(basis.len(), shape[0] * rank);
                    let error = measure_orthonormality(&basis, rank);
                    assert!(error < 1e-10, "{shape:?}, rank {rank}: {error}");
                }
            }
        }
    }

    #[test]
    fn directions_are_the_singular_vectors_of_a_known_matrix() {
        // U diag(3, 2, 1) Vᵀ. The largest element of each column of U is positive.
        let left = [[0.6, 0.8, 0.0], [0.8, -0.6, 0.0], [0.0, 0.0, 1.0_f32]];
        for columns in [3, 5] {
            let element = |row: usize, column: usize| {
                (0..3).filter(|k| *k == column).map(|k| left[row][k] * (3 - k) as f32).sum::<f32>()
            };
            let matrix: Vec<f32> = (0..3)
                .flat_map(|row| (0..columns).map(move |column| (row, column)))
                .map(|(r, c)| element(r, c))
                .collect();
            let basis = find_directions(&matrix, [3, columns], 3);
            for (row, expected) in left.iter().enumerate() {
                for (k, expected) in expected.iter().enumerate() {
                    assert!((basis[row * 3 + k] - f64::from(*expected)).abs() < 1e-5, "{row} {k}: {basis:?}");
                }
            }
        }
    }

    #[test]
    fn leading_directions_have_the_largest_share() {
        for shape in [[30, 70], [70, 30]] {
            let matrix = random_matrix(shape, 5);
            let all = measure_share(&matrix, shape[1], &find_directions(&matrix, shape, 30), 30);
            let squares: f64 = matrix.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
            assert!((all / squares - 1.0).abs() < 1e-9, "{shape:?}");
            let leading = measure_share(&matrix, shape[1], &find_directions(&matrix, shape, 10), 10);
            // Any other ten directions have less: those of another matrix, and the first ten coordinates.
            let other = measure_share(&matrix, shape[1], &find_directions(&random_matrix(shape, 6), shape, 10), 10);
            let first: f64 = matrix[..10 * shape[1]].iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
            assert!(leading > 1.2 * other && leading > 1.2 * first, "{leading} {other} {first}");
        }
    }

    #[test]
    fn directions_have_the_same_bits_each_time_and_in_each_rank() {
        let shape = [48, 100];
        let matrix = random_matrix(shape, 7);
        let basis = find_directions(&matrix, shape, 12);
        assert!(basis == find_directions(&matrix, shape, 12));
        let fewer = find_directions(&matrix, shape, 4);
        assert!(fewer.chunks_exact(4).zip(basis.chunks_exact(12)).all(|(fewer, all)| *fewer == all[..4]));
    }
}
