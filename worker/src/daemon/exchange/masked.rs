//! Masked rounds of a running job: the site's steps in their order, over the gateway, continued after a crash.
//!
//! The noisy sum is on disk before the first message, and the release clock ticks between them: so the time of the
//! messages does not depend on the batch. The ledger is charged when the masked vector leaves, after the masks are
//! agreed. A round that closes without this site needs nothing more: the run continues with its average.
//!
//! A server that was restored from an older state lacks steps of a round. The site then takes its steps again from the
//! first remaining one: each message is the same as before, and a missing vector is sent again, as the same bytes under
//! the same receipt. Where the server shows other advertisements, shares or survivors than the site has recorded, the site
//! refuses ([`SiteExchange::leave_round`]) and waits for the average as a site that was left out. Such a server may also
//! be dishonest. The site gives nothing away by its refusal, and does not depend on the reason.

use std::time::Duration;

use undertone_api::job::log::{SiteEvent, StepConflict};
use undertone_api::problem::Code;
use undertone_secure_aggregation::refusal::{Refusal, SiteError};
use undertone_secure_aggregation::site_set::SiteSet;

use super::{CallFailure, SiteExchange, WAIT};
use crate::daemon::part_session::step_failure;
use crate::dp::release::{GroupNoise, NoisySum};
use crate::gateway::{GatewayError, LONGEST_PAUSE, MaskedAnswer, MaskedStep, pauses};
use crate::run::{MaskedAveraging, RoundKey, RoundProgress, RunError};
use crate::site::masked_rounds::RecordError;

/// The end of this site's steps in a round.
enum RoundEnd {
    /// All steps are taken.
    Taken,
    /// The round continues, or has ended, without this site.
    LeftOut,
    /// The round ended here before: its average was fetched.
    Ended,
    /// This site has refused a step, and takes no further part.
    Refused,
}

/// The reason why a step has no answer.
enum StepStop {
    /// This site needs no further step.
    End(RoundEnd),
    /// The server lacks an earlier step of this site, or the round is not open yet: the site takes its steps again.
    Behind,
    /// The server rejects the signature or the shares of this site.
    Rejected(GatewayError),
    /// The run has to stop.
    Failed(RunError),
}

