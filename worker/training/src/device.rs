//! The device for tensor computations, configured when the worker starts.
//!
//! The layers are written once over burn's tensors. The CPU is always available; `cuda` and `wgpu` are features of the
//! program. This module also defines the one property of a device that privacy depends on
//! ([`Processor::shares_passes`]).

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// Reasons why a device cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The name is not that of a device.
    #[error("`{0}` is no device: use `cpu`, `cuda`, `cuda:1`, `wgpu` or `wgpu:1`")]
    Unknown(String),
    /// The program was built without support for the device.
    #[error(
        "this worker was built without `{feature}`: build it with `--features {feature}`, or set `device = \"cpu\"`"
    )]
    NotBuilt {
        /// The feature of the worker's package.
        feature: &'static str,
    },
    /// The process has already selected another device.
    #[error("the process already computes on another device: select the device once, before the first computation")]
    Begun,
    /// The machine lacks the device.
    #[error("this machine has no device `{wanted}`: set one that it has: {present}")]
    Absent {
        /// The requested device.
        wanted: Processor,
        /// The available devices.
        present: String,
    },
}

/// A device by name: `cpu`, `cuda[:n]` or `wgpu[:n]`, with n counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Processor {
    /// The CPUs of this machine.
    #[default]
    Cpu,
    /// An NVIDIA graphics processor.
    Cuda(usize),
    /// A graphics processor through Vulkan, Metal or DirectX.
    Wgpu(usize),
}

impl Processor {
    /// Opens the device.
    ///
    /// # Errors
    /// [`DeviceError`] if the program was built without the device or the machine lacks it.
    pub fn open(self) -> Result<Device, DeviceError> {
        match self {
            Self::Cpu => Ok(Device::flex()),
            Self::Cuda(_) if !cfg!(feature = "cuda") => Err(DeviceError::NotBuilt { feature: "cuda" }),
            Self::Wgpu(_) if !cfg!(feature = "wgpu") => Err(DeviceError::NotBuilt { feature: "wgpu" }),
            Self::Cuda(_) | Self::Wgpu(_) => {
                let present = devices_present();
                present.iter().find(|(name, _)| *name == self).map(|(_, device)| device.clone()).ok_or_else(|| {
                    let present: Vec<String> = present.iter().map(|(name, _)| name.to_string()).collect();
                    DeviceError::Absent { wanted: self, present: present.join(", ") }
                })
            }
        }
    }

    /// Returns true if several units may share one pass.
    ///
    /// The gradient of a unit must be a function of that unit alone, bit for bit; otherwise the integers of
    /// [`super::clip`] prove nothing. On the CPU, every product that mixes rows of several units is computed row by row
    /// in a fixed order. On a graphics processor, the result for one row may depend on the number of other rows, so
    /// each unit has its own pass.
    pub const fn shares_passes(self) -> bool {
        matches!(self, Self::Cpu)
    }
}

/// The `[compute]` section of the site's `config.toml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compute {
    /// The device.
    pub device: Processor,
    /// Number of threads for the CPU's part of the work, which every device needs; 0 means one thread per processor.
    pub threads: usize,
}

static CHOSEN: OnceLock<(Processor, Device)> = OnceLock::new();

impl Compute {
    /// Selects this device for the process, once at start, and returns its description for the log.
    ///
    /// # Errors
    /// [`DeviceError`] if the device cannot be used or another one is in use.
    pub fn choose(self) -> Result<String, DeviceError> {
        let device = self.device.open()?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads);
        // Without a configured count, the pool may exist already.
        if pool.build_global().is_err() && self.threads > 0 {
            return Err(DeviceError::Begun);
        }
        if *CHOSEN.get_or_init(|| (self.device, device.clone())) != (self.device, device) {
            return Err(DeviceError::Begun);
        }
        Ok(format!("{}, {} threads, {}", self.device, rayon::current_num_threads(), VectorInstructions::detect()))
    }
}

/// Returns the device of this process, the CPU by default.
pub fn chosen() -> (Processor, Device) {
    CHOSEN.get_or_init(|| (Processor::Cpu, Device::flex())).clone()
}

/// Returns true if tensors of `device` are in host memory, where the kernels of [`super::kernels`] can read them.
pub(crate) fn is_cpu(device: &Device) -> bool {
    *device == Device::flex()
}

