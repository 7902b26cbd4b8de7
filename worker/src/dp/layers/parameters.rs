//! The flat vector of parameters as layers see it: their own part of it, on the host and on the device.

use std::ops::Range;

use burn::tensor::{Device, Tensor, TensorData};

use crate::dp::device::is_cpu;

/// A range of a flat vector of parameters.
#[derive(Debug, Clone)]
pub struct Parameters<'a> {
    host: &'a [f32],
    /// The whole vector on the device, uploaded once, and where this range of it begins; the host's own serves the CPU.
    uploaded: Option<(Tensor<1>, usize)>,
    device: Device,
}

impl<'a> Parameters<'a> {
    /// Makes parameters known to a device.
    pub fn load(host: &'a [f32], device: &Device) -> Self {
        let uploaded = (!is_cpu(device) && !host.is_empty()).then(|| (upload(host, device), 0));
        Self { host, uploaded, device: device.clone() }
    }

    /// A range of them.
    ///
    /// # Panics
    /// If there are not so many.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        let uploaded = self.uploaded.as_ref().map(|(whole, start)| (whole.clone(), start + range.start));
        Self { host: &self.host[range], uploaded, device: self.device.clone() }
    }

    /// How many.
    pub const fn len(&self) -> usize {
        self.host.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.host.is_empty()
    }

    /// As numbers of this process.
    pub const fn host(&self) -> &'a [f32] {
        self.host
    }

    /// Where they are used.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// All of them as a `[rows, columns]` matrix, row-major.
    ///
    /// # Panics
    /// If there is another number of them.
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
