//! The lineage of a model: the jobs from which the initial model of a job follows, and the cost of all together.
//!
//! A job that begins with a model of differentially private releases post-processes them, and its own releases compose
//! with them adaptively. Every release is in its account already. The certificate of the new job repeats the charges of
//! the earlier ones, so that it alone shows what the resulting model cost each party.

use serde::{Deserialize, Serialize};
use undertone_privacy::{Adjacency, Event, PrivacyUnit};

use super::{Certificate, CertifiedFigure};
use crate::id::{JobId, LineageId, OrganizationId};
use crate::model::source::ModelSource;

/// The most earlier jobs from which an initial model may follow. The certificate lists each.
pub const MOST_EARLIER_JOBS: usize = 32;

/// The registry model with which a job began, and its cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ModelLineage {
    /// SHA-256 of the file with which the job began, hex, as its manifest names it.
    pub digest: String,
    /// The jobs from which the file follows, the newest first: each began with the file of the next.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 32))]
    pub jobs: Vec<LineageJob>,
    /// The cost of these jobs and of this one together: one entry for each account that any of them charged.
    pub sums: Vec<LineageSum>,
}

impl ModelLineage {
    /// Returns the lineage of a model that a job of this certificate made: the job itself, then the jobs with whose
    /// model it began.
    pub fn continue_from(file: LineageJob, certificate: &Certificate) -> Self {
        let earlier = certificate.initial_model.iter().flat_map(|model| model.jobs.clone());
        let digest = file.digest.clone();
        Self { digest, jobs: std::iter::once(file).chain(earlier).collect(), sums: Vec::new() }
    }
}

/// An earlier job and the file with which the next one began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LineageJob {
    /// Id.
    pub job: JobId,
    /// Title.
    pub title: String,
    /// The name of the file within the job.
    pub file: String,
    /// SHA-256 of the file, hex.
    pub digest: String,
    /// The data from which the file follows, beside those of the model with which the job began.
    pub source: ModelSource,
    /// SHA-256 of the payload of the job's certificate, hex: it proves the charges.
    pub certificate: String,
    /// The charges from which the file follows, as that certificate states them; empty for a file of public data.
    pub charges: Vec<LineageCharge>,
}

impl LineageJob {
    /// Returns the entry of a file of a job with a certificate, whose payload has the digest `digest`.
    pub fn from_certificate(
        (file, file_digest): (String, String),
        source: ModelSource,
        certificate: &Certificate,
        digest: String,
    ) -> Self {
        let charges = if source == ModelSource::Public { Vec::new() } else { list_charges(certificate) };
        let job = &certificate.job;
        Self { job: job.id, title: job.title.clone(), file, digest: file_digest, source, certificate: digest, charges }
    }
}

/// One account's charge in an earlier job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LineageCharge {
    /// The owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The lineage of the dataset.
    pub lineage: LineageId,
    /// The name of the dataset.
    pub dataset_name: String,
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// One release, as it was charged to this account.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::event))]
    pub event: Event,
    /// The counted releases.
    pub releases: u64,
    /// δ of the account at that time; absent without a budget.
    pub delta: Option<f64>,
}

/// The cost to one account of all jobs from which a model follows, the job of the certificate included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LineageSum {
    /// The owner.
    pub organization: OrganizationId,
    /// The owner's name.
    pub organization_name: String,
    /// The lineage of the datasets.
    pub lineage: LineageId,
    /// The names of the datasets, each once.
    pub dataset_names: Vec<String>,
    /// The protected unit.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::unit))]
    pub unit: PrivacyUnit,
    /// The adjacency, the change that the guarantee covers.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// The number of jobs that charged the account.
    pub jobs: u64,
    /// ε of all counted releases of these jobs, by the sum of their Rényi curves, at the least δ of the account;
    /// absent if the account never had a budget.
    pub figure: Option<CertifiedFigure>,
}

/// Returns every charge of a certificate's job: of the protected unit and of the other limited units of each party.
pub(super) fn list_charges(certificate: &Certificate) -> Vec<LineageCharge> {
    let mut charges = Vec::new();
    for party in &certificate.parties {
        let Some(charged) = &party.charged else { continue };
        let charge = |unit, event: &Event, delta| LineageCharge {
            organization: party.organization,
            organization_name: party.organization_name.clone(),
            lineage: party.lineage,
            dataset_name: party.dataset_name.clone(),
            unit,
            adjacency: charged.adjacency,
            event: event.clone(),
            releases: charged.releases.counted,
            delta,
        };
        charges.push(charge(charged.unit, &charged.mechanism.event, charged.account.delta));
        charges.extend(charged.others.iter().map(|other| charge(other.unit, &other.event, other.account.delta)));
    }
    charges
}

impl Certificate {
    /// Returns every charge of this job and of the jobs with whose model it began, this job's first.
    pub fn lineage_charges(&self) -> Vec<(JobId, LineageCharge)> {
        let own = list_charges(self).into_iter().map(|charge| (self.job.id, charge));
        let earlier = self.initial_model.iter().flat_map(|model| &model.jobs);
        let earlier = earlier.flat_map(|job| job.charges.iter().map(|charge| (job.job, charge.clone())));
        own.chain(earlier).collect()
    }
}
