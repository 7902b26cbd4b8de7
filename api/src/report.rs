//! The report of a job: all its known figures, in one file that can be read, kept, and used to repeat the job.
//!
//! All content is from the job's own record: the signed manifest, the lead's measurements on public data, the counted
//! releases, the statements of the sites. Nothing is computed from private data, so a report is no release.
//! [`ReportFile::absent`] lists the missing figures with the reasons.

mod comparison;
mod level;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use undertone_privacy::{Adjacency, Event};

use crate::dataset::{SizeClass, Visibility};
use crate::id::{DatasetId, LineageId};
use crate::job::audit::AuditView;
use crate::job::{DatasetUse, Measurement, NewJob, Report, Spec};
use crate::signed::certificate::{ArtifactNamed, ConsortiumNamed, JobCovered};
use crate::signed::{Manifest, Signed};

pub use comparison::ArmComparison;
pub use level::{DatasetReleases, LevelDerivation, MEANINGLESS, PrivacyLevel};

/// The format of the file, in its first line. Raise it if a reader of the previous format would misread it.
pub const FORMAT: &str = "undertone/report/1";

/// A job's report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportFile {
    /// `undertone/report/1`.
    pub format: String,
    /// When it was created. A job that is not over has a report of its present state.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub made_at: OffsetDateTime,
    /// The programs and formulas behind the figures.
    pub versions: ReportVersions,
    /// The consortium.
    pub consortium: ConsortiumNamed,
    /// The job.
    pub job: JobCovered,
    /// Why it was refused, failed or was cancelled, in words.
    #[serde(default)]
    pub reason: Option<String>,
    /// The job as it was proposed, with every value that the datasets determined. A new proposal of it requests the
    /// same.
    pub proposal: NewJob,
    /// The signed manifest of the server. Its spec is that of the proposal.
    pub manifest: Signed,
    /// Every dataset of the job, the lead first.
    pub datasets: Vec<DatasetUsed>,
    /// The report of the lead at the end.
    #[serde(default)]
    pub outcome: Option<Report>,
    /// Comparison of the arms, test set by test set.
    pub comparison: Vec<ArmComparison>,
    /// Every figure measured on public data: the learning curves.
    pub measurements: Vec<Measurement>,
    /// The privacy cost of the job in each dataset, at every level.
    pub privacy: Vec<PartyCost>,
    /// The results of the audits and of the attacks on canaries.
    pub audits: Vec<AuditView>,
    /// The job's files, by name.
    pub artifacts: Vec<ArtifactNamed>,
    /// The certificate; absent until it is issued.
    #[serde(default)]
    pub certificate: Option<CertificateNamed>,
    /// The missing figures, each with the reason.
    pub absent: Vec<MissingFigure>,
}

/// The programs behind the figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Versions))]
pub struct ReportVersions {
    /// Version of the server.
    pub server: String,
    /// Version of the formulas of both accountants.
    pub evaluator: String,
    /// The server's address.
    pub address: String,
    /// The server's public key, hex.
    pub public_key: String,
}

/// The use of a dataset by the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DatasetUsed {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub name: String,
    /// Its lineage.
    pub lineage: LineageId,
    /// Its owner's name.
    pub organization_name: String,
    /// The visibility of the dataset.
    pub visibility: Visibility,
    /// The use of the dataset by the job.
    pub purpose: DatasetUse,
    /// n, the public number of units, used in every division.
    pub units: u64,
    /// The approximate number of training records.
    pub records: SizeClass,
    /// The approximate number of training speakers.
    pub speakers: SizeClass,
    /// SHA-256 of the content, hex, for public data. It is withheld for private data, because a reader could test a
    /// guess of the data with it.
    #[serde(default)]
    pub digest: Option<String>,
}

/// The privacy cost of a job in a dataset.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PartyCost {
    /// The dataset.
    pub dataset: DatasetId,
    /// Its name.
    pub dataset_name: String,
    /// Its owner's name.
    pub organization_name: String,
    /// The adjacency of the job's protection.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::adjacency))]
    pub adjacency: Adjacency,
    /// One release.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub event: Event,
    /// The counted releases: those paid once the site has closed its part, before that all reserved ones.
    pub releases: u64,
    /// Exact releases in addition, of data that their owner opened for the comparison. No ε covers these.
    pub in_the_clear: u64,
    /// C, to which each unit's contribution was clipped.
    #[serde(default)]
    pub clip: Option<f64>,
    /// δ of every figure; absent without a budget.
    #[serde(default)]
    pub delta: Option<f64>,
    /// ε at record level, then at speaker level. The job protected one of the two.
    pub levels: Vec<PrivacyLevel>,
}

/// A reference to a certificate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CertificateNamed {
    /// SHA-256 of its signed payload, hex.
    pub digest: String,
    /// Its path on the server.
    pub path: String,
    /// The server's signed head of its log at that time.
    #[serde(default)]
    pub head: Option<Signed>,
}

/// A missing figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Absent))]
pub struct MissingFigure {
    /// The missing figure.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// The reason why a job cannot be proposed again from a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepeatError {
    /// Another format.
    #[error("the file is of the form {0:?}; this server reads `{FORMAT}`")]
    Format(String),
    /// The signed manifest cannot be parsed.
    #[error("the manifest in the file cannot be read: {0}")]
    Manifest(String),
    /// The spec was changed after it was signed.
    #[error("the file's spec is not that of the manifest in it: propose a changed job as a new one")]
    Changed,
}

impl Report {
    /// Returns the SHA-256 of a public dataset's content, hex, if the lead has reported it.
    pub fn digest(&self, dataset: DatasetId) -> Option<String> {
        let contents = match self {
            Self::DpSgd(report) => &report.contents,
            Self::ActiveLearning(report) => &report.contents,
            // The job trains and measures nothing of public data.
            Self::Transcription(_) | Self::Evaluation(_) | Self::Analytics(_) => return None,
        };
        contents.iter().find(|content| content.dataset == dataset).map(|content| content.digest.clone())
    }
}

impl ReportFile {
    /// Returns the job of the file for a new proposal, exactly as it was signed.
    ///
    /// # Errors
    /// [`RepeatError`] if the file has another format, or its parts disagree.
    pub fn to_proposal(&self) -> Result<NewJob, RepeatError> {
        if self.format != FORMAT {
            return Err(RepeatError::Format(self.format.clone()));
        }
        let manifest: Manifest =
            serde_json::from_str(&self.manifest.payload).map_err(|error| RepeatError::Manifest(error.to_string()))?;
        if manifest.spec != self.proposal.spec || manifest.title != self.proposal.title {
            return Err(RepeatError::Changed);
        }
        Ok(self.proposal.clone())
    }

    /// Returns the names of the measured arms in the order in which they ran.
    pub fn arms(&self) -> Vec<&str> {
        let mut arms: Vec<&str> = Vec::new();
        for compared in &self.comparison {
            if !arms.contains(&compared.arm.as_str()) {
                arms.push(&compared.arm);
            }
        }
        arms
    }

    /// Returns the job's spec.
    pub const fn spec(&self) -> &Spec {
        &self.proposal.spec
    }
}
