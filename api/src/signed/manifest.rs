//! The permission to run (manifest) and a site's answer to it (decision).

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::{Document, KeyPurpose, Signed};
use crate::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use crate::job::{Charge, DatasetUse, PartyTerms, RoundSeries, Spec};
use crate::model::source::ModelSource;

/// One participant in the manifest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestParticipant {
    /// The server's id of the dataset.
    pub dataset: DatasetId,
    /// The dataset's name at its site.
    pub dataset_name: String,
    /// Its lineage.
    pub lineage: LineageId,
    /// Its owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The worker that runs it.
    pub worker: WorkerId,
    /// Its role in the job.
    pub purpose: DatasetUse,
    /// n, the public number of units, used in every division.
    pub units: u64,
    /// Its worst-case charge; `None` for public data.
    pub charge: Option<Charge>,
    /// The Ed25519 public key of its worker at the time of the proposal, hex, for a member of a group whose vectors are
    /// added under masks: the group's roster. A site whose key has changed since takes no part. `None` for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site_key: Option<String>,
}

/// The origin of the registry model with which a job begins: the file of a finished job of the same consortium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelOrigin {
    /// SHA-256 of the file, hex; the spec names it too.
    pub digest: String,
    /// The job that made it.
    pub job: JobId,
    /// The title of that job.
    pub title: String,
    /// The name of the file within that job: `model.safetensors`.
    pub file: String,
    /// The data from which the file follows, beside those of the model with which that job began.
    pub source: ModelSource,
}

/// The permission to run a job. The server signs it, and every site reads it before it approves and again before it
/// begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job.
    pub job: JobId,
    /// Its consortium.
    pub consortium: ConsortiumId,
    /// Its title.
    pub title: String,
    /// The member who proposed it.
    pub proposed_by: String,
    /// The job's spec.
    #[serde(flatten)]
    pub spec: Spec,
    /// Every dataset in it, the lead first.
    pub participants: Vec<ManifestParticipant>,
    /// Digest of the initial model ([`Spec::model`]); `None` for a kind without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The origin of the registry model with which the job begins; `None` for a job that begins with none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_model: Option<ModelOrigin>,
    /// The limits of the job. `None` only in manifests from before there were limits, which no site runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<JobLimits>,
    /// The signed proposal that the parties approved, if it left terms to them: `spec` and `participants` then hold every
    /// party's answer, and all else is as proposed. `None` in a proposal, and for a job without open terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Box<Signed>>,
    /// Time of the proposal.
    #[serde(with = "time::serde::rfc3339")]
    pub issued_at: OffsetDateTime,
}

/// The time that a proposed job may wait and run, in addition to the longest time of its rounds.
const SPARE_TIME: Duration = Duration::days(30);

/// The limits of a job: stated in the manifest, so that readers need not compute them, and enforced by every site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// The most releases that any one participant pays for.
    pub releases: u64,
    /// Rounds, over all series, and rounds of questions.
    pub rounds: u64,
    /// The longest time that a round waits for all vectors, or for answers, seconds.
    pub round_seconds: u32,
    /// The end: later, no site begins, reserves or releases anything under the manifest.
    #[serde(with = "time::serde::rfc3339")]
    pub not_after: OffsetDateTime,
}

impl JobLimits {
    /// Computes the limits of `spec` with `participants`, proposed at `issued_at`: the end is the longest time of its
    /// rounds and 30 days later.
    ///
    /// It also accepts unchecked specs: sums saturate.
    pub fn from_spec(spec: &Spec, participants: &[ManifestParticipant], issued_at: OffsetDateTime) -> Self {
        let series = spec.series(&[]);
        let charges = participants.iter().filter_map(|party| party.charge.as_ref());
        let longest = |series: &RoundSeries| i64::from(series.rounds).saturating_mul(series.deadline_seconds.into());
        // Before the first round of questions, the job waits for the pools as long as for one round.
        let questions = spec.questions().map_or((0, 0), |plan| (plan.rounds, plan.deadline_seconds));
        let asking = if questions.0 == 0 { 0 } else { (i64::from(questions.0) + 1).saturating_mul(questions.1.into()) };
        let time = Duration::seconds(series.iter().map(longest).fold(asking, i64::saturating_add));
        Self {
            releases: charges.map(|charge| charge.releases).max().unwrap_or_default(),
            rounds: series.iter().map(|series| u64::from(series.rounds)).sum::<u64>() + u64::from(questions.0),
            round_seconds: series
                .iter()
                .map(|series| series.deadline_seconds)
                .max()
                .unwrap_or_default()
                .max(questions.1),
            not_after: issued_at.saturating_add(SPARE_TIME).saturating_add(time),
        }
    }

