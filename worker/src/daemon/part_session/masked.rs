//! The site's own side of a masked round (`privacy.md`, 14.8): the group that it accepts, its noisy sum and its records on
//! disk, and the masked vector in the outbox.
//!
//! The order is: [`PartSession::clear`], make, [`PartSession::store_sum`], agree on masks, [`PartSession::store_masked`],
//! then as for each vector. From a stored sum each later process continues without a second draw.

use std::num::NonZeroU32;

use undertone_api::job::MaskedGroup;
use undertone_api::job::dp_sgd::Arm;
use undertone_secure_aggregation::message::SealedShares;
use undertone_secure_aggregation::refusal::{Refusal, SiteError};
use undertone_secure_aggregation::roster::AcceptedRoster;
use undertone_secure_aggregation::round::RoundContext;

use super::{PartSession, lost_release};
use crate::daemon::Site;
use crate::dp::randomness::{Purpose, Randomness};
use crate::dp::release::{GroupNoise, NoisySum};
use crate::run::RunError;
use crate::site::group::{self, GroupError};
use crate::site::masked_rounds::{self, MaskedRoundJournal, OpenRound, RecordError};
use crate::site::outbox::OutboxError;
use crate::site::peer_keys::TrustedKeys;

/// A group that this site accepts now.
#[derive(Debug, Clone)]
pub struct AcceptedGroup {
    group: MaskedGroup,
    roster: AcceptedRoster,
}

impl AcceptedGroup {
    /// Returns the context of a round.
    fn context(&self, series: &str, round: u32) -> Result<RoundContext, RunError> {
        group::round_context(self.roster.roster(), &self.group, series, round).map_err(RunError::refused)
    }
}

/// A refused step of a masked round, with its remedy.
#[derive(Debug, thiserror::Error)]
#[error("{series}/{round}: {refusal}. {remedy}")]
struct RefusedStep {
    series: String,
    round: u32,
    refusal: Refusal,
    remedy: &'static str,
}

/// Returns the remedy of a refusal.
const fn remedy(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::OutOfOrder { .. }
        | Refusal::Length { .. }
        | Refusal::RoundClosed
        | Refusal::DifferentRound
        | Refusal::DamagedRecord
        | Refusal::SecondVector => {
            "This site's record of the round is not that of its sum: leave the job, and propose a new one"
        }
        Refusal::Identity { .. } => "Propose the job again: this site's key was replaced",
        Refusal::GroupTooSmall { .. } | Refusal::TooFewSignatures { .. } => {
            "The server asks for the sum of too small a group: ask its operator for the reason before you propose the job again"
        }
        Refusal::UnknownSite { .. }
        | Refusal::SiteTwice { .. }
        | Refusal::AdvertisementSignature { .. }
        | Refusal::OwnAdvertisement
        | Refusal::SecondAdvertisements
        | Refusal::WeakKey { .. }
        | Refusal::MisdirectedShares { .. }
        | Refusal::UnopenedShares { .. }
        | Refusal::SecondShares
        | Refusal::NotMembers { .. }
        | Refusal::NotSurvivor { .. }
        | Refusal::SecondSurvivors { .. }
        | Refusal::SignerNotSurvivor { .. }
        | Refusal::SurvivorSignature { .. } => {
            "The server or another site of the group breaks the protocol: compare the logs of the sites before you propose the job again"
        }
    }
}

/// Converts an error of a step to the end of the run: the part waits after a disk failure.
pub(in crate::daemon) fn step_failure(series: &str, round: u32, error: SiteError<RecordError>) -> RunError {
    match error {
        SiteError::Refused(refusal) => {
            let remedy = remedy(&refusal);
            RunError::refused(RefusedStep { series: series.to_owned(), round, refusal, remedy })
        }
        SiteError::Roster(error) => RunError::refused(GroupError::from(error)),
        SiteError::Journal(error) => RunError::from_failure(error),
    }
}

impl PartSession {
    /// Returns the group of a series in which this participant's vectors are masked.
    pub fn masked_group(&self, series: &str) -> Option<MaskedGroup> {
        let examined = self.examined();
        let group = group::group_of(&examined.manifest, examined.own(), examined.dataset.inputs)?;
        (series == Arm::Private.series()).then_some(group)
    }

    /// Accepts the group of a series, by the policy and the trusted keys of this moment.
    ///
    /// # Errors
    /// [`RunError::Refused`] when this site does not accept it, or the series has none; [`RunError::Failed`] when the
    /// disk fails.
    pub fn accept_group(&self, site: &Site) -> Result<AcceptedGroup, RunError> {
        let rules = self.current_rules(site)?.secure_aggregation;
        let trusted = site.store.read(TrustedKeys::read).map_err(RunError::from_failure)?;
        let accepted = group::accept_examined(self.examined(), &site.key.public(), &rules, &trusted);
        let (group, roster) = accepted
            .map_err(RunError::refused)?
            .ok_or_else(|| RunError::refused("the job has no group of which this dataset is a member"))?;
        Ok(AcceptedGroup { group, roster })
    }

