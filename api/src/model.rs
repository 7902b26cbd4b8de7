//! Downloadable files of a job, above all the model.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{ArtifactId, JobId};
use crate::job::JobSummary;

/// The files of a finished job, with the fields that lists of jobs show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Model))]
pub struct JobModel {
    /// The job that made it.
    pub job: JobSummary,
    /// Its files, by name.
    pub files: Vec<Artifact>,
}

/// A stored file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Artifact {
    /// Id.
    pub id: ArtifactId,
    /// The job that made it.
    pub job: JobId,
    /// Name within the job: `model.safetensors`.
    pub name: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content, hex.
    pub digest: String,
    /// When it was complete.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}
