//! What a policy file means that says nothing of a rule.

use std::num::NonZeroU32;

use undertone_api::job::transcription::window::ONE_WORD;
use undertone_privacy::SamplingRate;

/// What a file that says nothing of it demands: that of the template.
pub(super) const fn least_threshold() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(9)
}

/// What a file that says nothing of it allows: that of the template.
pub(super) fn most_sampling_rate() -> SamplingRate {
    SamplingRate::new(0.5).expect("one half is greater than 0 and at most 1")
}

/// What a file that says nothing of it demands: that of the template.
pub(super) const fn least_distance() -> NonZeroU32 {
    NonZeroU32::MIN.saturating_add(ONE_WORD - 1)
}

/// What a file that says nothing of it demands: that of the template.
pub(super) const fn least_colluding() -> NonZeroU32 {
    NonZeroU32::MIN
}
