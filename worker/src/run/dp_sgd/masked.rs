//! A participant's vector of a masked round: the clipped integer sum of its batch, with its share of the group's noise.
//!
//! The sum is made before the first message of the round, and is on disk before anything of the round leaves: after a
//! crash the same sum is masked. Nothing here divides; the server divides the sum of the group.

use super::contribution::RoundContribution;
use super::learner::ArmLearner;
use super::site::TrainingSite;
use crate::dp::clip::Clip;
use crate::dp::randomness::Purpose;
use crate::run::{MaskedAveraging, RoundKey, RunError};
use crate::speech::model::gradient::Engine;

/// One masked round of one participant.
pub(super) struct MaskedContribution<'a, 'm> {
    pub(super) site: &'a TrainingSite,
    pub(super) key: RoundKey<'a>,
    pub(super) learner: &'a ArmLearner<'m>,
    pub(super) engine: &'a mut Engine,
    pub(super) masking: &'a mut dyn MaskedAveraging,
}

impl MaskedContribution<'_, '_> {
    /// Adds this participant's sum to the round, unless the round closed without it. Continues the round of an earlier
    /// process with its sum.
    ///
    /// # Errors
    /// [`RunError`] when the sum cannot be made or sent.
    pub(super) fn contribute(self, clip: Clip) -> Result<(), RunError> {
        let Self { site, key, learner, engine, masking } = self;
        if masking.resume_masked(key)? || masking.is_closed(key)? {
            return Ok(());
        }
        let noise = masking.group_noise()?;
        let exchange = &mut *masking;
        let mut round = RoundContribution { site, key, learner, canaries: None, correlated: None, engine, exchange };
        let sum = round.sum_batch(learner.model(), clip, None)?;
        let clearance = masking.clear(key)?;
        let sum = sum.release_masked(noise, clearance, &masking.draw_randomness(Purpose::Noise))?;
        masking.send_sum(key, sum)
    }
}
