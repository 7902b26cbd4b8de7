//! Admission: checks a manifest against the facts that the site holds itself.
//!
//! The server may lie, widen, replay or swap. The signature must verify under the pinned key. The manifest must name
//! this worker, dataset and lineage exactly once. Its statements about other datasets at this site must hold. Spec and
//! participants must agree, and the charge must equal the spec's cost by this site's own facts. To add a check: a line
//! in [`examine`], a fault, and a test case with that malicious server.

use time::{Duration, OffsetDateTime};
use undertone_api::dataset::{Dataset, Visibility};
use undertone_api::id::{DatasetId, OrganizationId, WorkerId};
use undertone_api::job::{Charge, DatasetUse, PartyTerms, RoundSeries, Spec};
use undertone_api::problem::Violation;
use undertone_api::signed::{JobLimits, Manifest, ManifestParticipant, Signed, SignedError};
use undertone_privacy::{Event, PrivacyUnit};

use super::datasets::LocalDataset;
use super::ledger::release_context::ReleaseContext;
use super::server_trust::ServerTrust;

mod form;

/// A reason to reject a manifest. The proposer may read every text.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ManifestFault {
    /// The signature is not from the server of the enrolment.
    #[error("the manifest is not signed by the server that this site enrolled at")]
    Signature(#[from] SignedError),
    /// The dataset is not at this site.
    #[error("the offer names a dataset that is not at this site")]
    Stranger,
    /// The manifest does not name the dataset exactly once, or names another worker.
    #[error("the manifest does not name this worker's dataset `{0}` as a participant exactly once")]
    NotNamed(String),
    /// The manifest names another lineage.
    #[error("the manifest gives dataset `{0}` another line of versions: its budget would be another one")]
    Lineage(String),
    /// Two datasets of the job are charged to the same accounts.
    #[error("the job charges another dataset of the same accounts too, `{0}`: the same data would take part twice")]
    SharedAccounts(String),
    /// The job would read a dataset of this site that is not public.
    #[error("the job would read dataset `{0}` of this site, which its policy does not mark as public")]
    NotPublic(String),
    /// Spec and participants do not agree.
    #[error("the manifest's participants are not those of its spec")]
    Participants,
    /// The spec is invalid, so no honest server signs it.
    #[error("the manifest's spec is one that this site refuses whoever signs it: `{field}`: {message}")]
    Spec {
        /// The field.
        field: String,
        /// The violation.
        message: String,
    },
    /// The number of units differs.
    #[error(
        "the manifest divides by {manifest} units of `{dataset}`, this site says {site}: it was prepared again, or never so"
    )]
    Units {
        /// The dataset.
        dataset: String,
        /// The number in the manifest.
        manifest: u64,
        /// The site's number.
        site: u64,
    },
    /// The data cannot protect units of this kind.
    #[error("the data of `{0}` do not keep units of the kind {1:?} apart, so that none can be protected")]
    Mixed(String, PrivacyUnit),
    /// The charge differs.
    #[error("the manifest does not charge `{0}` what its spec costs by this site's own facts: propose the job again")]
    Charge(String),
    /// The manifest contains a value that this worker does not know.
    #[error(
        "the manifest says something at `{0}` that this worker does not understand: it needs a later version of the worker"
    )]
    Strange(String),
    /// The dataset belongs to another organization.
    #[error("the manifest says that dataset `{0}` belongs to another organization")]
    Owner(String),
    /// The model differs.
    #[error("the manifest starts from another model than its spec makes with the data of `{0}`")]
    Model(String),
    /// The stated origin of the initial model is of another model, missing, or of a model without protection.
    #[error(
        "the manifest does not state a protected origin of the initial model that its spec names: propose the job again \
         with a public or private model of the registry"
    )]
    InitialModel,
    /// The manifest has no limits.
    #[error("the manifest has no limits: it is from before there were any; propose the job again")]
    NoLimits,
    /// The limits differ.
    #[error("the manifest's limits are not those of its spec and its participants: propose the job again")]
    Limits,
    /// The manifest has expired.
    #[error("the manifest held until {0}: propose the job again")]
    Expired(OffsetDateTime),
    /// The manifest was issued in the future.
    #[error("the manifest was issued at {0}, which is yet to come: set the clocks of server and site")]
    Future(OffsetDateTime),
    /// The final manifest does not follow from its proposal.
    #[error(
        "the final manifest is not its proposal with the parties' answers within the proposed ranges: somebody changed the \
         job after it was approved; propose it again"
    )]
    Terms,
    /// The job arrived under a second manifest.
    #[error("the job came under another manifest before ({0}): a job never changes; propose a new one")]
    Changed(String),
}

