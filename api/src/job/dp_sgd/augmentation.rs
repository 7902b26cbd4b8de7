//! Altered copies of each unit of a batch (augmentation multiplicity: De, Berrada, Hayes, Smith and Balle 2022, "Unlocking
//! high-accuracy differentially private image classification through scale", section 3).
//!
//! The gradient of a unit is the mean over its copies, and that mean is clipped. A unit moves the sum by at most C as
//! without copies, so the noise and the price stay the same.

use serde::{Deserialize, Serialize};

/// Masked runs of neighbouring frames, or of neighbouring coefficients, of each utterance (Park et al. 2019,
/// "SpecAugment"). The length of a run is uniform from 0 to `longest`, and at most half of the utterance's frames or of the
/// frame's coefficients. A masked value becomes the public mean of its coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MaskedRuns {
    /// The number of runs: 1 to 8 of frames, 1 to 4 of coefficients. They may overlap.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 8))]
    pub count: u32,
    /// The longest run: 1 to 50 frames, 1 to 8 coefficients.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 50))]
    pub longest: u32,
}

/// Altered copies of each unit in a batch. At least one alteration is named: equal copies have the gradient of one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UnitAugmentation {
    /// K: the copies of each unit in a step, 2 to 16. A step takes about K times as long.
    #[cfg_attr(feature = "openapi", schema(minimum = 2, maximum = 16))]
    pub copies: u32,
    /// Masked runs of frames. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_masks: Option<MaskedRuns>,
    /// Masked runs of coefficients. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coefficient_masks: Option<MaskedRuns>,
    /// The standard deviation of noise that is added to each value, relative to the public deviation of its coefficient: 0
    /// to 1. It adds no protection.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1))]
    pub noise: f64,
}

impl UnitAugmentation {
    /// Returns `copies` copies with the usual alterations: two masked runs of up to 10 frames, one of up to 3 coefficients,
    /// and noise of a tenth of a deviation.
    pub const fn with_usual_alterations(copies: u32) -> Self {
        Self {
            copies,
            frame_masks: Some(MaskedRuns { count: 2, longest: 10 }),
            coefficient_masks: Some(MaskedRuns { count: 1, longest: 3 }),
            noise: 0.1,
        }
    }

    /// Returns whether the copies differ from the unit.
    pub fn alters(&self) -> bool {
        self.frame_masks.is_some() || self.coefficient_masks.is_some() || self.noise != 0.0
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}
