//! The flat vector of parameters as a layer reads it: the layer's own range, on the host and on the device.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};

use crate::device::is_cpu;

/// A range of a flat vector of parameters.
#[derive(Debug, Clone)]
pub struct Parameters<'a> {
    host: &'a [f32],
    /// The whole vector on the device, uploaded once, with the start of this range in it. The CPU uses the host's
    /// vector.
    uploaded: Option<(Tensor<1>, usize)>,
    device: Device,
}

impl<'a> Parameters<'a> {
    /// Makes `host` available on a device.
    pub fn load(host: &'a [f32], device: &Device) -> Self {
        let uploaded = (!is_cpu(device) && !host.is_empty()).then(|| (upload(host, device), 0));
        Self { host, uploaded, device: device.clone() }
    }

    /// Returns a range of these parameters.
    ///
    /// # Panics
    /// If the range is out of bounds.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let uploaded = self.uploaded.as_ref().map(|(whole, start)| (whole.clone(), start + range.start));
        Self { host: &self.host[range], uploaded, device: self.device.clone() }
    }

    /// Returns the number of parameters.
    pub const fn len(&self) -> usize {
        self.host.len()
    }

    /// Returns true if there are no parameters.
    pub const fn is_empty(&self) -> bool {
        self.host.is_empty()
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
            Some((whole, start)) => {
                let range = *start..*start + self.len();
                whole.clone().slice([range]).reshape([rows, columns])
            }
            None => Tensor::from_data(TensorData::new(self.host.to_vec(), [rows, columns]), &self.device),
        }
    }
}

fn upload(host: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(host.to_vec(), [host.len()]), device)
}
