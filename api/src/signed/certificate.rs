//! The cost of a job with all its releases: signed by the server once the job is over, and verifiable without it.
//!
//! The certificate states figures; the evidence with it in a [`CertificateFile`] proves them. It is final: later rules,
//! budgets or formulas do not change it. Every ε is rounded up.

mod basis;
mod evidence;
mod figure;
mod lineage;
mod party;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use super::{Document, KeyPurpose, Signed};
use crate::consortium::OverlapRule;
use crate::id::{ConsortiumId, JobId};
use crate::job::JobState;

pub use basis::{PublicFact, is_relation, relation};
pub use evidence::{AuditAsked, CertificateEvidence, CertificateFile, LoggedReceipt, ProvenReceipt};
pub use figure::{CertifiedFigure, CombinedFigure, FigureMethod, ValidFor};
pub use lineage::{LineageCharge, LineageJob, LineageSum, MOST_EARLIER_JOBS, ModelLineage};
pub use party::{
    AccountPosition, CertificateParty, ChainPiece, ChargedBeside, ClockSummary, PartyCharges, ReleaseCounts,
    ReleaseMechanism, UnitSampling,
};

/// The cost of a job and all its releases to the people whose data it read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The version of the rules by which it was made; absent is 1. Under version 1 the releases made were counted once
    /// a site had closed its part, and neither relation nor public facts were stated.
    #[serde(default = "Certificate::first_version")]
    pub version: u32,
    /// When it was issued. It contains no later event.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub issued_at: OffsetDateTime,
    /// The signer, and the formulas of the figures.
    pub issuer: CertificateIssuer,
    /// The consortium.
    pub consortium: ConsortiumNamed,
    /// The job.
    pub job: JobCovered,
    /// Every dataset of the job, the lead first.
    pub parties: Vec<CertificateParty>,
    /// In how many organizations' data one person may be, and the author of this declaration.
    pub overlap: OverlapRule,
    /// The figures of the whole consortium under that rule: one entry for each charged unit and adjacency.
    pub together: Vec<CombinedFigure>,
    /// The job's files at the time of the certificate, by name: the model above all.
    pub artifacts: Vec<ArtifactNamed>,
    /// The model with which the job began, the jobs that it follows from, and the cost of all of them together; absent
    /// for a job that began with no model of the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_model: Option<ModelLineage>,
    /// The server's signed head of its whole log at the time of the certificate; absent from a server without a log.
    #[serde(default)]
    pub head: Option<Signed>,
}

impl Certificate {
    /// The current version. Since 2 every release that the manifest plans is counted, made or not. A job may be stopped
    /// after its outputs were seen, and no figure here is valid for a number of releases that was reached so.
    pub const VERSION: u32 = 2;

    /// Returns the version of certificates that state none.
    pub const fn first_version() -> u32 {
        1
    }

    /// Returns how many releases the figures count under the rules of a version; `None` for an unknown version.
    pub fn count_releases(version: u32, releases: &ReleaseCounts) -> Option<u64> {
        let ReleaseCounts { reserved, committed, settled, .. } = *releases;
        match version {
            1 if settled => Some(committed),
            1 | Self::VERSION => Some(committed.max(reserved)),
            _ => None,
        }
    }
}

impl Document for Certificate {
    const DOMAIN: &'static str = "undertone/certificate/1";
    const PURPOSE: Option<KeyPurpose> = Some(KeyPurpose::Job);

    fn signed_at(&self) -> Option<OffsetDateTime> {
        Some(self.issued_at)
    }
}

/// The server that signs and computes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Issuer))]
#[serde(deny_unknown_fields)]
pub struct CertificateIssuer {
    /// The server's address.
    pub address: String,
    /// Its public key, hex. A key in the document proves nothing by itself: compare it with the key in your worker's
    /// enrolment.
    pub public_key: String,
    /// Version of the program.
    pub program: String,
    /// Version of the formulas of both accountants.
    pub evaluator: String,
}

/// A reference to a consortium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConsortiumNamed {
    /// Id.
    pub id: ConsortiumId,
    /// Name.
    pub name: String,
}

/// The job of a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct JobCovered {
    /// Id.
    pub id: JobId,
    /// Title.
    pub title: String,
    /// Kind.
    pub kind: String,
    /// Its final state. Releases of failed and cancelled jobs are certified too.
    pub state: JobState,
    /// The name of the proposer.
    pub proposed_by: String,
    /// Closed rounds, over all series.
    pub rounds_done: u32,
    /// Planned rounds.
    pub rounds: u32,
    /// SHA-256 of the signed manifest's payload, hex.
    pub manifest: String,
    /// When the first worker began; absent if none did.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub started_at: Option<OffsetDateTime>,
    /// When it ended.
    #[serde(default, with = "time::serde::rfc3339::option")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>, format = DateTime))]
    pub finished_at: Option<OffsetDateTime>,
}

/// A file of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ArtifactNamed {
    /// Name within the job: `model.safetensors`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, hex.
    pub digest: String,
}