/// The tolerated clock difference between server and site.
pub const CLOCKS: Duration = Duration::DAY;

/// The site's identity, which admission compares with the manifest.
#[derive(Debug, Clone)]
pub struct SiteIdentity {
    /// This worker.
    pub worker: WorkerId,
    /// Its organization.
    pub organization: OrganizationId,
    /// The keys with which the server signs.
    pub server_key: ServerTrust,
}

/// A manifest that agrees with the site's facts.
#[derive(Debug, Clone)]
pub struct ExaminedManifest {
    /// The manifest.
    pub manifest: Manifest,
    /// The document as it was signed.
    pub signed: Signed,
    /// Its digest.
    pub digest: String,
    /// The digest of the document that is approved: the proposal's where that left terms to the parties, else `digest`.
    pub approved: String,
    /// The answer to the open terms of a proposal that the site's own rules allow; empty for each other manifest.
    pub terms: PartyTerms,
    /// The index of this site's entry in the manifest's participants.
    pub own: usize,
    /// The dataset in the site's own records.
    pub local: LocalDataset,
    /// The same dataset in the form of the contract.
    pub dataset: Dataset,
    /// The worst-case charge to the dataset, computed at this site.
    pub charge: Option<Charge>,
}

impl ExaminedManifest {
    /// Returns this participant's entry.
    pub fn own(&self) -> &ManifestParticipant {
        &self.manifest.participants[self.own]
    }

    /// Returns the charge and the manifest under which this part releases; `None` when nothing private leaves.
    pub fn release_context(&self) -> Option<ReleaseContext> {
        self.charge.as_ref().map(|charge| ReleaseContext {
            job: self.manifest.job,
            dataset: self.dataset.id,
            lineage: self.local.lineage,
            manifest: self.digest.clone(),
            charge: charge.clone(),
        })
    }

    /// Returns a proposal under an answer to its open terms, with the charge of that answer.
    #[must_use]
    pub fn answer_with(&self, terms: &PartyTerms) -> Self {
        let mut answered = Self { terms: terms.clone(), ..self.clone() };
        if terms.is_empty() {
            return answered;
        }
        let Self { manifest, charge, dataset, own, .. } = &mut answered;
        manifest.spec = manifest.spec.clone().with_terms(dataset.id, terms);
        *charge = manifest.spec.cost(dataset);
        if let Some(party) = manifest.participants.get_mut(*own) {
            party.charge.clone_from(charge);
        }
        answered
    }

    /// Returns the answers that a policy considers, in this order: the proposal's own values, then those in the ranges
    /// that protect the data most. One empty answer for each manifest without open terms.
    pub fn answers(&self) -> Vec<PartyTerms> {
        let mut answers = vec![PartyTerms::default()];
        if self.manifest.awaits_terms() {
            answers.push(self.manifest.spec.most_private_terms(self.dataset.id));
        }
        answers
    }

    /// Returns the time at which the manifest expires.
    pub fn not_after(&self) -> Option<OffsetDateTime> {
        self.manifest.limits.as_ref().map(|limits| limits.not_after)
    }

    /// Returns the event of one vector of `series`; `None` when the series has no private release of this site.
    pub fn release(&self, series: &str) -> Option<Event> {
        self.manifest.spec.release(&self.dataset, series)
    }

