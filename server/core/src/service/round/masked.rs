//! Masked rounds: the server adds the vectors of a group of sites, and learns their sum alone.
//!
//! The protocol is in `undertone-secure-aggregation`; this module keeps its messages. Each message and each closed phase is
//! a row before any site sees a consequence of it, so a restarted server or another replica continues the round. The
//! phases of the protocol are made anew from the rows for each message. The masked vectors are submissions like all
//! others.
//!
//! A phase closes when each expected site has answered, or after its time if enough sites have. With fewer it stays open,
//! as a round without a quorum does. So no phase fails, and a sum of fewer vectors than the smallest group is not opened.
//! Sites whose part has ended, or that take no further part in the round, are not expected. If too few of a phase's sites
//! are left, the round is lost and the job fails ([`loss`]): the sites make no second run of a round.
//!
//! The advertisements have half of the round's time, the shares and the vectors a quarter each. Signatures and shares that
//! open the sum need no deadline: as many as the smallest group suffice.

mod loss;
mod open;
mod phase;
mod receive;

use sea_orm::ConnectionTrait;
use undertone_api::id::JobId;
use undertone_api::job::MaskedGroup;
use undertone_api::job::log::StepConflict;
use undertone_api::problem::{Code, Violation};
use undertone_secure_aggregation::message::{Advertisement, Reveal, SealedShares, SurvivorSignature};
use undertone_secure_aggregation::modulus::Modulus;
use undertone_secure_aggregation::roster::{GroupTerms, Roster};
use undertone_secure_aggregation::round::RoundContext;
use undertone_secure_aggregation::server::ServerError;
use undertone_secure_aggregation::site_set::{SiteIndex, SiteSet};

use super::SubmissionOutcome;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::job;
use crate::model::masked_message::MaskedStep;
use crate::model::planned_series::PlannedSeries;
use crate::service::lease::ActiveLease;

pub(in crate::service) use loss::find_lost_round;
pub(super) use loss::refuse;
pub(super) use open::{MaskedPart, OpenedSum, open_sum};
use phase::MaskedRows;
pub(super) use phase::{close_phases, remove};
pub(super) use receive::receive;

/// A site's message of one step, in the order of the steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaskedMessage {
    /// The keys of the round.
    Advertise(Advertisement),
    /// The shares for each other site of the list.
    Share(Vec<SealedShares>),
    /// No message: the site asks for the survivors, after its vector.
    Survivors,
    /// The signature on the survivors.
    Sign(SurvivorSignature),
    /// The shares that open the sum.
    Reveal(Reveal),
    /// No message: the site takes no further part in the round.
    Refuse(StepConflict),
}

/// The input of a site's next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MaskedInput {
    /// The list of advertisements.
    Advertisements(Vec<Advertisement>),
    /// The shares for this site.
    Shares(Vec<SealedShares>),
    /// The survivors.
    Survivors(SiteSet),
    /// The signatures of enough survivors.
    Signatures(Vec<SurvivorSignature>),
    /// Nothing: the site's part of the round is over.
    Over,
}

/// A round of a series with a group.
pub(super) struct MaskedRound {
    job: JobId,
    planned: PlannedSeries,
    number: u32,
    group: MaskedGroup,
    roster: Roster,
    context: RoundContext,
}

impl MaskedRound {
    /// Makes the round from the signed manifest.
    ///
    /// # Errors
    /// When the manifest states no valid group: an error of this server.
    pub(super) fn new(row: &job::Model, planned: PlannedSeries, number: u32) -> Result<Self, Error> {
        let broken = |what: String| Error::internal("reading a masked group", what);
        let group = planned.series.masked.clone().ok_or_else(|| broken("the series has none".to_owned()))?;
        let manifest = row.manifest()?;
        let key = |dataset| {
            let party = manifest.participants.iter().find(|party| party.dataset == dataset)?;
            let mut key = [0; 32];
            hex::decode_to_slice(party.site_key.as_deref()?, &mut key).ok()?;
            Some(key)
        };
        let keys: Option<Vec<[u8; 32]>> = group.datasets.iter().map(|dataset| key(*dataset)).collect();
        let keys = keys.ok_or_else(|| broken("the manifest lacks a key".to_owned()))?;
        let mut digest = [0; 32];
        hex::decode_to_slice(&row.digest, &mut digest).map_err(|error| broken(error.to_string()))?;
        let terms = GroupTerms { smallest_group: group.smallest_group, colluding: group.colluding };
        let roster = Roster::new(digest, &keys, terms).map_err(|error| broken(error.to_string()))?;
        let modulus = Modulus::new(group.bits).map_err(|error| broken(error.to_string()))?;
        let context = RoundContext::new(&roster, &planned.series.name, number, group.length, modulus)
            .map_err(|error| broken(error.to_string()))?;
        Ok(Self { job: JobId(row.id), planned, number, group, roster, context })
    }

