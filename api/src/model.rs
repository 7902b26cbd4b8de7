//! Downloadable files of a job, above all the model.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{ArtifactId, JobId};
use crate::job::JobSummary;
use crate::job::dp_sgd::AcousticModel;
use crate::signed::ModelOrigin;

/// The files of a finished job, with the fields that lists of jobs show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Model))]
pub struct JobModel {
    /// The job that made it.
    pub job: JobSummary,
    /// Its files, by name.
    pub files: Vec<Artifact>,
}

/// The data from which a model follows: those of the arm that made it. Whatever the model began with adds its own
/// lineage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ModelSource {
    /// Public data alone.
    Public,
    /// Releases with noise, each charged: the model is their post-processing.
    Private,
    /// Exact results of data that their owners marked open: no ε covers the model.
    Open,
}

impl ModelSource {
    /// Returns the source in words.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Public => "public data",
            Self::Private => "differentially private releases",
            Self::Open => "exact gradients of open data",
        }
    }
}

/// A registry model with which a training job can begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialModelChoice {
    /// Its origin.
    pub origin: ModelOrigin,
    /// Its layers.
    pub model: AcousticModel,
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
    /// The data from which it follows, for a model with which another job can begin; absent for every other file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ModelSource>,
    /// When it was complete.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
}
