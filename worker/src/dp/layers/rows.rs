//! Rows of numbers as tensors: to and from this process, with a constant 1, in another order.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// The numbers of a tensor. Free on the CPU, where nobody else holds it.
pub(in crate::dp) fn host(rows: Tensor<2>) -> Vec<f32> {
    rows.into_data().try_into_vec::<f32>().expect("layers compute in f32")
}

/// A tensor of numbers, `[rows, columns]` row-major.
pub(in crate::dp) fn tensor(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// With one more column of ones.
pub(in crate::dp) fn with_one(rows: Tensor<2>) -> Tensor<2> {
    let ones = Tensor::ones([rows.dims()[0], 1], &rows.device());
    Tensor::cat(vec![rows, ones], 1)
}

/// With one more row of zeros.
pub(super) fn with_zero_row(rows: Tensor<2>) -> Tensor<2> {
    let zeros = Tensor::zeros([1, rows.dims()[1]], &rows.device());
    Tensor::cat(vec![rows, zeros], 0)
}

/// The rows of these numbers, in this order.
pub(super) fn take(rows: Tensor<2>, numbers: &[i64]) -> Tensor<2> {
    let numbers = Tensor::<1, Int>::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), &rows.device());
    rows.select(0, numbers)
}

/// Some neighbouring columns.
pub(super) fn columns(rows: &Tensor<2>, from: usize, count: usize) -> Tensor<2> {
    let height = rows.dims()[0];
    rows.clone().slice([0..height, from..from + count])
}

/// The first rows.
pub(super) fn first(rows: &Tensor<2>, count: usize) -> Tensor<2> {
    if rows.dims()[0] == count { rows.clone() } else { rows.clone().narrow(0, 0, count) }
}

/// With rows of zeros at the end, so that there are so many.
pub(super) fn grown(rows: Tensor<2>, count: usize) -> Tensor<2> {
    let [height, width] = rows.dims();
    if height == count {
        return rows;
    }
    let zeros = Tensor::zeros([count - height, width], &rows.device());
    Tensor::cat(vec![rows, zeros], 0)
}