    /// Returns the number of rounds of `series` in which this dataset may release something. Returns `None` when the
    /// job has no such series, or when it is a questions or sounds series to which this participant sends nothing.
    pub fn rounds(&self, series: &str) -> Option<u32> {
        let all = self.manifest.spec.series(std::slice::from_ref(&self.dataset));
        let last = |known: RoundSeries| {
            let own = known.until.iter().find(|(dataset, _)| *dataset == self.dataset.id);
            own.map_or(known.rounds, |(_, last)| known.rounds.min(*last))
        };
        let averaged = all.into_iter().find(|known| known.name == series).map(last);
        averaged.or_else(|| self.is_one_release(series).then_some(1))
    }

    /// Returns whether `series` is a single release of this participant: a pool of questions, or a batch for a
    /// recipient other than the server.
    pub fn is_one_release(&self, series: &str) -> bool {
        self.asks(series) || self.sends_outside(series)
    }

    /// Returns whether this participant sends a batch to a recipient other than the server under `series`, in round 1.
    pub fn sends_outside(&self, series: &str) -> bool {
        let outside = self.manifest.spec.external_release();
        outside.is_some_and(|said| said.series == series && said.sending.contains(&self.dataset.id))
    }

    /// Returns whether this participant sends a pool of questions under `series`, in round 1.
    pub fn asks(&self, series: &str) -> bool {
        let questions = self.manifest.spec.questions();
        questions.is_some_and(|said| said.series == series && said.asking.contains(&self.dataset.id))
    }
}

/// Parses a manifest offered for the dataset `offered`, and compares it with the site's facts at `now`.
///
/// # Errors
/// The first [`ManifestFault`].
pub fn examine(
    signed: &Signed,
    offered: DatasetId,
    site: &SiteIdentity,
    datasets: &[LocalDataset],
    now: OffsetDateTime,
) -> Result<ExaminedManifest, ManifestFault> {
    let manifest: Manifest = signed.open(&site.server_key)?;
    if let Some(place) = form::find_unread(&signed.payload, &manifest) {
        return Err(ManifestFault::Strange(place));
    }
    check_proposal(&manifest, site)?;
    let local = datasets.iter().find(|local| local.id == Some(offered)).ok_or(ManifestFault::Stranger)?;
    let own = own(&manifest, offered, site, local)?;
    let in_spec = manifest.spec.datasets();
    let in_manifest: Vec<_> = manifest.participants.iter().map(|party| (party.dataset, party.purpose)).collect();
    if in_spec != in_manifest {
        return Err(ManifestFault::Participants);
    }
    for party in &manifest.participants {
        check_other(party, offered, site, datasets)?;
    }
    let party = &manifest.participants[own];
    let dataset = local.to_dataset(offered, site.organization, site.worker);
    check_outside(&manifest, &dataset)?;
    check_noise(&manifest)?;
    // A job continues under the relation that its manifest states.
    let charge = Charge::reconcile(manifest.spec.cost(&dataset), party.charge.as_ref())
        .ok_or_else(|| ManifestFault::Charge(local.name.clone()))?;
    if let Some(charge) = &charge {
        if !dataset.keeps_apart(charge.unit) {
            return Err(ManifestFault::Mixed(local.name.clone(), charge.unit));
        }
        let units = dataset.count(charge.unit).0;
        if party.units != units {
            return Err(ManifestFault::Units { dataset: local.name.clone(), manifest: party.units, site: units });
        }
    }
    check_limits(&manifest, local, now)?;
    let digest = signed.digest();
    let approved = manifest.approved_digest(&digest);
    let (signed, local, terms) = (signed.clone(), local.clone(), PartyTerms::default());
    Ok(ExaminedManifest { manifest, signed, digest, approved, terms, own, local, dataset, charge })
}

/// Checks that a final manifest is its signed proposal with admissible answers.
fn check_proposal(manifest: &Manifest, site: &SiteIdentity) -> Result<(), ManifestFault> {
    let Some(proposal) = &manifest.proposal else { return Ok(()) };
    let proposed: Manifest = proposal.open(&site.server_key)?;
    if let Some(place) = form::find_unread(&proposal.payload, &proposed) {
        return Err(ManifestFault::Strange(place));
    }
    if manifest.is_settled_from(&proposed) { Ok(()) } else { Err(ManifestFault::Terms) }
}

