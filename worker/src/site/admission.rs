//! What a server may ask of this site: a manifest is believed only where it agrees with what the site knows by itself.
//!
//! The server may lie, widen, replay or swap. So: the signature must be that of the pinned key; this worker, this dataset
//! and this line of versions must be named in it, once; what it says of every other dataset at this site must hold; spec
//! and participants must tell one story; and what it charges must be what the spec charges by this site's own facts. To
//! add a check: a line in [`examine`], a fault, a case in the tests that plays that server.

use ed25519_dalek::VerifyingKey;
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{DatasetId, OrganizationId, WorkerId};
use undertone_api::job::{Charge, Purpose};
use undertone_api::signed::{Manifest, ManifestParticipant, Signed, SignedError};
use undertone_privacy::{Event, PrivacyUnit};

use super::datasets::Local;
use super::ledger::Under;

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
    /// A dataset of this site that would be read without being public.
    #[error("the job would read dataset `{0}` of this site, which its policy does not mark as public")]
    NotPublic(String),
    /// Spec and participants do not agree.
    #[error("the manifest's participants are not those of its spec")]
    Participants,
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
    /// Another charge.
    #[error("the manifest does not charge `{0}` what its spec costs by this site's own facts: propose the job again")]
    Charge(String),
    /// A second manifest under one job.
    #[error("the job came under another manifest before ({0}): a job never changes; propose a new one")]
    Changed(String),
}

/// Who the site is, for the questions of this room.
#[derive(Debug, Clone)]
pub struct Identity {
    /// This worker.
    pub worker: WorkerId,
    /// Its organization.
    pub organization: OrganizationId,
    /// The key with which the server signs.
    pub server_key: VerifyingKey,
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

    /// What one vector of `series` releases; `None` when the site lets nothing private out in it.
    pub fn release(&self, series: &str) -> Option<Event> {
        self.manifest.spec.release(&self.dataset, series)
    }

    /// Rounds of `series`; `None` when the job has no such series.
    pub fn rounds(&self, series: &str) -> Option<u32> {
        let all = self.manifest.spec.series(std::slice::from_ref(&self.dataset));
        all.into_iter().find(|known| known.name == series).map(|known| known.rounds)
    }
}

/// Reads a manifest that was offered for the dataset `offered`, and compares it with what the site knows.
///
/// # Errors
/// [`Fault`] at the first thing that does not agree.
pub fn examine(signed: &Signed, offered: DatasetId, site: &Identity, datasets: &[Local]) -> Result<Examined, Fault> {
    let manifest: Manifest = signed.open(&site.server_key)?;
    let local = datasets.iter().find(|local| local.id == Some(offered)).ok_or(Fault::Stranger)?;
    let mut named = manifest.participants.iter().enumerate().filter(|(_, party)| party.dataset == offered);
    let not_named = || Fault::NotNamed(local.name.clone());
    let (own, party) = named.next().ok_or_else(not_named)?;
    if named.next().is_some() || party.worker != site.worker || party.purpose != Purpose::Participate {
        return Err(not_named());
    }
    let in_spec = manifest.spec.datasets();
    let in_manifest: Vec<_> = manifest.participants.iter().map(|party| (party.dataset, party.purpose)).collect();
    if in_spec != in_manifest {
        return Err(Fault::Participants);
    }
    for party in &manifest.participants {
        check_other(party, offered, site, datasets)?;
    }
    if party.lineage != local.lineage {
        return Err(Fault::Lineage(local.name.clone()));
    }
    let dataset = local.as_seen(offered, site.organization, site.worker);
    let charge = manifest.spec.cost(&dataset);
    if charge != party.charge {
        return Err(Fault::Charge(local.name.clone()));
    }
    if let Some(charge) = &charge {
        let units = match charge.unit {
            PrivacyUnit::Record => dataset.records.0,
            PrivacyUnit::Speaker | PrivacyUnit::User => dataset.speakers.0,
        };
        if party.units != units {
            return Err(Fault::Units { dataset: local.name.clone(), manifest: party.units, site: units });
        }
    }
    let (signed, digest, local) = (signed.clone(), signed.digest(), local.clone());
    Ok(Examined { manifest, signed, digest, own, local, dataset, charge })
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
