//! Default rules for fields that a policy file does not contain. They equal the template's rules.

use std::num::NonZeroU32;

use undertone_api::job::transcription::window::ONE_WORD;
use undertone_privacy::SamplingRate;

/// Returns the default of `jobs.least_threshold`.
pub(super) const fn least_threshold() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(9)
}

/// Returns the default of `jobs.most_sampling_rate`.
pub(super) fn most_sampling_rate() -> SamplingRate {
    SamplingRate::new(0.5).expect("one half is greater than 0 and at most 1")
}

/// Returns the default of `jobs.least_distance`.
pub(super) const fn least_distance() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(ONE_WORD - 1)
}

/// Returns the default of `jobs.least_colluding`.
pub(super) const fn least_colluding() -> NonZeroU32 {
    NonZeroU32::MIN
}