impl From<RunError> for StepStop {
    fn from(error: RunError) -> Self {
        Self::Failed(error)
    }
}

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
        if self.session.past(&self.site, series, round)? != RoundProgress::Accepted {
            self.wait_for_tick(series, round)?;
        }
        self.take_part(series, round).map(|_| ())
    }

    /// Takes the steps of a round again while its average is missing: a server that was restored meanwhile may lack some of
    /// them. Returns whether another repetition may help.
    ///
    /// # Errors
    /// The errors of [`MaskedAveraging::send_sum`].
    pub(super) fn repeat_masked_round(&self, series: &str, round: u32) -> Result<bool, RunError> {
        let is_member = self.session.masked_group(series).is_some();
        if !is_member || self.session.past(&self.site, series, round)? != RoundProgress::Accepted {
            return Ok(false);
        }
        match self.take_part(series, round)? {
            RoundEnd::Taken => Ok(true),
            RoundEnd::LeftOut | RoundEnd::Refused => Ok(false),
            RoundEnd::Ended => match self.leave_round(series, round, StepConflict::Ended) {
                StepStop::Failed(error) => Err(error),
                _ => Ok(false),
            },
        }
    }

    /// Takes the steps of a round to their end. Begins again at the first remaining one while the server lacks a step.
    fn take_part(&self, series: &str, round: u32) -> Result<RoundEnd, RunError> {
        let mut is_rejected = false;
        let mut next_pauses = pauses();
        loop {
            match self.take_steps(series, round) {
                Ok(()) => return Ok(RoundEnd::Taken),
                Err(StepStop::End(end)) => return Ok(end),
                Err(StepStop::Failed(error)) => return Err(error),
                Err(StepStop::Rejected(error)) if is_rejected => return Err(RunError::failed(error)),
                // The next pass shows whether the server has another set of survivors than the signed one.
                Err(StepStop::Rejected(_)) => is_rejected = true,
                Err(StepStop::Behind) => {}
            }
            self.wait_unless_stopped(next_pauses.next().unwrap_or(LONGEST_PAUSE))?;
        }
    }

    /// Takes the remaining steps of a round once. Each message is that of the site's record: the same bytes as before, or
    /// none.
    fn take_steps(&self, series: &str, round: u32) -> Result<(), StepStop> {
        let progress = self.session.past(&self.site, series, round)?;
        let group = self.session.accept_group(&self.site)?;
        let Some(mut open) = self.session.enter_masked(&self.site, &group, series, round)? else {
            return Err(StepStop::End(RoundEnd::Ended));
        };
        if progress != RoundProgress::Accepted {
            let step = MaskedStep::Advertise(open.advertisement());
            let MaskedAnswer { advertisements, .. } = match self.masked_step(series, round, &step) {
                Err(StepStop::Behind) => return Err(self.report_ended_round(series, round)),
                answer => answer?,
            };
            let shares = open.share(advertisements).map_err(|error| self.stop_at(series, round, error))?;
            let MaskedAnswer { mut shares, .. } = self.masked_step(series, round, &MaskedStep::Share(shares))?;
            shares.sort_by_key(|sealed| sealed.from);
            open.confirm_shares(&shares).map_err(|refusal| self.stop_at(series, round, refusal.into()))?;
            if progress == RoundProgress::Untouched {
                self.session.store_masked(&group, &mut open, shares, series, round)?;
            }
            if !self.send_stored(series, round)? {
                return Err(StepStop::Behind);
            }
        }
        let survivors = self.ask_survivors(series, round)?;
        let signature = open.sign(survivors).map_err(|error| self.stop_at(series, round, error))?;
        let MaskedAnswer { signatures, .. } = self.masked_step(series, round, &MaskedStep::Sign(signature))?;
        let reveal = open.reveal(&signatures).map_err(|error| self.stop_at(series, round, error))?;
        self.masked_step(series, round, &MaskedStep::Reveal(reveal)).map(|_| ())
    }

    /// Asks for the set of survivors. A server that lacks this site's vector gets the same bytes again.
    fn ask_survivors(&self, series: &str, round: u32) -> Result<SiteSet, StepStop> {
        match self.masked_step(series, round, &MaskedStep::Survivors) {
            Err(StepStop::Behind) => {
                if !self.session.has_bytes(&self.site, series, round)? {
                    return Err(self.leave_round(series, round, StepConflict::Vector));
                }
                self.send_stored(series, round)?;
                Err(StepStop::Behind)
            }
            answer => Ok(answer?.survivors),
        }
    }

    /// Reports, before the first step of a round that is not open yet, that the round before has ended here: a server that
    /// was restored has it open. A server that has closed it ignores that.
    fn report_ended_round(&self, series: &str, round: u32) -> StepStop {
        if round < 2 {
            return StepStop::Behind;
        }
        match self.leave_round(series, round - 1, StepConflict::Ended) {
            failed @ StepStop::Failed(_) => failed,
            _ => StepStop::Behind,
        }
    }

    /// Converts an error of a step. A step that contradicts the site's record ends the site's part in the round; any other
    /// error ends the run.
    fn stop_at(&self, series: &str, round: u32, error: SiteError<RecordError>) -> StepStop {
        let conflict = match &error {
            SiteError::Refused(Refusal::SecondAdvertisements) => StepConflict::Advertisements,
            SiteError::Refused(Refusal::SecondShares) => StepConflict::Shares,
            SiteError::Refused(Refusal::SecondSurvivors { .. }) => StepConflict::Survivors,
            _ => return step_failure(series, round, error).into(),
        };
        tracing::error!(series, round, error = %error, "this site refuses a step of a masked round");
        self.leave_round(series, round, conflict)
    }

    /// Reports that this site takes no further part in a round.
    fn leave_round(&self, series: &str, round: u32, conflict: StepConflict) -> StepStop {
        tracing::error!(
            job.id = %self.session.examined().manifest.job,
            series,
            round,
            conflict = ?conflict,
            "the server shows another state of a masked round than this site has recorded: it was restored from an older state, \
             or it breaks the protocol. The site takes no further part in the round; what was paid stays paid"
        );
        match self.masked_step(series, round, &MaskedStep::Refuse(conflict)) {
            Ok(_) | Err(StepStop::End(_) | StepStop::Behind) => StepStop::End(RoundEnd::Refused),
            Err(stop) => stop,
        }
    }

    /// Sends the message of a step until the server has the input of the next one.
    fn masked_step(&self, series: &str, round: u32, step: &MaskedStep) -> Result<MaskedAnswer, StepStop> {
        self.site.ledger.check_quiet().map_err(RunError::refused)?;
        let gateway = &self.site.gateway;
        loop {
            let answer = self.repeat_call("masked step", |token| async move {
                match gateway.masked_step(&token, series, round, WAIT, step).await {
                    // A repetition of this step alone cannot help.
                    Err(error) if error.code() == Some(Code::NotReady) => Ok(Err(error)),
                    answer => answer.map(Ok),
                }
            });
            match answer {
                Ok(Ok(Some(answer))) => return Ok(answer),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(job.id = %self.session.examined().manifest.job, series, round, error = %error, "the server is not ready for a masked step; the site takes its steps again");
                    return Err(StepStop::Behind);
                }
                Err(CallFailure::Refused(error)) if error.code() == Some(Code::RoundClosed) => {
                    let is_sent = !matches!(step, MaskedStep::Advertise(_) | MaskedStep::Share(_));
                    tracing::info!(job.id = %self.session.examined().manifest.job, series, round, is_sent, "the masked round continues, or has closed, without this step");
                    if !is_sent {
                        self.log.record_round(series, |series| SiteEvent::Missed { series, round });
                    }
                    return Err(StepStop::End(RoundEnd::LeftOut));
                }
                Err(CallFailure::Refused(error))
                    if error.code() == Some(Code::ValidationFailed)
                        && matches!(step, MaskedStep::Sign(_) | MaskedStep::Reveal(_)) =>
                {
                    return Err(StepStop::Rejected(error));
                }
                Err(failure) => return Err(spoiled_or_failed(failure).into()),
            }
        }
    }

    /// Waits for a time, or fails when the run has to stop.
    fn wait_unless_stopped(&self, time: Duration) -> Result<(), RunError> {
        let is_stopped = self.handle.block_on(async {
            tokio::select! {
                () = tokio::time::sleep(time) => false,
                () = self.lease.stop.cancelled() => true,
            }
        });
        if is_stopped { Err(RunError::Stopped(self.lease.reason().into())) } else { Ok(()) }
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