    /// Returns the input that follows a site's stored message, or `None` while other sites are missing.
    pub(super) async fn next_input(
        &self,
        ctx: &Ctx,
        site: SiteIndex,
        message: &MaskedMessage,
    ) -> Result<Option<MaskedInput>, Error> {
        let Some(rows) = MaskedRows::load(ctx.db.read(), self).await? else { return Err(self.closed()) };
        let among = |set: SiteSet| if set.contains(site) { Ok(()) } else { Err(self.closed()) };
        Ok(match message {
            MaskedMessage::Advertise(_) => match rows.listed() {
                None => None,
                Some(listed) => {
                    among(listed)?;
                    Some(MaskedInput::Advertisements(rows.share_phase(self)?.advertisements().as_slice().to_vec()))
                }
            },
            MaskedMessage::Share(_) => match rows.members() {
                None => None,
                Some(members) => {
                    among(members)?;
                    Some(MaskedInput::Shares(rows.mask_phase(self)?.shares_for(site)))
                }
            },
            MaskedMessage::Survivors => match rows.survivors() {
                None => {
                    self.check_vector(&rows, site)?;
                    None
                }
                Some(survivors) => {
                    among(survivors)?;
                    Some(MaskedInput::Survivors(survivors))
                }
            },
            MaskedMessage::Sign(_) => {
                let signatures = rows.signatures()?;
                let is_enough = self.roster.is_group(signatures.len());
                is_enough.then_some(MaskedInput::Signatures(signatures))
            }
            MaskedMessage::Reveal(_) | MaskedMessage::Refuse(_) => Some(MaskedInput::Over),
        })
    }

    /// Checks that the vector of a site that asks for the survivors is here. A site asks after its vector was accepted, so a
    /// missing one was lost by a restoration.
    ///
    /// # Errors
    /// `not_ready` when it is missing, `round_closed` when the members are others.
    fn check_vector(&self, rows: &MaskedRows, site: SiteIndex) -> Result<(), Error> {
        let not_ready = |what: &str| Err(Error::problem(Code::NotReady, what));
        match rows.members() {
            None => not_ready("the set of members is not closed"),
            Some(members) if !members.contains(site) => Err(self.closed()),
            Some(_) if !rows.has_vector(site) => {
                not_ready("this server lacks the vector of this site: submit the same one again")
            }
            Some(_) => Ok(()),
        }
    }

    fn closed(&self) -> Error {
        let (number, series) = (self.number, &self.planned.series.name);
        let text =
            format!("round {number} of `{series}` continues without this site; a vector that was sent stays paid");
        Error::problem(Code::RoundClosed, text)
    }
}

/// Returns the survivors of a round whose sum can be opened: enough of them have revealed their shares. `None` before.
pub(super) async fn survivors(
    connection: &impl ConnectionTrait,
    row: &job::Model,
    planned: &PlannedSeries,
    number: u32,
) -> Result<Option<SiteSet>, Error> {
    let round = MaskedRound::new(row, planned.clone(), number)?;
    let Some(rows) = MaskedRows::load(connection, &round).await? else { return Ok(None) };
    let is_enough = round.roster.is_group(rows.sites(MaskedStep::Reveal).len());
    Ok(rows.survivors().filter(|_| is_enough))
}

/// Returns the reason against a member's vector; `None` for a contributor without masks. A vector is masked for the
/// members of its round, and counts until the set of survivors is closed.
pub(super) async fn refusal(
    tx: &Tx,
    row: &job::Model,
    planned: &PlannedSeries,
    held: &ActiveLease,
    number: u32,
) -> Result<Option<SubmissionOutcome>, Error> {
    let Some(site) = planned.series.masked.as_ref().and_then(|group| group.index(held.dataset)) else {
        return Ok(None);
    };
    let round = MaskedRound::new(row, planned.clone(), number)?;
    let rows = MaskedRows::load(tx, &round).await?;
    Ok(match rows.as_ref().map(|rows| (rows.members(), rows.survivors())) {
        None | Some((None, _)) => Some(SubmissionOutcome::NotYet),
        Some((Some(members), None)) if members.contains(site) => None,
        Some(_) => Some(SubmissionOutcome::Closed),
    })
}

pub(super) fn invalid(field: &str, message: &str) -> Error {
    Error::validation(vec![Violation::new(field, message)])
}

/// Converts the refusal of a site's message.
fn refused(error: ServerError) -> Error {
    match error {
        ServerError::SecondMessage { .. } => Error::problem(Code::AlreadyExists, error.to_string()),
        error => invalid("step", &error.to_string()),
    }
}
