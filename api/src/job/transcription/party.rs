//! The one participant: its recordings are transcribed, and the counts of their pieces are protected.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use undertone_privacy::{Delta, Epsilon};

use crate::id::DatasetId;

/// The participant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = TranscriptionParty))]
#[serde(deny_unknown_fields)]
pub struct Party {
    /// Its dataset, of recordings.
    pub dataset: DatasetId,
    /// ε of the promise against `colluding` providers: 0.01 to 50.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 1.0))]
    pub epsilon: Epsilon,
    /// δ of the promise: above 0, at most 0.01.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.00001))]
    pub delta: Delta,
    /// d: the hidden distance in counts of pieces by word, added and removed together; 10 to 10,000, for public
    /// recordings from 1. One word of up to 1.2 seconds changes at most 10 counts.
    #[cfg_attr(feature = "openapi", schema(value_type = u32, example = 10))]
    pub distance: NonZeroU32,
}
