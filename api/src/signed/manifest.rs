//! What may run (manifest) and what a site says to it (decision).

use serde::{Deserialize, Serialize};
use time::{Duration, OffsetDateTime};

use super::{Document, KeyPurpose};
use crate::id::{ConsortiumId, DatasetId, JobId, LineageId, OrganizationId, WorkerId};
use crate::job::{Charge, Purpose, Series, Spec};

/// One participant, as the manifest names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ManifestParticipant {
    /// The dataset, under the server's id.
    pub dataset: DatasetId,
    /// The dataset's name at its site.
    pub dataset_name: String,
    /// Its line of versions.
    pub lineage: LineageId,
    /// Its owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The worker that is to run it.
    pub worker: WorkerId,
    /// What the job does with it.
    pub purpose: Purpose,
    /// n, the public number of units that stands in every division.
    pub units: u64,
    /// What it is charged at worst; absent for public data.
    pub charge: Option<Charge>,
}

/// What may run: signed by the server, read by every site before it says yes and again before it begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The job.
    pub job: JobId,
    /// Its consortium.
    pub consortium: ConsortiumId,
    /// Its title.
    pub title: String,
    /// Who proposed it.
    pub proposed_by: String,
    /// What is to be done.
    #[serde(flatten)]
    pub spec: Spec,
    /// Every dataset in it, the lead first.
    pub participants: Vec<ManifestParticipant>,
    /// Digest of what all start from ([`Spec::model`]); absent when the kind starts from no model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What the job does at most. Absent only from manifests of before there were limits: a site runs none of those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// When it was proposed.
    #[serde(with = "time::serde::rfc3339")]
    pub issued_at: OffsetDateTime,
}

/// How long, beside the longest time that its rounds may take, a proposed job may wait and run.
const SPARE_TIME: Duration = Duration::days(30);

/// What a job does at most: said in the manifest, so that who reads it need not work it out, and held by every site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Most releases that any one participant pays for.
    pub releases: u64,
    /// Rounds, over all series, and rounds of questions.
    pub rounds: u64,
    /// Longest that a round waits for all, or for answers, in seconds.
    pub round_seconds: u32,
    /// When it is over: later, no site begins, reserves or releases anything under the manifest.
    #[serde(with = "time::serde::rfc3339")]
    pub not_after: OffsetDateTime,
}

impl Limits {
    /// What `spec` with `participants` comes to when it was proposed at `issued_at`: 30 days, and as long as its rounds may
    /// take, until it is over.
    ///
    /// Worked out of specs that nobody has checked, too: what cannot be counted is the most that can.
    pub fn of(spec: &Spec, participants: &[ManifestParticipant], issued_at: OffsetDateTime) -> Self {
        let series = spec.series(&[]);
        let charges = participants.iter().filter_map(|party| party.charge.as_ref());
        let longest = |series: &Series| i64::from(series.rounds).saturating_mul(series.deadline_seconds.into());
        // Before the first round of questions the pools are waited for, as long as for one round.
        let questions = spec.questions().map_or((0, 0), |asked| (asked.rounds, asked.deadline_seconds));
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

    /// Whether they are what `own` says, and end no later.
    pub fn agree_with(&self, own: &Self) -> bool {
        let counts = |of: &Self| (of.releases, of.rounds, of.round_seconds);
        counts(self) == counts(own) && self.not_after <= own.not_after
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Digest of the manifest's payload.
    pub manifest: String,
    /// The job.
    pub job: JobId,
    /// The dataset.
    pub dataset: DatasetId,
    /// Yes or no.
    pub approve: bool,
    /// Why not; empty for a yes.
    pub reason: String,
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    pub at: OffsetDateTime,
}

impl Document for Decision {
    const DOMAIN: &'static str = "undertone/decision/1";
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;

    use super::Limits;
    use crate::job::Spec;

    /// A server that lies may sign any number; a site works the limits out before it believes one.
    #[test]
    fn limits_of_rounds_without_end_are_the_most_that_can_be_counted() {
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
        let limits = Limits::of(&spec, &[], OffsetDateTime::UNIX_EPOCH);
        assert!(limits.not_after > OffsetDateTime::UNIX_EPOCH && limits.round_seconds == u32::MAX);
        assert_eq!(limits.rounds, 2 * u64::from(u32::MAX));
    }
}
