//! The flat vector of parameters as a layer reads it: the layer's own range, on the host and on the device, and the
//! coordinates by which its gradient is reported.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};

use super::GradientProjection;
use crate::device::is_cpu;

/// A range of a flat vector of parameters.
#[derive(Debug, Clone)]
pub struct Parameters<'a> {
    host: &'a [f32],
    /// The start of this range in the whole vector.
    start: usize,
    /// The whole vector on the device, uploaded once. The CPU uses the host's vector.
    uploaded: Option<Tensor<1>>,
    device: Device,
    /// The map of gradients by the whole vector; `None` if each parameter is a coordinate.
    projection: Option<&'a GradientProjection>,
}

impl<'a> Parameters<'a> {
    /// Makes `host` available on a device.
    pub fn load(host: &'a [f32], device: &Device) -> Self {
        let uploaded = (!is_cpu(device) && !host.is_empty()).then(|| upload(host, device));
        Self { host, start: 0, uploaded, device: device.clone(), projection: None }
    }

    /// Returns the same parameters, with gradients by the coordinates of a projection of the whole vector.
    #[must_use]
    pub fn with_projection(self, projection: Option<&'a GradientProjection>) -> Self {
        Self { projection, ..self }
    }

    /// Returns a range of these parameters.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let (start, uploaded) = (self.start + range.start, self.uploaded.clone());
        Self { host: &self.host[range], start, uploaded, device: self.device.clone(), projection: self.projection }
    }

    /// Returns the number of parameters.
    pub const fn len(&self) -> usize {
        self.host.len()
    }

    /// Returns true if there are no parameters.
    pub const fn is_empty(&self) -> bool {
        self.host.is_empty()
    }

    /// Returns the number of coordinates of a gradient by these parameters.
    pub fn coordinates(&self) -> usize {
        self.projection.map_or(self.len(), |projection| projection.count(&(self.start..self.start + self.len())))
    }

    /// Returns whether gradients are by other coordinates than the parameters.
    pub(super) const fn is_projected(&self) -> bool {
        self.projection.is_some()
    }

    /// Returns the left operand of the gradient by the coordinates of a matrix of these parameters, for the left operand
    /// `[rows, m]` of the gradient by the matrix: `[rows, k]`. `None` if the matrix has no coordinate.
    ///
    /// # Panics
    /// If the matrix has other rows than the projection.
    pub(super) fn project(&self, left: Tensor<2>) -> Option<Tensor<2>> {
        match self.projection {
            None => Some(left),
            Some(projection) => projection.project(&(self.start..self.start + self.len()), &left),
        }
    }

    /// Returns the parameters in host memory.
    pub const fn host(&self) -> &'a [f32] {
        self.host
    }

    /// Returns the device of the parameters.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Returns all parameters as a `[rows, columns]` matrix, row-major.
    ///
    /// # Panics
    /// If the number of parameters differs.
    pub fn matrix(&self, rows: usize, columns: usize) -> Tensor<2> {
        assert_eq!(self.len(), rows * columns, "parameters of a matrix of {rows} × {columns}");
        match &self.uploaded {
            Some(whole) => {
                let range = self.start..self.start + self.len();
                whole.clone().slice([range]).reshape([rows, columns])
            }
            None => Tensor::from_data(TensorData::new(self.host.to_vec(), [rows, columns]), &self.device),
        }
    }
}

fn upload(host: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(host.to_vec(), [host.len()]), device)
}
