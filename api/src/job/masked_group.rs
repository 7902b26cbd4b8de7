//! The group of a masked series: the server adds the members' integer vectors and learns their sum alone.
//!
//! All numbers follow from the signed spec and the public facts of the datasets, so the server and each site compute the
//! same ones. The protocol is in the crate `undertone-secure-aggregation`.

use serde::{Deserialize, Serialize};

use crate::id::DatasetId;

/// The fewest members of a group.
pub const LEAST_MEMBERS: usize = 3;
/// The most members of a group.
pub const MOST_MEMBERS: usize = 50;

/// A group whose vectors are added under masks. Lengths are in steps γ of its grid.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MaskedGroup {
    /// The members, in the order of the spec: the place is the index of the site in the group's roster.
    pub datasets: Vec<DatasetId>,
    /// n: the fewest vectors of a sum.
    pub smallest_group: u8,
    /// t: the members that may collude with the server.
    pub colluding: u8,
    /// C/γ: the norm of a unit's contribution.
    pub clip_steps: u32,
    /// s: the standard deviation of each member's noise.
    pub deviation: u32,
    /// γ.
    pub step: f64,
    /// b: the coordinates are integers modulo 2^b.
    pub bits: u8,
    /// d: the coordinates of a vector.
    pub length: u64,
}

impl MaskedGroup {
    /// Returns the index of a member; `None` for a dataset outside the group.
    pub fn index(&self, dataset: DatasetId) -> Option<u8> {
        let place = self.datasets.iter().position(|member| *member == dataset)?;
        u8::try_from(place).ok()
    }

    /// Returns the number of bytes of a masked vector.
    pub const fn bytes(&self) -> u64 {
        (self.length * self.bits as u64).div_ceil(8)
    }
}
