//! Streams of the secret from which the canaries follow.

/// The coins of the family `Direction`.
pub(super) const DIRECTION_COINS: u32 = 0;
/// The coins of the family `Recording`.
pub(super) const RECORDING_COINS: u32 = 1;
/// The coordinates and signs of the directions.
pub(super) const DIRECTIONS: u32 = 2;
/// The first synthetic recording; one stream each.
pub(super) const RECORDINGS: u32 = 1 << 16;
/// The first shadow, which is never a member.
pub(super) const SHADOWS: u32 = 1 << 20;
