//! The reasons why a table cannot be analysed. No message states anything of private rows.

use undertone_api::job::analytics::{AnalyticsError as AverageError, LayoutError};

use crate::dp::clip::ClipError;
use crate::dp::release::ReleaseError;
use crate::run::RunError;
use crate::tables::error::TableError;
use crate::tables::numbers::NumbersFileError;

/// The reason why an analysis cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum AnalyticsError {
    /// The dataset takes no part.
    #[error("`{0}` does not take part in this job; only participants run it")]
    NotParticipant(String),
    /// The queries have no layout.
    #[error(transparent)]
    Layout(LayoutError),
    /// The table does not fit the job.
    #[error(transparent)]
    Table(TableError),
    /// The noise or the sum is out of range.
    #[error(transparent)]
    Clip(ClipError),
    /// The grant is for another release.
    #[error(transparent)]
    Release(ReleaseError),
    /// The average is not a vector of the job.
    #[error(transparent)]
    Average(AverageError),
    /// The numbers of the report have no file.
    #[error(transparent)]
    Numbers(NumbersFileError),
}

impl From<TableError> for RunError {
    fn from(error: TableError) -> Self {
        match error {
            TableError::Dataset(error) => error.into(),
            error => AnalyticsError::Table(error).into(),
        }
    }
}

impl From<AnalyticsError> for RunError {
    fn from(error: AnalyticsError) -> Self {
        match error {
            AnalyticsError::Release(_) => Self::Refused(error.into()),
            _ => Self::Failed(error.into()),
        }
    }
}
