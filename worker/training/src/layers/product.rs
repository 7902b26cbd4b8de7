//! Rows of many units times one matrix.
//!
//! The products of a pass mix units in one operand. On the CPU, each element of such a product is one chain of fused
//! multiply-adds in a fixed order, whichever rows are above and below it: the result for a unit's rows does not depend
//! on the other units, to the last bit. No library of matrix products guarantees that. On other devices the product is
//! an ordinary one, and each unit has its own pass ([`crate::device::Processor::shares_passes`]).

use burn::tensor::{Device, Tensor};
use rayon::prelude::*;

use super::Parameters;
use super::lstm::panel::PanelMatrix;
use super::rows::{host, tensor};
use crate::device::is_cpu;
use crate::vector::vectorized;

/// Rows that a thread processes at a time.
const ROWS: usize = 48;

/// A matrix that rows are multiplied with.
pub(crate) enum Matrix {
    Host { panels: PanelMatrix, shape: [usize; 2] },
    Device(Tensor<2>),
}

impl Matrix {
    /// Returns the matrix of parameters `[rows, columns]`.
    pub(crate) fn new(parameters: &Parameters<'_>, rows: usize, columns: usize) -> Self {
        if is_cpu(parameters.device()) {
            Self::Host { panels: PanelMatrix::new(parameters.host(), rows, columns), shape: [rows, columns] }
        } else {
            Self::Device(parameters.matrix(rows, columns))
        }
    }

    /// Returns the transpose of parameters `[rows, columns]`.
    pub(crate) fn transposed(parameters: &Parameters<'_>, rows: usize, columns: usize) -> Self {
        if is_cpu(parameters.device()) {
            Self::Host { panels: PanelMatrix::transposed(parameters.host(), rows, columns), shape: [columns, rows] }
        } else {
            Self::Device(parameters.matrix(rows, columns).transpose())
        }
    }

    /// Returns the column that maps rows of `width` numbers to their means.
    pub(crate) fn mean(width: usize, device: &Device) -> Self {
        let values = vec![1.0 / width as f32; width];
        if is_cpu(device) {
            Self::Host { panels: PanelMatrix::new(&values, width, 1), shape: [width, 1] }
        } else {
            Self::Device(tensor(values, [width, 1], device))
        }
    }

    /// Returns the product of `rows` and this matrix.
    ///
    /// # Panics
    /// If the length of a row differs from the number of matrix rows.
    pub(crate) fn times(&self, rows: Tensor<2>) -> Tensor<2> {
        match self {
            Self::Device(matrix) => rows.matmul(matrix.clone()),
            Self::Host { panels, shape: [inner, columns] } => {
                let (device, [count, width]) = (rows.device(), rows.dims());
                assert_eq!(width, *inner, "inner dimensions of a product");
                let source = host(rows);
                let mut target = vec![0.0; count * columns];
                let part = |source: &[f32], target: &mut [f32]| {
                    let count = source.len() / inner;
                    let offsets = |width: usize| (0..count).map(|row| row * width).collect::<Vec<_>>();
                    let (from, to) = (offsets(*inner), offsets(*columns));
                    vectorized!(panels.multiply(source, &from, target, &to));
                };
                if count > ROWS {
                    let parts = source.par_chunks(ROWS * inner).zip(target.par_chunks_mut(ROWS * columns));
                    parts.for_each(|(source, target)| part(source, target));
                } else {
                    part(&source, &mut target);
                }
                tensor(target, [count, *columns], &device)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Matrix, ROWS};
    use crate::device::devices_present;
    use crate::layers::Parameters;
    use crate::layers::rows::{host, tensor};

    #[test]
    fn products_are_right_on_every_device() {
        for (name, device) in devices_present() {
            let values: Vec<f32> = (0..21 * 35).map(|n| (n * 37 % 101) as f32 / 50.0 - 1.0).collect();
            let rows: Vec<f32> = (0..(ROWS + 7) * 21).map(|n| (n * 53 % 97) as f32 / 40.0 - 1.0).collect();
            let parameters = Parameters::load(&values, &device);
            let plain = tensor(rows.clone(), [ROWS + 7, 21], &device);
            let expected = host(plain.clone().matmul(parameters.matrix(21, 35)));
            let product = host(Matrix::new(&parameters, 21, 35).times(plain.clone()));
            let close = |a: &[f32], b: &[f32]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4);
            assert!(close(&product, &expected), "{name}");
            let turned = host(Matrix::transposed(&parameters, 35, 21).times(plain.clone()));
            let expected = host(plain.clone().matmul(parameters.matrix(35, 21).transpose()));
            assert!(close(&turned, &expected), "{name}");
            let means = host(Matrix::mean(21, &device).times(plain));
            let expected: Vec<f32> = rows.chunks(21).map(|row| row.iter().sum::<f32>() / 21.0).collect();
            assert!(close(&means, &expected), "{name}");
        }
    }
}
