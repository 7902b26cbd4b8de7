//! Adam (Kingma and Ba 2015, algorithm 1), for dense weights and for rows of a table that few steps touch.
//!
//! A row's moments change only in the steps in which the row occurs, and their bias is corrected by the number of those
//! steps. The update of a word therefore does not depend on how often other words came in between.

const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// First and second moments of a vector of weights.
struct AdamMoments {
    first: Vec<f32>,
    second: Vec<f32>,
}

impl AdamMoments {
    fn new(count: usize) -> Self {
        Self { first: vec![0.0; count], second: vec![0.0; count] }
    }

    /// Steps the weights from index `at` on; `steps` is the number of their steps, this one included.
    fn step(&mut self, at: usize, weights: &mut [f32], gradient: &[f32], rate: f32, steps: u32) {
        let steps = steps.min(1 << 20).cast_signed();
        let past_1 = BETA_1.powi(steps);
        let past_2 = BETA_2.powi(steps);
        let rate = rate * (1.0 - past_2).sqrt() / (1.0 - past_1);
        let scale = EPSILON * (1.0 - past_2).sqrt();
        let end = at + weights.len();
        let moments = self.first[at..end].iter_mut().zip(&mut self.second[at..end]);
        for ((weight, gradient), (first, second)) in weights.iter_mut().zip(gradient).zip(moments) {
            *first = BETA_1 * *first + (1.0 - BETA_1) * gradient;
            *second = BETA_2 * *second + (1.0 - BETA_2) * gradient * gradient;
            *weight -= rate * *first / (second.sqrt() + scale);
        }
    }
}

/// Optimizer of weights that all have a gradient in every step.
pub(super) struct DenseAdam {
    moments: AdamMoments,
    steps: u32,
}

impl DenseAdam {
    pub(super) fn new(count: usize) -> Self {
        Self { moments: AdamMoments::new(count), steps: 0 }
    }

    pub(super) fn step(&mut self, weights: &mut [f32], gradient: &[f32], rate: f32) {
        self.steps += 1;
        self.moments.step(0, weights, gradient, rate, self.steps);
    }
}

/// Optimizer of a table `[rows, width]` of which a step touches few rows.
pub(super) struct SparseAdam {
    moments: AdamMoments,
    width: usize,
    steps: Vec<u32>,
    /// The place of each row in `sums`; [`NOWHERE`] for the rows that do not occur.
    places: Vec<u32>,
    touched: Vec<u32>,
    sums: Vec<f32>,
}

/// Marks a row without a place.
const NOWHERE: u32 = u32::MAX;

impl SparseAdam {
    pub(super) fn new(rows: usize, width: usize) -> Self {
        Self {
            moments: AdamMoments::new(rows * width),
            width,
            steps: vec![0; rows],
            places: vec![NOWHERE; rows],
            touched: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// Adds `scale` times `gradient` to the gradient of a row.
    pub(super) fn add(&mut self, row: u32, gradient: &[f32], scale: f32) {
        let place = &mut self.places[row as usize];
        if *place == NOWHERE {
            *place = self.touched.len() as u32;
            self.touched.push(row);
            self.sums.resize(self.touched.len() * self.width, 0.0);
        }
        let sums = &mut self.sums[*place as usize * self.width..][..self.width];
        sums.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += scale * value);
    }

    /// Steps the rows that [`Self::add`] was called for, and clears their gradients.
    pub(super) fn step(&mut self, table: &mut [f32], rate: f32) {
        for (row, gradient) in self.touched.iter().zip(self.sums.chunks_exact(self.width)) {
            let index = *row as usize;
            self.steps[index] += 1;
            self.places[index] = NOWHERE;
            let at = index * self.width;
            self.moments.step(at, &mut table[at..at + self.width], gradient, rate, self.steps[index]);
        }
        self.touched.clear();
        self.sums.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{DenseAdam, SparseAdam};

    #[test]
    fn first_adam_step_has_length_of_the_rate() {
        let mut weights = vec![1.0, 1.0, 1.0];
        DenseAdam::new(3).step(&mut weights, &[5.0, -0.01, 0.0], 0.1);
        let expected = [0.9, 1.1, 1.0];
        assert!(weights.iter().zip(expected).all(|(weight, expected)| (weight - expected).abs() < 1e-4), "{weights:?}");
    }

    #[test]
    fn sparse_row_steps_like_a_dense_one() {
        let mut alone = vec![0.5, -0.5];
        let mut table = vec![0.5; 8];
        table[4..6].copy_from_slice(&alone);
        let mut dense = DenseAdam::new(2);
        let mut sparse = SparseAdam::new(4, 2);
        for step in 0..7 {
            if step % 3 == 0 {
                let gradient = [step as f32 - 2.0, 0.3];
                dense.step(&mut alone, &gradient, 0.01);
                // In two parts, as when a row occurs twice.
                sparse.add(2, &gradient, 0.25);
                sparse.add(2, &gradient, 0.75);
            } else {
                sparse.add(1, &[1.0, 1.0], 1.0);
            }
            sparse.step(&mut table, 0.01);
        }
        assert!(table[4..6].iter().zip(&alone).all(|(row, alone)| (row - alone).abs() < 1e-6), "{table:?} {alone:?}");
        assert_eq!(table[..2], [0.5; 2], "a row that never occurs stays");
    }
}
