//! The rows of a masked round: its closed phases and messages, and the phases of the protocol made from them.

use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait as _, ColumnTrait as _, ConnectionTrait, EntityTrait as _, IntoActiveModel as _, QueryFilter as _,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use time::{Duration, OffsetDateTime};
use undertone_api::id::JobId;
use undertone_secure_aggregation::message::{Advertisement, Reveal, SealedShares, SurvivorSignature};
use undertone_secure_aggregation::server::{AdvertisementPhase, MaskPhase, ServerError, SharePhase, SignaturePhase};
use undertone_secure_aggregation::site_set::{SiteIndex, SiteSet};
use uuid::Uuid;

use super::MaskedRound;
use crate::ctx::Ctx;
use crate::db::Tx;
use crate::error::Error;
use crate::model::column::ColumnEnum;
use crate::model::masked_message::MaskedStep;
use crate::model::participant::PartState;
use crate::model::{masked_message, masked_round, participant, round, submission};
use crate::rule::job::load_job;

/// The stored state of an open round.
pub(in crate::service::round) struct MaskedRows {
    phases: masked_round::Model,
    /// By step and site.
    messages: BTreeMap<(String, SiteIndex), String>,
    /// The sites whose vectors have arrived, with their digests.
    vectors: BTreeMap<SiteIndex, String>,
}

/// A phase that is open.
struct OpenPhase {
    /// The sites that may answer.
    expected: SiteSet,
    /// Those of them that have.
    answered: SiteSet,
    /// The divisor of the round's time that gives the time of the phase; absent for the last phase, which has no deadline.
    share: Option<i32>,
}

fn to_set(bits: i64) -> SiteSet {
    SiteSet::from_bits(bits.cast_unsigned())
}

impl MaskedRows {
    /// Loads the state; `None` for a round without a message, or that is closed.
    pub(in crate::service::round) async fn load(
        connection: &impl ConnectionTrait,
        of: &MaskedRound,
    ) -> Result<Option<Self>, Error> {
        let (job, series, number) = (of.job.0, of.planned.series.name.clone(), of.number as i32);
        let key = (job, series.clone(), number);
        let Some(phases) = masked_round::Entity::find_by_id(key).one(connection).await? else { return Ok(None) };
        let rows = masked_message::Entity::find()
            .filter(masked_message::Column::JobId.eq(job))
            .filter(masked_message::Column::Series.eq(&series))
            .filter(masked_message::Column::Round.eq(number))
            .all(connection)
            .await?;
        let index = |site: i32| SiteIndex::try_from(site).map_err(|error| Error::internal("reading a site", error));
        let mut messages = BTreeMap::new();
        for row in rows {
            messages.insert((row.step.to_text(), index(row.site)?), row.body);
        }
        let sent = submission::Entity::find()
            .filter(submission::Column::JobId.eq(job))
            .filter(submission::Column::Series.eq(&series))
            .filter(submission::Column::Round.eq(number))
            .all(connection)
            .await?;
        let vectors = sent.into_iter().filter_map(|row| Some((of.group.index(row.dataset_id.into())?, row.digest)));
        Ok(Some(Self { phases, messages, vectors: vectors.collect() }))
    }

    /// Returns the sites of the list of advertisements, if it is closed.
    pub(super) fn listed(&self) -> Option<SiteSet> {
        self.phases.listed.map(to_set)
    }

    /// Returns the sites that have shared, if their set is closed.
    pub(in crate::service::round) fn members(&self) -> Option<SiteSet> {
        self.phases.members.map(to_set)
    }

    /// Returns the members whose vectors arrived, if their set is closed.
    pub(in crate::service::round) fn survivors(&self) -> Option<SiteSet> {
        self.phases.survivors.map(to_set)
    }

    /// Returns the sites that take no further part in the round.
    pub(super) fn refused(&self) -> SiteSet {
        self.phases.refused.map_or_else(SiteSet::default, to_set)
    }

    /// Adds a site to those that take no further part; returns whether that changes the round. Nothing more is needed of a
    /// site that has revealed its shares.
    pub(super) fn refuse(&mut self, site: SiteIndex) -> bool {
        let mut sites = self.refused();
        if self.message(MaskedStep::Reveal, site).is_some() || !sites.insert(site) {
            return false;
        }
        self.phases.refused = Some(sites.to_bits().cast_signed());
        true
    }

    /// Returns the row of the closed phases.
    pub(super) fn to_phases(&self) -> masked_round::Model {
        self.phases.clone()
    }

    /// Returns whether the vector of a site has arrived.
    pub(super) fn has_vector(&self, site: SiteIndex) -> bool {
        self.vectors.contains_key(&site)
    }

    /// Returns the text of a site's message.
    pub(super) fn message(&self, step: MaskedStep, site: SiteIndex) -> Option<&str> {
        self.messages.get(&(step.to_text(), site)).map(String::as_str)
    }

