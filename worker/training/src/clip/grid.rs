//! The norm bound and the noise of a clip on the integer grid: the scale 1/γ, the radius ⌊C/γ⌋ and the deviation σ/γ.

use undertone_privacy::NoiseMultiplier;

use super::mode::ClipMode;

/// The minimum of C/γ and σ/γ.
pub(super) const FINENESS: f64 = (1_u64 << 20) as f64;

/// The highest ⌊C/γ⌋ of a group's grid: a unit's coordinates fit 31 bits.
const MOST_STEPS: u32 = 1 << 30;

/// Reasons why a clip is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ClipError {
    /// The bound is not a valid norm.
    #[error("clip {0} is not a valid bound: set a finite number greater than 0 and at most 1,000,000")]
    Bound(f64),
    /// The steps of a group's grid are out of range.
    #[error("a clip of {0} steps is out of range: set 1 to 2^30 steps, and noise of 1 step or more")]
    Steps(u32),
    /// A sum has other steps than those of the clip.
    #[error("steps of 1/{0} of the clip are no multiples of its grid")]
    Grid(u64),
    /// A sum does not fit 64 bits.
    #[error("a sum of contributions does not fit 64 bits: add a part of the units")]
    Overflow,
    /// The integers cannot represent clip and noise together.
    #[error("noise multiplier {0} is outside 1/1024 to 1024, the range of exact noise: set one within it")]
    Noise(f64),
}

/// C and z on the integer grid.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Clip {
    pub(super) bound: f64,
    noise_multiplier: NoiseMultiplier,
    /// 1/γ = 2ᵇ.
    pub(super) scale: f64,
    /// ⌊C/γ⌋, below 2³¹.
    pub(super) radius: u64,
    /// σ/γ, below 2³²: the least integer that is not below z·⌊C/γ⌋, or this site's noise on the grid of a group.
    deviation: u64,
    pub(super) mode: ClipMode,
}

impl Clip {
    /// Returns a clip to L2 norm `bound`, with noise of standard deviation `noise_multiplier` · `bound`.
    ///
    /// # Errors
    /// [`ClipError`] if either is out of range.
    pub fn new(bound: f64, noise_multiplier: NoiseMultiplier) -> Result<Self, ClipError> {
        let z = noise_multiplier.get();
        if !(bound.is_finite() && bound > 0.0 && bound <= 1e6) {
            return Err(ClipError::Bound(bound));
        }
        if !(1.0 / 1024.0..=1024.0).contains(&z) {
            return Err(ClipError::Noise(z));
        }
        let least = bound * z.min(1.0);
        let mut scale = 1.0;
        while least * scale < FINENESS {
            scale *= 2.0;
        }
        while least * scale >= 2.0 * FINENESS {
            scale /= 2.0;
        }
        let radius = (bound * scale).floor();
        // The product is rounded, so the next number above it is not below the true product.
        let deviation = (z * radius).next_up().ceil();
        let (radius, deviation) = (radius as u64, deviation as u64);
        Ok(Self { bound, noise_multiplier, scale, radius, deviation, mode: ClipMode::Flat })
    }

    /// Returns a clip to L2 norm `bound` on the grid of a group, γ = `bound` / `steps`. A unit's integer vector has a norm
    /// of at most `steps`, exactly. `deviation` is the standard deviation of this site's noise in steps, which may be a
    /// part of the group's noise of multiplier `noise_multiplier`.
    ///
    /// # Errors
    /// [`ClipError`] if bound or steps are out of range.
    pub fn on_grid(
        bound: f64,
        noise_multiplier: NoiseMultiplier,
        steps: u32,
        deviation: u32,
    ) -> Result<Self, ClipError> {
        if !(bound.is_finite() && bound > 0.0 && bound <= 1e6) {
            return Err(ClipError::Bound(bound));
        }
        if steps == 0 || steps > MOST_STEPS || deviation == 0 {
            return Err(ClipError::Steps(steps));
        }
        let scale = f64::from(steps) / bound;
        let (radius, deviation) = (u64::from(steps), u64::from(deviation));
        Ok(Self { bound, noise_multiplier, scale, radius, deviation, mode: ClipMode::Flat })
    }

    /// Returns the same bound and noise with another clipping mode; [`Self::new`] and [`Self::on_grid`] set
    /// [`ClipMode::Flat`].
    #[must_use]
    pub const fn with_mode(self, mode: ClipMode) -> Self {
        Self { mode, ..self }
    }

    /// Returns the clipping mode.
    pub const fn mode(&self) -> ClipMode {
        self.mode
    }

    /// Returns C.
    pub const fn bound(&self) -> f64 {
        self.bound
    }

    /// Returns z.
    pub const fn noise_multiplier(&self) -> NoiseMultiplier {
        self.noise_multiplier
    }

    /// Returns ⌊C/γ⌋, the maximum norm of a unit's integer vector.
    pub const fn radius(&self) -> u64 {
        self.radius
    }

    /// Returns σ/γ: not below z·⌊C/γ⌋, except on the grid of a group.
    pub const fn deviation(&self) -> u64 {
        self.deviation
    }

    /// Returns γ, the value of one step of the grid.
    pub fn step(&self) -> f64 {
        1.0 / self.scale
    }
}
