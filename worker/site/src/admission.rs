//! What a server may ask of this site: a manifest is believed only where it agrees with what the site knows by itself.
//!
//! The server may lie, widen, replay or swap. So: the signature must be that of the pinned key; this worker, this dataset
//! and this line of versions must be named in it, once; what it says of every other dataset at this site must hold; spec
//! and participants must tell one story; and what it charges must be what the spec charges by this site's own facts. To
//! add a check: a line in [`examine`], a fault, a case in the tests that plays that server.

use time::{Duration, OffsetDateTime};
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{DatasetId, OrganizationId, WorkerId};
use undertone_api::job::{Charge, Purpose};
use undertone_api::problem::Violation;
use undertone_api::signed::{Limits, Manifest, ManifestParticipant, Signed, SignedError};
use undertone_privacy::{Event, PrivacyUnit};

use super::datasets::Local;
use super::ledger::Under;
use super::server_trust::ServerTrust;

mod form;

/// Why a manifest is not believed. Every text is fit for the proposer to read.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Not from the server this site enrolled at.
    #[error("the manifest is not signed by the server that this site enrolled at")]
    Signature(#[from] SignedError),
    /// Not about a dataset of this site.
    #[error("the offer names a dataset that is not at this site")]
    Stranger,
    /// Named not once, or for somebody else.
    #[error("the manifest does not name this worker's dataset `{0}` as a participant exactly once")]
    NotNamed(String),
    /// Another line of versions.
    #[error("the manifest gives dataset `{0}` another line of versions: its budget would be another one")]
    Lineage(String),
    /// Two datasets that are charged to the same accounts.
    #[error("the job charges another dataset of the same accounts too, `{0}`: the same data would take part twice")]
    SharedAccounts(String),
    /// A dataset of this site that would be read without being public.
    #[error("the job would read dataset `{0}` of this site, which its policy does not mark as public")]
    NotPublic(String),
    /// Spec and participants do not agree.
    #[error("the manifest's participants are not those of its spec")]
    Participants,
    /// What no honest server signs.
    #[error("the manifest's spec is one that this site refuses whoever signs it: `{field}`: {message}")]
    Spec {
        /// The field.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// Another number of units.
    #[error(
        "the manifest divides by {manifest} units of `{dataset}`, this site says {site}: it was prepared again, or never so"
    )]
    Units {
        /// The dataset.
        dataset: String,
        /// What the manifest says.
        manifest: u64,
        /// What the site says.
        site: u64,
    },
    /// A unit that cannot be protected here.
    #[error("the data of `{0}` do not keep units of the kind {1:?} apart, so that none can be protected")]
    Mixed(String, PrivacyUnit),
    /// Another charge.
    #[error("the manifest does not charge `{0}` what its spec costs by this site's own facts: propose the job again")]
    Charge(String),
    /// Something in it that was not understood.
    #[error(
        "the manifest says something at `{0}` that this worker does not understand: it needs a later version of the worker"
    )]
    Strange(String),
    /// Somebody else's dataset.
    #[error("the manifest says that dataset `{0}` belongs to another organization")]
    Owner(String),
    /// Another model.
    #[error("the manifest starts from another model than its spec makes with the data of `{0}`")]
    Model(String),
    /// No limits.
    #[error("the manifest has no limits: it is from before there were any; propose the job again")]
    NoLimits,
    /// Other limits.
    #[error("the manifest's limits are not those of its spec and its participants: propose the job again")]
    Limits,
    /// Too late.
    #[error("the manifest held until {0}: propose the job again")]
    Expired(OffsetDateTime),
    /// Too early.
    #[error("the manifest was issued at {0}, which is yet to come: set the clocks of server and site")]
    Future(OffsetDateTime),
    /// A second manifest under one job.
    #[error("the job came under another manifest before ({0}): a job never changes; propose a new one")]
    Changed(String),
}

/// How far the clocks of server and site may be apart.
pub const CLOCKS: Duration = Duration::DAY;