    /// Returns whether they equal `own`, with an end that is not later.
    pub fn agree_with(&self, own: &Self) -> bool {
        let counts = |of: &Self| (of.releases, of.rounds, of.round_seconds);
        counts(self) == counts(own) && self.not_after <= own.not_after
    }
}

impl Manifest {
    /// Returns whether it still leaves terms to the parties: then it can be approved, and no site runs it.
    pub fn awaits_terms(&self) -> bool {
        self.proposal.is_none() && self.spec.has_open_terms()
    }

    /// Returns the digest of the document that the parties approve: the proposal's, or this manifest's own, `digest`.
    pub fn approved_digest(&self, digest: &str) -> String {
        self.proposal.as_ref().map_or_else(|| digest.to_owned(), |proposal| proposal.digest())
    }

    /// Returns whether `terms`, an answer to the proposal, is what this manifest holds for `dataset`. An omitted term keeps
    /// the proposal's value.
    pub fn has_answer(&self, dataset: DatasetId, terms: &PartyTerms) -> bool {
        let Some(proposal) = &self.proposal else {
            // Without open terms there is nothing to answer.
            return terms.is_empty();
        };
        let Ok(proposal) = serde_json::from_str::<Self>(&proposal.payload) else { return false };
        proposal.spec.check_terms(dataset, terms).is_empty()
            && proposal.spec.with_terms(dataset, terms).terms(dataset) == self.spec.terms(dataset)
    }

    /// Makes the final manifest of a proposal, from the proposal as it was signed, the spec with every party's answer,
    /// and the charges of that spec.
    #[must_use]
    pub fn settle_terms(mut self, proposal: Signed, spec: Spec, charge: impl Fn(DatasetId) -> Option<Charge>) -> Self {
        for party in &mut self.participants {
            party.charge = charge(party.dataset);
        }
        self.limits = Some(JobLimits::from_spec(&spec, &self.participants, self.issued_at));
        Self { spec, proposal: Some(Box::new(proposal)), ..self }
    }

    /// Returns whether it is `proposal` with admissible answers of the parties. Only the answers, the charges and the
    /// limits that follow from them may differ. A site computes its own charge and the limits itself.
    pub fn is_settled_from(&self, proposal: &Self) -> bool {
        let strip = |manifest: &Self| {
            let mut bare = manifest.clone();
            for party in &mut bare.participants {
                party.charge = None;
            }
            Self { spec: proposal.spec.clone(), limits: None, proposal: None, ..bare }
        };
        proposal.awaits_terms() && self.spec.is_settled_from(&proposal.spec) && strip(self) == strip(proposal)
    }

    /// Returns whether the stated origin is of the model with which the spec begins, and this model is protected: exact
    /// gradients of open data are none to begin with.
    pub fn has_valid_origin(&self) -> bool {
        match (&self.initial_model, self.spec.initial_file()) {
            (None, None) => true,
            (Some(origin), Some(digest)) => origin.digest == digest && origin.source != ModelSource::Open,
            _ => false,
        }
    }
}

impl Document for Manifest {
    const DOMAIN: &'static str = "undertone/manifest/1";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Job);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(self.issued_at)
    }
}

/// A site's answer to a manifest, signed with the site's key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteDecision {
    /// Digest of the manifest's payload.
    pub manifest: String,
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Whether the site approves.
    pub approve: bool,
    /// The reason for a refusal; empty for an approval.
    pub reason: String,
    /// The site's answer to the open terms of the proposal, with an approval; an omitted term keeps the proposal's value.
    #[serde(default, skip_serializing_if = "PartyTerms::is_empty")]
    pub terms: PartyTerms,
    /// Time of the decision.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for SiteDecision {
    const DOMAIN: &'static str = "undertone/decision/1";
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::JobLimits;
    use crate::job::Spec;

    /// A hostile server may sign any number; a site computes the limits before it trusts one.
    #[test]
    fn limits_of_endless_rounds_saturate() {
        let page = include_str!("../job/dp_sgd/spec.md");
        let example = page.split("```json").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
        let mut spec: serde_json::Value = serde_json::from_str(example).expect("JSON");
        for arm in ["open", "private"] {
            spec[arm] = spec["private"].clone();
            for field in ["rounds", "deadline_seconds"] {
                spec[arm][field] = u32::MAX.into();
            }
        }
        let spec: Spec = serde_json::from_value(serde_json::json!({ "kind": "dp_sgd", "spec": spec })).expect("a spec");
        let limits = JobLimits::from_spec(&spec, &[], OffsetDateTime::UNIX_EPOCH);
        assert!(limits.not_after > OffsetDateTime::UNIX_EPOCH && limits.round_seconds == u32::MAX);
        assert_eq!(limits.rounds, 2 * u64::from(u32::MAX));
    }
}
