//! The lead's public data, whose parts take the roles: speech, divided by speaker, or a table, divided by unit.

use std::path::Path;

use undertone_api::job::dp_sgd::{RowColumns, Spec};
use undertone_privacy::PrivacyUnit;

use super::error::TuneError;
use crate::speech::dataset::{Dataset, DatasetError};
use crate::tables::dataset::TableReader;

/// The lead's public data.
pub(in crate::run::dp_sgd) enum PublicData {
    /// Utterances of speech.
    Speech(Box<Dataset>),
    /// A table, and the columns of it that the model reads.
    Table(Box<TableReader>, Box<RowColumns>),
}

impl PublicData {
    /// Opens the data in a folder, of the content that the spec's model reads.
    ///
    /// # Errors
    /// [`TuneError::Content`] when they are of other content, and [`TuneError::Dataset`] when they are damaged.
    pub(in crate::run::dp_sgd) fn open(spec: &Spec, folder: &Path) -> Result<Self, TuneError> {
        let expected = if spec.model.rows.is_some() { "table" } else { "dataset of speech" };
        let convert = |error: DatasetError| match error {
            DatasetError::Foreign { path, reason } => TuneError::Content { path, reason, expected },
            error => TuneError::Dataset(error),
        };
        Ok(match &spec.model.rows {
            Some(columns) => Self::Table(Box::new(TableReader::open(folder).map_err(convert)?), columns.clone()),
            None => Self::Speech(Box::new(Dataset::open(folder).map_err(convert)?)),
        })
    }

    /// Returns SHA-256 of the content, hex.
    pub(in crate::run::dp_sgd) fn digest(&self) -> &str {
        match self {
            Self::Speech(dataset) => &dataset.meta().digest,
            Self::Table(table, _) => &table.meta().digest,
        }
    }

    /// Returns the number of inputs in a frame, or in a row.
    pub(in crate::run::dp_sgd) fn inputs(&self) -> u32 {
        match self {
            Self::Speech(dataset) => dataset.meta().inputs as u32,
            Self::Table(_, columns) => columns.inputs(),
        }
    }

    /// Returns the number of outputs that a model of the data needs.
    pub(super) fn classes(&self) -> u32 {
        match self {
            Self::Speech(dataset) => dataset.meta().classes as u32,
            Self::Table(_, columns) => columns.outputs(),
        }
    }

    /// Returns the number of units to train on.
    pub(super) fn count_units(&self, unit: PrivacyUnit) -> u64 {
        match self {
            Self::Speech(dataset) => {
                let train = dataset.meta().train;
                let count = match unit {
                    PrivacyUnit::Record | PrivacyUnit::Words => train.utterances,
                    PrivacyUnit::Speaker | PrivacyUnit::User => train.speakers,
                };
                count as u64
            }
            Self::Table(table, _) => table.meta().units,
        }
    }
}