/// Who the site is, for the questions of this room.
#[derive(Debug, Clone)]
pub struct Identity {
    /// This worker.
    pub worker: WorkerId,
    /// Its organization.
    pub organization: OrganizationId,
    /// The keys with which the server signs.
    pub server_key: ServerTrust,
}

/// A manifest that agrees with what the site knows.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The manifest.
    pub manifest: Manifest,
    /// The document as it was signed.
    pub signed: Signed,
    /// Its digest.
    pub digest: String,
    /// Which participant this is about.
    pub own: usize,
    /// The dataset, as this site knows it.
    pub local: Local,
    /// The same, as the contract sees it.
    pub dataset: Dataset,
    /// What the job charges it at worst, worked out here.
    pub charge: Option<Charge>,
}

impl Examined {
    /// This participant's entry.
    pub fn own(&self) -> &ManifestParticipant {
        &self.manifest.participants[self.own]
    }

    /// Under what its releases are made; `None` when nothing private leaves.
    pub fn under(&self) -> Option<Under> {
        self.charge.as_ref().map(|charge| Under {
            job: self.manifest.job,
            dataset: self.dataset.id,
            lineage: self.local.lineage,
            manifest: self.digest.clone(),
            charge: charge.clone(),
        })
    }

    /// When the manifest ceases to hold.
    pub fn not_after(&self) -> Option<OffsetDateTime> {
        self.manifest.limits.as_ref().map(|limits| limits.not_after)
    }

    /// What one vector of `series` releases; `None` when the site lets nothing private out in it.
    pub fn release(&self, series: &str) -> Option<Event> {
        self.manifest.spec.release(&self.dataset, series)
    }

    /// Rounds of `series` in which something of this dataset may leave; `None` when the job has no such series, for one of
    /// questions when this participant asks none, and for one of sounds when it sends none.
    pub fn rounds(&self, series: &str) -> Option<u32> {
        let all = self.manifest.spec.series(std::slice::from_ref(&self.dataset));
        let averaged = all.into_iter().find(|known| known.name == series).map(|known| known.rounds);
        averaged.or_else(|| self.is_one_release(series).then_some(1))
    }

    /// Whether `series` is one release of this participant: a pool of questions, or what goes to others than the server.
    pub fn is_one_release(&self, series: &str) -> bool {
        self.asks(series) || self.sends_outside(series)
    }

    /// Whether this participant sends something to others than the server under `series`: one batch, in round 1.
    pub fn sends_outside(&self, series: &str) -> bool {
        let outside = self.manifest.spec.outside();
        outside.is_some_and(|said| said.series == series && said.sending.contains(&self.dataset.id))
    }

    /// Whether this participant sends a pool of questions under `series`: one, in round 1.
    pub fn asks(&self, series: &str) -> bool {
        let questions = self.manifest.spec.questions();
        questions.is_some_and(|said| said.series == series && said.asking.contains(&self.dataset.id))
    }
}

/// Reads a manifest that was offered for the dataset `offered`, and compares it with what the site knows at `now`.
///
/// # Errors
/// [`Fault`] at the first thing that does not agree.
pub fn examine(
    signed: &Signed,
    offered: DatasetId,
    site: &Identity,
    datasets: &[Local],
    now: OffsetDateTime,
) -> Result<Examined, Fault> {
    let manifest: Manifest = signed.open(&site.server_key)?;
    if let Some(place) = form::strange(&signed.payload, &manifest) {
        return Err(Fault::Strange(place));
    }
    let local = datasets.iter().find(|local| local.id == Some(offered)).ok_or(Fault::Stranger)?;
    let own = own(&manifest, offered, site, local)?;
    let in_spec = manifest.spec.datasets();
    let in_manifest: Vec<_> = manifest.participants.iter().map(|party| (party.dataset, party.purpose)).collect();
    if in_spec != in_manifest {
        return Err(Fault::Participants);
    }
    for party in &manifest.participants {
        check_other(party, offered, site, datasets)?;
    }
    let party = &manifest.participants[own];
    let dataset = local.as_seen(offered, site.organization, site.worker);
    check_outside(&manifest, &dataset)?;
    // A job goes on under the relation that its manifest states.
    let charge = Charge::reconcile(manifest.spec.cost(&dataset), party.charge.as_ref())
        .ok_or_else(|| Fault::Charge(local.name.clone()))?;
    if let Some(charge) = &charge {
        if !dataset.keeps_apart(charge.unit) {
            return Err(Fault::Mixed(local.name.clone(), charge.unit));
        }
        let units = dataset.count(charge.unit).0;
        if party.units != units {
            return Err(Fault::Units { dataset: local.name.clone(), manifest: party.units, site: units });
        }
    }
    check_limits(&manifest, local, now)?;
    let (signed, digest, local) = (signed.clone(), signed.digest(), local.clone());
    Ok(Examined { manifest, signed, digest, own, local, dataset, charge })
}