    /// Returns the noise of this site in the sums of a group.
    ///
    /// # Errors
    /// The errors of [`PartSession::accept_group`].
    pub fn group_noise(&self, site: &Site) -> Result<GroupNoise, RunError> {
        let AcceptedGroup { group, roster } = self.accept_group(site)?;
        let rules = self.current_rules(site)?.secure_aggregation;
        let honest = u32::from(roster.roster().terms().least_honest());
        let positive = |number: u32| {
            NonZeroU32::new(number)
                .ok_or_else(|| RunError::refused("the group of the job states no noise, or no honest site"))
        };
        Ok(GroupNoise {
            charged: positive(group.deviation)?,
            drawn: positive(rules.own_deviation(group.deviation, honest))?,
            honest: positive(honest)?,
        })
    }

    fn masked_rounds(&self) -> MaskedRoundJournal {
        MaskedRoundJournal::new(&self.folder)
    }

    /// Returns whether an earlier process has stored the noisy sum of a round.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the group is not accepted, [`RunError::Failed`] when the disk fails.
    pub fn has_sum(&self, site: &Site, series: &str, round: u32) -> Result<bool, RunError> {
        let slot = *self.accept_group(site)?.context(series, round)?.slot();
        Ok(self.masked_rounds().load_sum(&slot).map_err(RunError::from_failure)?.is_some())
    }

    /// Stores the noisy sum that was made for this round; on disk when this returns. It leaves only under masks.
    ///
    /// # Errors
    /// [`RunError::Refused`] when it was not cleared for this round, or the group is not accepted;
    /// [`RunError::Failed`] when the disk fails.
    pub fn store_sum(&mut self, site: &Site, series: &str, round: u32, sum: &NoisySum) -> Result<(), RunError> {
        self.consume_clearance("sum", series, round, sum.grant())?;
        let slot = *self.accept_group(site)?.context(series, round)?.slot();
        self.masked_rounds().store_sum(&slot, sum.vector()).map_err(RunError::from_failure)
    }

    /// Begins the masked round, or continues it from its record; `None` when it has ended here.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the record is of another round, [`RunError::Failed`] when the disk fails.
    pub fn enter_masked<'a>(
        &self,
        site: &'a Site,
        group: &'a AcceptedGroup,
        series: &str,
        round: u32,
    ) -> Result<Option<OpenRound<'a>>, RunError> {
        let context = group.context(series, round)?;
        let mut rng = Randomness::from_os(Purpose::Masks).stream(0);
        match masked_rounds::enter(&group.roster, &site.key, context, self.masked_rounds(), &mut rng) {
            Ok(round) => Ok(Some(round)),
            Err(SiteError::Refused(Refusal::RoundClosed)) => Ok(None),
            Err(error) => Err(step_failure(series, round, error)),
        }
    }

    /// Masks the stored sum of a round with the shares of the other members, and stores the masked vector in the outbox.
    /// [`PartSession::charge`] pays for it when it may leave.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the shares are refused, or the sum is lost; [`RunError::Failed`] when the disk fails.
    pub fn store_masked(
        &self,
        group: &AcceptedGroup,
        open: &mut OpenRound<'_>,
        shares: Vec<SealedShares>,
        series: &str,
        round: u32,
    ) -> Result<(), RunError> {
        let journal = self.masked_rounds();
        let slot = *group.context(series, round)?.slot();
        let sum = journal.load_sum(&slot).map_err(RunError::from_failure)?;
        let sum = sum.ok_or_else(|| lost_release(series, round))?;
        let masked = open.mask(shares, &sum).map_err(|error| step_failure(series, round, error))?;
        self.store(series, round, &masked.bytes, sum.len() as u64)?;
        // From here on the outbox has the bytes.
        journal.remove_sum(&slot).map_err(RunError::from_failure)
    }

    /// Returns whether the bytes of a paid release are on this disk.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the disk fails, or the bytes have changed.
    pub fn has_bytes(&self, site: &Site, series: &str, round: u32) -> Result<bool, RunError> {
        match self.outbox.parcel(&site.store, series, round) {
            Ok(_) => Ok(true),
            Err(OutboxError::Missing { .. }) => Ok(false),
            Err(error) => Err(RunError::from_failure(error)),
        }
    }

    /// Ends a masked round whose average has arrived: erases its secrets, and a sum that was not masked.
    ///
    /// # Errors
    /// [`RunError::Refused`] when the group is not accepted, [`RunError::Failed`] when the disk fails.
    pub fn close_masked(&self, site: &Site, series: &str, round: u32) -> Result<(), RunError> {
        let group = self.accept_group(site)?;
        if let Some(open) = self.enter_masked(site, &group, series, round)? {
            open.close().map_err(|error| step_failure(series, round, error))?;
        }
        let slot = *group.context(series, round)?.slot();
        self.masked_rounds().remove_sum(&slot).map_err(RunError::from_failure)
    }
}