/// Returns the devices that the program supports and the machine has, the CPU first.
pub fn devices_present() -> Vec<(Processor, Device)> {
    #[cfg_attr(not(any(feature = "cuda", feature = "wgpu")), expect(unused_mut, reason = "there is only the CPU"))]
    let mut present = vec![(Processor::Cpu, Device::flex())];
    #[cfg(feature = "cuda")]
    present.extend(numbered(burn::tensor::DeviceType::Cuda, Processor::Cuda));
    #[cfg(feature = "wgpu")]
    present.extend(numbered(burn::tensor::DeviceType::Wgpu, Processor::Wgpu));
    present
}

#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn numbered(
    kind: burn::tensor::DeviceType,
    name: impl Fn(usize) -> Processor,
) -> impl Iterator<Item = (Processor, Device)> {
    // Without the driver, the enumeration may panic; then the machine has no such device.
    let devices = std::panic::catch_unwind(|| Device::enumerate(kind).into_vec()).unwrap_or_default();
    devices.into_iter().enumerate().map(move |(index, device)| (name(index), device))
}

/// The vector instructions that the CPU kernels use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VectorInstructions {
    /// Sixteen numbers per instruction.
    Avx512,
    /// Eight numbers per instruction.
    Avx2,
    /// The baseline that the compiler assumes for the target.
    Baseline,
}

impl VectorInstructions {
    /// Detects the instructions of this processor at run time.
    pub fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if pulp::x86::V4::try_new().is_some() {
                return Self::Avx512;
            }
            if pulp::x86::V3::try_new().is_some() {
                return Self::Avx2;
            }
        }
        Self::Baseline
    }
}

impl fmt::Display for VectorInstructions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Avx512 => "AVX-512",
            Self::Avx2 => "AVX2",
            Self::Baseline => "no vector instructions beyond the processor's baseline",
        })
    }
}

impl fmt::Display for Processor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
            Self::Wgpu(index) => write!(f, "wgpu:{index}"),
        }
    }
}

impl FromStr for Processor {
    type Err = DeviceError;

    fn from_str(text: &str) -> Result<Self, DeviceError> {
        let unknown = || DeviceError::Unknown(text.to_owned());
        let (kind, index) = match text.split_once(':') {
            Some((kind, index)) => (kind, Some(index.parse().map_err(|_| unknown())?)),
            None => (text, None),
        };
        match (kind, index) {
            ("cpu", None) => Ok(Self::Cpu),
            ("cuda", index) => Ok(Self::Cuda(index.unwrap_or(0))),
            ("wgpu", index) => Ok(Self::Wgpu(index.unwrap_or(0))),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for Processor {
    type Error = DeviceError;

    fn try_from(text: String) -> Result<Self, DeviceError> {
        text.parse()
    }
}

impl From<Processor> for String {
    fn from(processor: Processor) -> Self {
        processor.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::{DeviceError, Processor, devices_present};

    #[test]
    fn devices_are_read_by_name() {
        for (text, compute) in [
            ("cpu", Processor::Cpu),
            ("cuda", Processor::Cuda(0)),
            ("cuda:3", Processor::Cuda(3)),
            ("wgpu:1", Processor::Wgpu(1)),
        ] {
            assert_eq!(text.parse(), Ok(compute));
            assert_eq!(compute.to_string().parse(), Ok(compute));
        }
        for text in ["", "gpu", "cpu:1", "cuda:", "cuda:-1", "cuda:x", "CPU"] {
            assert_eq!(text.parse::<Processor>(), Err(DeviceError::Unknown(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn cpu_is_always_present() {
        let present = devices_present();
        assert_eq!(present[0].0, Processor::Cpu);
        assert_eq!(Processor::Cpu.open().as_ref(), Ok(&present[0].1));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn device_without_its_feature_is_refused_by_name() {
        let error = Processor::Cuda(0).open().expect_err("built without");
        assert!(error.to_string().contains("--features cuda"), "{error}");
    }

    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    #[test]
    fn absent_device_is_refused_with_the_present_ones() {
        let requested = if cfg!(feature = "cuda") { Processor::Cuda(77) } else { Processor::Wgpu(77) };
        let error = requested.open().expect_err("no machine has so many");
        assert!(error.to_string().contains("it has: cpu"), "{error}");
    }
}
