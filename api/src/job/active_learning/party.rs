//! The participants, and the gate that releases their questions.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use undertone_privacy::kanon::Shown;
use undertone_privacy::{Epsilon, Event, SamplingRate};

use crate::id::DatasetId;

/// A participant.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ActiveLearningParty))]
pub struct Party {
    /// Its dataset, a query log.
    pub dataset: DatasetId,
    /// The gate through which its questions leave. Only the lead may have none: it then asks no questions from its own
    /// log.
    #[serde(default)]
    pub gate: Option<Gate>,
}

/// The gate of a query log. It releases the texts that at least k of the sampled rows have. One sample is drawn, once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Gate {
    /// β: the probability with which each row is kept, independently and in secret. It is below 1 unless the data are
    /// public.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.25))]
    pub sampling_rate: SamplingRate,
    /// k: the kept rows that a text needs to be released; 1 to 1,000,000.
    #[cfg_attr(feature = "openapi", schema(value_type = u32, example = 20))]
    pub threshold: NonZeroU32,
    /// The ε at which δ is charged: at least −ln(1 − β) unless only the set of texts is released. It has no effect on
    /// public data.
    #[cfg_attr(feature = "openapi", schema(value_type = f64, example = 0.5))]
    pub epsilon: Epsilon,
    /// The content that is released with the texts, and the bound by which δ is charged.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = String, example = "set"))]
    pub shown: Shown,
    /// The most distinct texts of one unit that enter the sample: 1 where rows are protected, 1 to 1,000 where users
    /// are.
    #[serde(default = "single")]
    #[cfg_attr(feature = "openapi", schema(value_type = u32))]
    pub rows_per_unit: NonZeroU32,
}

const fn single() -> NonZeroU32 {
    NonZeroU32::MIN
}

impl Gate {
    /// Returns the release of one pool of this gate.
    pub const fn event(&self) -> Event {
        Event::SampledThreshold {
            sampling_rate: self.sampling_rate,
            threshold: self.threshold,
            epsilon: self.epsilon,
            shown: self.shown,
            rows_per_unit: self.rows_per_unit,
        }
    }

    /// Returns whether the number of kept rows leaves with each text.
    pub const fn shows_counts(&self) -> bool {
        self.shown.shows_counts()
    }
}