/// Returns the index of the only participant with this dataset; checks its name, lineage, organization and worker.
fn own(
    manifest: &Manifest,
    offered: DatasetId,
    site: &SiteIdentity,
    local: &LocalDataset,
) -> Result<usize, ManifestFault> {
    let mut entries = manifest.participants.iter().enumerate().filter(|(_, party)| party.dataset == offered);
    let not_named = || ManifestFault::NotNamed(local.name.clone());
    let (own, party) = entries.next().ok_or_else(not_named)?;
    let ours = party.worker == site.worker && party.dataset_name == local.name;
    if entries.next().is_some() || !ours || party.purpose != DatasetUse::Participate {
        return Err(not_named());
    }
    if party.lineage != local.lineage {
        return Err(ManifestFault::Lineage(local.name.clone()));
    }
    if party.organization != site.organization {
        return Err(ManifestFault::Owner(local.name.clone()));
    }
    Ok(own)
}

/// Checks, against this site's facts, a spec that sends something to recipients other than the server. The spec's rules
/// for private data are part of the promise, and a malicious server may not have checked them.
fn check_outside(manifest: &Manifest, dataset: &Dataset) -> Result<(), ManifestFault> {
    if manifest.spec.external_release().is_none() {
        return Ok(());
    }
    let violation = manifest.spec.check(std::slice::from_ref(dataset)).into_iter().next();
    violation.map_or(Ok(()), |Violation { field, message }| Err(ManifestFault::Spec { field, message }))
}

/// Checks the limits of correlated noise: its price is proved for some combinations of options alone, and a malicious
/// server may not have checked them.
fn check_noise(manifest: &Manifest) -> Result<(), ManifestFault> {
    let Spec::DpSgd(spec) = &manifest.spec else { return Ok(()) };
    let violation = spec.find_unproved_noise();
    violation.map_or(Ok(()), |Violation { field, message }| Err(ManifestFault::Spec { field, message }))
}

/// Checks that model and limits follow from the spec, and that the manifest is in force.
fn check_limits(manifest: &Manifest, local: &LocalDataset, now: OffsetDateTime) -> Result<(), ManifestFault> {
    if manifest.model != manifest.spec.model(local.facts.inputs) {
        return Err(ManifestFault::Model(local.name.clone()));
    }
    if !manifest.has_valid_origin() {
        return Err(ManifestFault::InitialModel);
    }
    let limits = manifest.limits.as_ref().ok_or(ManifestFault::NoLimits)?;
    if !limits.agree_with(&JobLimits::from_spec(&manifest.spec, &manifest.participants, manifest.issued_at)) {
        return Err(ManifestFault::Limits);
    }
    if manifest.issued_at > now.saturating_add(CLOCKS) {
        return Err(ManifestFault::Future(manifest.issued_at));
    }
    if limits.not_after < now {
        return Err(ManifestFault::Expired(limits.not_after));
    }
    Ok(())
}

/// Checks the manifest's statements about another dataset at this site. A dataset that is only read must be public
/// here.
fn check_other(
    party: &ManifestParticipant,
    offered: DatasetId,
    site: &SiteIdentity,
    datasets: &[LocalDataset],
) -> Result<(), ManifestFault> {
    let local = datasets.iter().find(|local| local.id == Some(party.dataset));
    let Some(local) = local.filter(|_| party.dataset != offered) else { return Ok(()) };
    let own = datasets.iter().find(|own| own.id == Some(offered));
    if party.charge.is_some() && own.is_some_and(|own| own.lineage == local.lineage) {
        return Err(ManifestFault::SharedAccounts(local.name.clone()));
    }
    if party.worker != site.worker || party.lineage != local.lineage {
        return Err(ManifestFault::Lineage(local.name.clone()));
    }
    if party.purpose == DatasetUse::Evaluate && local.visibility != Visibility::Public {
        return Err(ManifestFault::NotPublic(local.name.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