    /// Returns the sites with a message of a step.
    pub(in crate::service::round) fn sites(&self, step: MaskedStep) -> SiteSet {
        let text = step.to_text();
        self.messages.keys().filter(|(other, _)| *other == text).map(|(_, site)| *site).collect()
    }

    fn read<M: DeserializeOwned>(&self, step: MaskedStep, of: SiteSet) -> Result<Vec<(SiteIndex, M)>, Error> {
        let mut messages = Vec::new();
        for site in of.iter() {
            let Some(text) = self.message(step, site) else { continue };
            let message = serde_json::from_str(text);
            messages.push((site, message.map_err(|error| Error::internal("reading a masked message", error))?));
        }
        Ok(messages)
    }

    /// Returns the stored signatures.
    pub(super) fn signatures(&self) -> Result<Vec<SurvivorSignature>, Error> {
        let signatures = self.read(MaskedStep::Sign, self.sites(MaskedStep::Sign))?;
        Ok(signatures.into_iter().map(|(_, signature)| signature).collect())
    }

    /// Returns the stored shares that open the sum.
    pub(super) fn reveals(&self) -> Result<Vec<Reveal>, Error> {
        let reveals = self.read(MaskedStep::Reveal, self.sites(MaskedStep::Reveal))?;
        Ok(reveals.into_iter().map(|(_, reveal)| reveal).collect())
    }

    /// Returns the phase of shares.
    pub(super) fn share_phase<'a>(&self, of: &'a MaskedRound) -> Result<SharePhase<'a>, Error> {
        let mut phase = AdvertisementPhase::new(&of.roster, of.context);
        let listed = self.listed().unwrap_or_default();
        for (_, advertisement) in self.read::<Advertisement>(MaskedStep::Advertise, listed)? {
            phase.receive(advertisement).map_err(stored)?;
        }
        phase.close().map_err(stored)
    }

    /// Returns the phase of vectors.
    pub(super) fn mask_phase<'a>(&self, of: &'a MaskedRound) -> Result<MaskPhase<'a>, Error> {
        let mut phase = self.share_phase(of)?;
        let members = self.members().unwrap_or_default();
        for (site, shares) in self.read::<Vec<SealedShares>>(MaskedStep::Share, members)? {
            phase.receive(site, shares).map_err(stored)?;
        }
        phase.close().map_err(stored)
    }

    /// Returns the phase of signatures, without the sum.
    pub(super) fn signature_phase<'a>(&self, of: &'a MaskedRound) -> Result<SignaturePhase<'a>, Error> {
        let mut phase = self.mask_phase(of)?;
        for site in self.survivors().unwrap_or_default().iter() {
            let mut digest = [0; 32];
            let text = self.vectors.get(&site).map(String::as_str).unwrap_or_default();
            hex::decode_to_slice(text, &mut digest).map_err(|error| Error::internal("reading a digest", error))?;
            phase.receive_stored(site, digest).map_err(stored)?;
        }
        phase.close().map_err(stored)
    }

    /// Returns the phase that is open.
    fn open_phase(&self, of: &MaskedRound) -> OpenPhase {
        let all: SiteSet = (0..of.group.datasets.len()).map(|site| site as SiteIndex).collect();
        let (expected, answered, share) = match (self.listed(), self.members(), self.survivors()) {
            (None, ..) => (all, self.sites(MaskedStep::Advertise), Some(2)),
            (Some(listed), None, _) => (listed, self.sites(MaskedStep::Share), Some(4)),
            (_, Some(members), None) => (members, self.vectors.keys().copied().collect(), Some(4)),
            (_, _, Some(survivors)) => (survivors, self.sites(MaskedStep::Reveal), None),
        };
        let answered = answered.iter().filter(|site| expected.contains(*site)).collect();
        OpenPhase { expected, answered, share }
    }

    /// Returns the phases with the next one closed, if it is due: with the sites that have answered, each expected one
    /// among them, or enough of them after the phase's time.
    fn close_next(&self, of: &MaskedRound, out: SiteSet, now: OffsetDateTime) -> Option<masked_round::Model> {
        let OpenPhase { expected, answered, share } = self.open_phase(of);
        let time = Duration::seconds(i64::from(of.planned.series.deadline_seconds)) / share?;
        let is_complete = expected.difference(out).difference(self.refused()).is_subset(answered);
        if answered.len() < of.least() || !(is_complete || now >= self.phases.phase_at + time) {
            return None;
        }
        let closed = Some(answered.to_bits().cast_signed());
        let mut next = masked_round::Model { phase_at: now, ..self.phases.clone() };
        if next.listed.is_none() {
            next.listed = closed;
        } else if next.members.is_none() {
            next.members = closed;
        } else {
            next.survivors = closed;
        }
        Some(next)
    }

    /// Returns whether the round can never be completed without the sites that are `out`, or that take no further part:
    /// too few are left for the present phase, or for the steps after it.
    pub(super) fn is_lost(&self, of: &MaskedRound, out: SiteSet) -> bool {
        let OpenPhase { expected, answered, share } = self.open_phase(of);
        let able = expected.difference(out).difference(self.refused());
        let all: SiteSet = able.iter().chain(answered.iter()).collect();
        let smallest_group = usize::from(of.group.smallest_group);
        match share {
            Some(_) => able.len() < smallest_group || all.len() < of.least(),
            None => all.len() < smallest_group,
        }
    }
}

