//! Masked rounds of a running job: the site's steps in their order, over the gateway, continued after a crash.
//!
//! The noisy sum is on disk before the first message, and the release clock ticks between them: so the time of the
//! messages does not depend on the batch. The ledger is charged when the masked vector leaves, after the masks are
//! agreed. A round that closes without this site needs nothing more: the run continues with its average.

use undertone_api::job::log::SiteEvent;
use undertone_api::problem::Code;

use super::{CallFailure, SiteExchange, WAIT};
use crate::daemon::part_session::step_failure;
use crate::dp::release::{GroupNoise, NoisySum};
use crate::gateway::{MaskedAnswer, MaskedStep};
use crate::run::{MaskedAveraging, RoundKey, RoundProgress, RunError};

impl MaskedAveraging for SiteExchange {
    fn group_noise(&self) -> Result<GroupNoise, RunError> {
        self.session.group_noise(&self.site)
    }

    fn resume_masked(&mut self, key: RoundKey<'_>) -> Result<bool, RunError> {
        let RoundKey { series, round } = key;
        match self.session.past(&self.site, series, round)? {
            RoundProgress::Lost => return Ok(true),
            RoundProgress::Untouched if !self.session.has_sum(&self.site, series, round)? => return Ok(false),
            RoundProgress::Untouched | RoundProgress::Stored | RoundProgress::Accepted => {}
        }
        self.run_masked_round(series, round)?;
        Ok(true)
    }

    fn send_sum(&mut self, key: RoundKey<'_>, sum: NoisySum) -> Result<(), RunError> {
        let RoundKey { series, round } = key;
        self.session.store_sum(&self.site, series, round, &sum)?;
        self.run_masked_round(series, round)
    }
}

impl SiteExchange {
    /// Takes the remaining steps of a masked round, from the stored sum or from the stored vector.
    fn run_masked_round(&self, series: &str, round: u32) -> Result<(), RunError> {
        self.enter_round(series, round);
        let progress = self.session.past(&self.site, series, round)?;
        if progress != RoundProgress::Accepted {
            self.wait_for_tick(series, round)?;
        }
        let failure = |error| step_failure(series, round, error);
        let group = self.session.accept_group(&self.site)?;
        let Some(mut open) = self.session.enter_masked(&self.site, &group, series, round)? else { return Ok(()) };
        if progress == RoundProgress::Untouched {
            let step = MaskedStep::Advertise(open.advertisement());
            let Some(MaskedAnswer { advertisements, .. }) = self.masked_step(series, round, &step)? else {
                return Ok(());
            };
            let step = MaskedStep::Share(open.share(advertisements).map_err(failure)?);
            let Some(MaskedAnswer { shares, .. }) = self.masked_step(series, round, &step)? else { return Ok(()) };
            self.session.store_masked(&group, &mut open, shares, series, round)?;
        }
        if progress != RoundProgress::Accepted {
            self.send_stored(series, round)?;
        }
        let Some(MaskedAnswer { survivors, .. }) = self.masked_step(series, round, &MaskedStep::Survivors)? else {
            return Ok(());
        };
        let step = MaskedStep::Sign(open.sign(survivors).map_err(failure)?);
        let Some(MaskedAnswer { signatures, .. }) = self.masked_step(series, round, &step)? else { return Ok(()) };
        let step = MaskedStep::Reveal(open.reveal(&signatures).map_err(failure)?);
        self.masked_step(series, round, &step).map(|_| ())
    }

    /// Sends the message of a step until the server has the input of the next one; `None` when the round continues, or
    /// has ended, without this site.
    fn masked_step(&self, series: &str, round: u32, step: &MaskedStep) -> Result<Option<MaskedAnswer>, RunError> {
        self.site.ledger.check_quiet().map_err(RunError::refused)?;
        let gateway = &self.site.gateway;
        loop {
            let answer = self.repeat_call("masked step", |token| async move {
                gateway.masked_step(&token, series, round, WAIT, step).await
            });
            match answer {
                Ok(Some(answer)) => return Ok(Some(answer)),
                Ok(None) => {}
                Err(CallFailure::Refused(error)) if error.code() == Some(Code::RoundClosed) => {
                    let is_sent = !matches!(step, MaskedStep::Advertise(_) | MaskedStep::Share(_));
                    tracing::info!(job.id = %self.session.examined().manifest.job, series, round, is_sent, "the masked round continues, or has closed, without this step");
                    if !is_sent {
                        self.log.record_round(series, |series| SiteEvent::Missed { series, round });
                    }
                    return Ok(None);
                }
                Err(failure) => return Err(spoiled_or_failed(failure)),
            }
        }
    }

    /// Returns the number of coordinates of the group's vectors.
    #[cfg(test)]
    pub(in crate::daemon) fn masked_length(&self) -> usize {
        self.session.masked_group("private").map_or(0, |group| group.length as usize)
    }

    /// Ends a masked round at this site, after its average has arrived.
    pub(super) fn end_masked_round(&self, series: &str, round: u32) -> Result<(), RunError> {
        if self.session.masked_group(series).is_none() {
            return Ok(());
        }
        self.session.close_masked(&self.site, series, round)
    }
}

/// Converts the failure of a call: a sum that can never be opened ends the part with the server's reason, which names no
/// private data.
pub(super) fn spoiled_or_failed(failure: CallFailure) -> RunError {
    match failure {
        CallFailure::Refused(error) if error.code() == Some(Code::WrongState) => RunError::refused(error),
        failure => failure.into(),
    }
}
