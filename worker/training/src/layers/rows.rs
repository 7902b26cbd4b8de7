//! Rows of numbers as tensors: conversion from and to host memory, an added constant column, and reordering.

use burn::tensor::{Device, Int, Tensor, TensorData};

/// Returns the numbers of a tensor, without a copy on the CPU if the tensor is not shared.
pub(crate) fn host(rows: Tensor<2>) -> Vec<f32> {
    rows.into_data().try_into_vec::<f32>().expect("layers compute in f32")
}

/// Returns a tensor of `values`, `[rows, columns]` row-major.
pub(crate) fn tensor(values: Vec<f32>, shape: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values, shape), device)
}

/// Appends a column of ones.
pub(crate) fn with_one(rows: Tensor<2>) -> Tensor<2> {
    let ones = Tensor::ones([rows.dims()[0], 1], &rows.device());
    Tensor::cat(vec![rows, ones], 1)
}

/// Appends a row of zeros.
pub(super) fn with_zero_row(rows: Tensor<2>) -> Tensor<2> {
    let zeros = Tensor::zeros([1, rows.dims()[1]], &rows.device());
    Tensor::cat(vec![rows, zeros], 0)
}

/// Returns the rows with these numbers, in this order.
pub(super) fn take(rows: Tensor<2>, numbers: &[i64]) -> Tensor<2> {
    let numbers = Tensor::<1, Int>::from_data(TensorData::new(numbers.to_vec(), [numbers.len()]), &rows.device());
    rows.select(0, numbers)
}

/// Returns `count` columns starting at `from`.
pub(super) fn columns(rows: &Tensor<2>, from: usize, count: usize) -> Tensor<2> {
    let height = rows.dims()[0];
    rows.clone().slice([0..height, from..from + count])
}

/// Returns the first `count` rows.
pub(super) fn first(rows: &Tensor<2>, count: usize) -> Tensor<2> {
    if rows.dims()[0] == count { rows.clone() } else { rows.clone().narrow(0, 0, count) }
}

/// Appends rows of zeros up to `count` rows.
pub(super) fn grown(rows: Tensor<2>, count: usize) -> Tensor<2> {
    let [height, width] = rows.dims();
    if height == count {
        return rows;
    }
    let zeros = Tensor::zeros([count - height, width], &rows.device());
    Tensor::cat(vec![rows, zeros], 0)
}