/// The one place at which the manifest names this site's dataset as a participant, by its name, line, owner and worker.
fn own(manifest: &Manifest, offered: DatasetId, site: &Identity, local: &Local) -> Result<usize, Fault> {
    let mut named = manifest.participants.iter().enumerate().filter(|(_, party)| party.dataset == offered);
    let not_named = || Fault::NotNamed(local.name.clone());
    let (own, party) = named.next().ok_or_else(not_named)?;
    let ours = party.worker == site.worker && party.dataset_name == local.name;
    if named.next().is_some() || !ours || party.purpose != Purpose::Participate {
        return Err(not_named());
    }
    if party.lineage != local.lineage {
        return Err(Fault::Lineage(local.name.clone()));
    }
    if party.organization != site.organization {
        return Err(Fault::Owner(local.name.clone()));
    }
    Ok(own)
}

/// That a job which sends something to others than the server is one that may be proposed, by what this site says of its dataset:
/// what a spec may ask of private data is part of what is promised, and the server that checked it first may not have.
fn check_outside(manifest: &Manifest, dataset: &Dataset) -> Result<(), Fault> {
    if manifest.spec.outside().is_none() {
        return Ok(());
    }
    let violation = manifest.spec.check(std::slice::from_ref(dataset)).into_iter().next();
    violation.map_or(Ok(()), |Violation { field, message }| Err(Fault::Spec { field, message }))
}

/// That model and limits are those of the spec, and that the manifest is in force.
fn check_limits(manifest: &Manifest, local: &Local, now: OffsetDateTime) -> Result<(), Fault> {
    if manifest.model != manifest.spec.model(local.inputs) {
        return Err(Fault::Model(local.name.clone()));
    }
    let limits = manifest.limits.as_ref().ok_or(Fault::NoLimits)?;
    if !limits.agree_with(&Limits::of(&manifest.spec, &manifest.participants, manifest.issued_at)) {
        return Err(Fault::Limits);
    }
    if manifest.issued_at > now.saturating_add(CLOCKS) {
        return Err(Fault::Future(manifest.issued_at));
    }
    if limits.not_after < now {
        return Err(Fault::Expired(limits.not_after));
    }
    Ok(())
}

/// That what the manifest says of another dataset at this site holds; a dataset that is only read must be public here.
fn check_other(
    party: &ManifestParticipant,
    offered: DatasetId,
    site: &Identity,
    datasets: &[Local],
) -> Result<(), Fault> {
    let local = datasets.iter().find(|local| local.id == Some(party.dataset));
    let Some(local) = local.filter(|_| party.dataset != offered) else { return Ok(()) };
    let own = datasets.iter().find(|own| own.id == Some(offered));
    if party.charge.is_some() && own.is_some_and(|own| own.lineage == local.lineage) {
        return Err(Fault::SharedAccounts(local.name.clone()));
    }
    if party.worker != site.worker || party.lineage != local.lineage {
        return Err(Fault::Lineage(local.name.clone()));
    }
    if party.purpose == Purpose::Evaluate && local.visibility != Visibility::Public {
        return Err(Fault::NotPublic(local.name.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
