//! Downloadable files of a job, above all the model; and the mark of files that no job may have.

pub mod record;
pub mod source;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;

use crate::id::{ArtifactId, JobId, MemberId};
use crate::job::JobSummary;
use crate::job::dp_sgd::AcousticModel;
use crate::signed::ModelOrigin;

pub use source::ModelSource;

/// The files of a finished job, with the fields that lists of jobs show.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Model))]
pub struct JobModel {
    /// The job that made it.
    pub job: JobSummary,
    /// Its files, by name.
    pub files: Vec<Artifact>,
}

/// A registry model with which a training job can begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InitialModelChoice {
    /// Its origin.
    pub origin: ModelOrigin,
    /// Its layers.
    pub model: AcousticModel,
}

/// The format in the metadata of a model that a site personalized on its own data without noise. Such a file never
/// leaves its site: the worker does not send it, and the server does not accept it.
pub const PERSONAL_FORMAT: &str = "undertone-personal/1";

/// Looks for [`PERSONAL_FORMAT`] at the beginning of a file that arrives in pieces: in its first
/// [`PersonalMarkScan::LENGTH`] bytes, which contain the metadata of a safetensors file.
#[derive(Debug, Clone, Default)]
pub struct PersonalMarkScan(Vec<u8>);

impl PersonalMarkScan {
    /// The number of examined bytes. The metadata of a model are about 1 KiB and lie at its beginning.
    pub const LENGTH: usize = 1 << 16;

    /// Takes the next piece; returns whether the file has the mark in the pieces until now.
    pub fn add(&mut self, piece: &[u8]) -> bool {
        let mark = PERSONAL_FORMAT.as_bytes();
        let from = self.0.len().saturating_sub(mark.len());
        let rest = Self::LENGTH - self.0.len();
        self.0.extend_from_slice(&piece[..piece.len().min(rest)]);
        self.0[from..].windows(mark.len()).any(|window| window == mark)
    }
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
    /// The data from which it follows, for a model; absent for every other file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ModelSource>,
    /// When it was complete.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub created_at: OffsetDateTime,
    /// The deletion of its bytes; absent while they can be downloaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion: Option<FileDeletion>,
}

/// The deletion of a file's bytes. The record of the file stays, with its digest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileDeletion {
    /// When.
    #[serde(with = "time::serde::rfc3339")]
    #[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime))]
    pub at: OffsetDateTime,
    /// The member who deleted it.
    pub by: MemberId,
    /// The present name of that member.
    pub by_name: String,
    /// Their reason.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::{PERSONAL_FORMAT, PersonalMarkScan};

    #[test]
    fn mark_is_found_across_pieces_and_within_the_first_bytes_only() {
        let file = |before: usize| [vec![b'x'; before], PERSONAL_FORMAT.as_bytes().to_vec()].concat();
        let finds = |file: &[u8], size: usize| {
            let mut scan = PersonalMarkScan::default();
            file.chunks(size).any(|piece| scan.add(piece))
        };
        let last = PersonalMarkScan::LENGTH - PERSONAL_FORMAT.len();
        for size in [1, 7, PERSONAL_FORMAT.len(), 1 << 20] {
            assert!(finds(&file(0), size) && finds(&file(100), size), "{size}");
        }
        assert!(finds(&file(last), 1000));
        assert!(!finds(&file(last + 1), 1000));
        assert!(!finds(&file(9)[..9 + PERSONAL_FORMAT.len() - 1], 4));
    }
}