impl MaskedRound {
    /// Returns the fewest sites with which a phase closes: the smallest group, and more where the round's quorum needs them
    /// beside all contributors without masks.
    fn least(&self) -> usize {
        let plain = self.planned.series.contributors(self.number).filter(|id| self.group.index(*id).is_none()).count();
        let quorum = (self.planned.series.quorum as usize).saturating_sub(plain);
        quorum.max(self.group.smallest_group.into())
    }
}

/// A stored message that the protocol refuses was accepted by mistake.
fn stored(error: ServerError) -> Error {
    Error::internal("continuing a masked round", error)
}

/// Writes a message as JSON.
pub(super) fn to_text(message: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(message).map_err(|error| Error::internal("writing a masked message", error))
}

/// Closes each phase of a round that is due; returns whether one was.
pub(in crate::service::round) async fn close_phases(
    ctx: &Ctx,
    job: JobId,
    series: &str,
    number: u32,
) -> Result<bool, Error> {
    // Nearly all calls find nothing to close, and must not wait for the writer.
    if next_phases(ctx, ctx.db.read(), job, series, number).await?.is_none() {
        return Ok(false);
    }
    ctx.db
        .write("close masked phase", async |tx| {
            let mut is_closed = false;
            while let Some(next) = next_phases(ctx, tx, job, series, number).await? {
                next.into_active_model().reset_all().update(tx).await?;
                is_closed = true;
            }
            Ok(is_closed)
        })
        .await
}

async fn next_phases(
    ctx: &Ctx,
    connection: &impl ConnectionTrait,
    job: JobId,
    series: &str,
    number: u32,
) -> Result<Option<masked_round::Model>, Error> {
    let row = load_job(connection, job).await?;
    if !row.state.is_under_way() {
        return Ok(None);
    }
    let Some(planned) = row.series.iter().find(|planned| planned.series.name == series).cloned() else {
        return Ok(None);
    };
    if planned.series.masked.is_none() {
        return Ok(None);
    }
    let of = MaskedRound::new(&row, planned, number)?;
    let Some(rows) = MaskedRows::load(connection, &of).await? else { return Ok(None) };
    Ok(rows.close_next(&of, absent_sites(connection, &of).await?, ctx.now()))
}

/// Returns the sites of a group whose part has ended.
pub(super) async fn absent_sites(connection: &impl ConnectionTrait, of: &MaskedRound) -> Result<SiteSet, Error> {
    let absent = participant::Entity::find()
        .filter(participant::Column::JobId.eq(of.job.0))
        .filter(participant::Column::State.is_not_in(PartState::OPEN.map(ColumnEnum::to_text)))
        .all(connection)
        .await?;
    Ok(absent.into_iter().filter_map(|part| of.group.index(part.dataset_id.into())).collect())
}

/// Makes the row of a round with its first message.
pub(super) async fn begin(tx: &Tx, open: &round::Model) -> Result<(), Error> {
    let row = masked_round::Model {
        job_id: open.job_id,
        series: open.series.clone(),
        round: open.round,
        listed: None,
        members: None,
        survivors: None,
        refused: None,
        phase_at: open.opened_at,
    };
    row.into_active_model().insert(tx).await?;
    Ok(())
}

/// Deletes the messages and phases of a round, or of all rounds of a job.
pub(in crate::service::round) async fn remove(tx: &Tx, job: Uuid, place: Option<(&str, u32)>) -> Result<(), Error> {
    let mut messages = masked_message::Entity::delete_many().filter(masked_message::Column::JobId.eq(job));
    let mut phases = masked_round::Entity::delete_many().filter(masked_round::Column::JobId.eq(job));
    if let Some((series, number)) = place {
        messages = messages.filter(masked_message::Column::Series.eq(series));
        messages = messages.filter(masked_message::Column::Round.eq(number as i32));
        phases = phases.filter(masked_round::Column::Series.eq(series));
        phases = phases.filter(masked_round::Column::Round.eq(number as i32));
    }
    messages.exec(tx).await?;
    phases.exec(tx).await?;
    Ok(())
}
