//! Where tensors are computed, chosen when the worker starts.
//!
//! The layers are written once over burn's tensors. The CPU is always there; `cuda` and `wgpu` are features of the program.
//! Beside the device, this room knows the one thing about it that privacy depends on ([`Processor::shares_passes`]).

use std::fmt;
use std::str::FromStr;
use std::sync::OnceLock;

use burn::tensor::Device;
use serde::{Deserialize, Serialize};

/// Why there is no such device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// Not a name of a device.
    #[error("`{0}` is no device: write `cpu`, `cuda`, `cuda:1`, `wgpu` or `wgpu:1`")]
    Unknown(String),
    /// The program was built without it.
    #[error(
        "this worker was built without `{feature}`: build it with `--features {feature}`, or set `device = \"cpu\"`"
    )]
    NotBuilt {
        /// The feature of the worker's package.
        feature: &'static str,
    },
    /// Too late to choose another.
    #[error("this process computes already: what it computes with is chosen once, before")]
    Begun,
    /// The machine has none, or not so many.
    #[error("this machine has no device `{wanted}`; it has: {present}")]
    Absent {
        /// What was asked for.
        wanted: Processor,
        /// What there is.
        present: String,
    },
}

/// A device by name: `cpu`, `cuda[:n]` or `wgpu[:n]`, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Processor {
    /// This machine's processors.
    #[default]
    Cpu,
    /// An NVIDIA graphics processor.
    Cuda(usize),
    /// A graphics processor through Vulkan, Metal or DirectX.
    Wgpu(usize),
}

impl Processor {
    /// The device.
    ///
    /// # Errors
    /// [`DeviceError`] when the program was built without it or the machine has none.
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

    /// Whether several units may go through one pass together.
    ///
    /// A unit's gradient must be a function of that unit alone, bit for bit, or the integers of [`super::clip`] prove nothing.
    /// On the CPU every product that mixes rows of several units is computed row by row in a fixed order. What a graphics
    /// processor's product does to a row may depend on how many others there are: there each unit passes alone.
    pub const fn shares_passes(self) -> bool {
        matches!(self, Self::Cpu)
    }
}

/// What the site's `config.toml` says of computing, as `[compute]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Compute {
    /// Where.
    pub device: Processor,
    /// Threads of the CPU's part, which is never none; 0 for one for each processor.
    pub threads: usize,
}

static CHOSEN: OnceLock<(Processor, Device)> = OnceLock::new();

impl Compute {
    /// Makes it what this process computes with, once, when it starts; answers with it in words, for the log.
    ///
    /// # Errors
    /// [`DeviceError`] when there is no such device, or computing has begun.
    pub fn choose(self) -> Result<String, DeviceError> {
        let device = self.device.open()?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads);
        // Without a wish, threads may have been started before.
        if pool.build_global().is_err() && self.threads > 0 {
            return Err(DeviceError::Begun);
        }
        if *CHOSEN.get_or_init(|| (self.device, device.clone())) != (self.device, device) {
            return Err(DeviceError::Begun);
        }
        Ok(format!("{}, {} threads, {}", self.device, rayon::current_num_threads(), Vectors::detect()))
    }
}

/// What this process computes with: the CPU where nothing was chosen.
pub fn chosen() -> (Processor, Device) {
    CHOSEN.get_or_init(|| (Processor::Cpu, Device::flex())).clone()
}

/// Whether tensors of a device lie in this process's memory, where the kernels of [`super::kernels`] reach them.
pub(in crate::dp) fn is_cpu(device: &Device) -> bool {
    *device == Device::flex()
}

/// The devices that the program was built for and the machine has, the CPU first.
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
    // A machine without the driver may end the enumeration by a panic; then it has no such device.
    let found = std::panic::catch_unwind(|| Device::enumerate(kind).into_vec()).unwrap_or_default();
    found.into_iter().enumerate().map(move |(index, device)| (name(index), device))
}

/// The vector instructions that the CPU's kernels use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vectors {
    /// Sixteen numbers at a time.
    Avx512,
    /// Eight.
    Avx2,
    /// Whatever the compiler assumes of every processor of the kind.
    Baseline,
}

impl Vectors {
    /// As found at run time.
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

impl fmt::Display for Vectors {
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
    fn the_cpu_is_always_there() {
        let present = devices_present();
        assert_eq!(present[0].0, Processor::Cpu);
        assert_eq!(Processor::Cpu.open().as_ref(), Ok(&present[0].1));
    }

    #[cfg(not(feature = "cuda"))]
    #[test]
    fn a_device_the_program_was_built_without_is_refused_by_the_name_of_its_feature() {
        let error = Processor::Cuda(0).open().expect_err("built without");
        assert!(error.to_string().contains("--features cuda"), "{error}");
    }

    #[cfg(any(feature = "cuda", feature = "wgpu"))]
    #[test]
    fn a_device_the_machine_does_not_have_is_refused_with_those_it_has() {
        let wanted = if cfg!(feature = "cuda") { Processor::Cuda(77) } else { Processor::Wgpu(77) };
        let error = wanted.open().expect_err("no machine has so many");
        assert!(error.to_string().contains("it has: cpu"), "{error}");
    }
}
