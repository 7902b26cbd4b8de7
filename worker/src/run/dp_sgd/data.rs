//! The data of a participant or a test set: utterances of speech, or the rows of a table.
//!
//! A unit of a table is one example: its rows are the frames, and the label of each is its target. Everything beyond
//! this module treats both alike.

use std::path::Path;

use undertone_api::job::dp_sgd::{RowColumns, Spec};
use undertone_privacy::PrivacyUnit;

use super::error::TrainingError;
use crate::run::RunError;
use crate::speech::dataset::{Dataset, Split};
use crate::speech::features::Normalization;
use crate::speech::model::gradient::Example;
use crate::speech::model::{FeatureSettings, ModelUsage, Normalizer};
use crate::tables::dataset::{Meta, TableReader};
use crate::tables::rows::LabelledRows;

/// The data of a participant or of a test set.
pub(super) enum TrainingData {
    /// Utterances of speech.
    Speech(Box<Dataset>),
    /// The rows of a table, unit by unit.
    Rows(Box<TableRows>),
}

/// The rows of a table in memory.
pub(super) struct TableRows {
    meta: Meta,
    columns: RowColumns,
    rows: LabelledRows,
}

impl TrainingData {
    /// Opens the data in a folder, of the content that the spec's model reads. Of each unit of a table at most
    /// `most_rows` rows are used.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the data are damaged, of other content, or declared otherwise than in the spec.
    pub(super) fn open(spec: &Spec, folder: &Path, most_rows: usize) -> Result<Self, RunError> {
        let Some(columns) = &spec.model.rows else { return Ok(Self::Speech(Box::new(Dataset::open(folder)?))) };
        let table = TableReader::open(folder)?;
        let rows = LabelledRows::read(&table, columns, most_rows).map_err(TrainingError::Table)?;
        Ok(Self::Rows(Box::new(TableRows { meta: table.meta().clone(), columns: (**columns).clone(), rows })))
    }

    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Speech(dataset) => &dataset.meta().name,
            Self::Rows(table) => &table.meta.name,
        }
    }

    /// Returns SHA-256 of the content, hex.
    pub(super) fn digest(&self) -> &str {
        match self {
            Self::Speech(dataset) => &dataset.meta().digest,
            Self::Rows(table) => &table.meta.digest,
        }
    }

    /// Returns the number of inputs in a frame.
    pub(super) fn inputs(&self) -> usize {
        match self {
            Self::Speech(dataset) => dataset.meta().inputs,
            Self::Rows(table) => table.rows.inputs(),
        }
    }

    /// Returns the number of outputs that a model of the data needs.
    pub(super) fn classes(&self) -> usize {
        match self {
            Self::Speech(dataset) => dataset.meta().classes,
            Self::Rows(table) => table.columns.outputs() as usize,
        }
    }

    /// Returns an utterance, or the rows of a unit.
    ///
    /// # Panics
    /// If the number is not one of [`Self::training`] or [`Self::tests`].
    pub(super) fn example(&self, number: usize) -> Example<'_> {
        match self {
            Self::Speech(dataset) => {
                let utterance = dataset.utterance(number);
                Example { features: utterance.features, labels: utterance.labels }
            }
            Self::Rows(table) => {
                let (features, labels) = table.rows.unit(number);
                Example { features, labels }
            }
        }
    }

    /// Returns the examples for training, ascending. A table has no test split.
    pub(super) fn training(&self) -> Vec<usize> {
        match self {
            Self::Speech(dataset) => dataset.split(Split::Train),
            Self::Rows(table) => (0..table.rows.units()).collect(),
        }
    }

    /// Returns the examples for measurements: the test split, or all if there is none.
    pub(super) fn tests(&self) -> Vec<usize> {
        match self {
            Self::Speech(dataset) => Some(dataset.split(Split::Test)).filter(|held_out| !held_out.is_empty()),
            Self::Rows(_) => None,
        }
        .unwrap_or_else(|| self.training())
    }

    /// Returns the examples of each protected unit. Public data need no protection: without a column of users, speakers
    /// replace them.
    ///
    /// # Errors
    /// [`RunError::Failed`] when the data do not keep these units apart.
    pub(super) fn units(&self, unit: PrivacyUnit, is_charged: bool) -> Result<Vec<Vec<usize>>, RunError> {
        match self {
            Self::Speech(dataset) if is_charged => Ok(dataset.units(unit, Split::Train)?),
            Self::Speech(dataset) => Ok(dataset.groups(unit, Split::Train)),
            Self::Rows(table) if unit == PrivacyUnit::User => {
                Ok((0..table.rows.units()).map(|unit| vec![unit]).collect())
            }
            Self::Rows(table) => Err(TrainingError::TableUnit(table.meta.name.clone()).into()),
        }
    }

    /// Returns the id of a protected unit, from its examples, for use at the site alone.
    pub(super) fn unit_id(&self, unit: PrivacyUnit, examples: &[usize]) -> Vec<u8> {
        let Some(first) = examples.first() else { return Vec::new() };
        match self {
            Self::Speech(dataset) => {
                let utterance = dataset.utterance(*first);
                let speaker = || dataset.speaker_name(utterance.speaker);
                let name = match unit {
                    PrivacyUnit::Record | PrivacyUnit::Words => Some(utterance.id),
                    PrivacyUnit::Speaker => speaker(),
                    PrivacyUnit::User => utterance.user.map_or_else(speaker, |user| dataset.user_name(user)),
                };
                name.unwrap_or_default().as_bytes().to_vec()
            }
            Self::Rows(table) => table.rows.id(*first).to_vec(),
        }
    }

    /// Returns the normalization of the features. That of speech comes from these data, which are public; rows are scaled
    /// by their declared ranges already.
    pub(super) fn normalizer(&self) -> Normalizer {
        match self {
            Self::Speech(dataset) => {
                let moments = dataset.moments(Split::Train);
                Normalizer::new(moments.mean, moments.deviation)
            }
            Self::Rows(table) => {
                let inputs = table.rows.inputs();
                Normalizer::new(vec![0.0; inputs], vec![1.0; inputs])
            }
        }
    }

    /// Returns the settings of use that a model of these data records.
    pub(super) fn describe_usage(&self, spec: &Spec) -> ModelUsage {
        let loss = Some(spec.model.loss);
        match self {
            Self::Speech(dataset) => {
                let meta = dataset.meta();
                let features = FeatureSettings {
                    sample_rate: meta.sample_rate,
                    subtracts_mean: meta.treatment.map(|treatment| treatment.normalization != Normalization::None),
                    text: ModelUsage::shorten(&meta.features),
                };
                let labels = Some(ModelUsage::shorten(&meta.labels));
                ModelUsage { loss, features: Some(features), labels, rows: None }
            }
            Self::Rows(table) => {
                ModelUsage { loss, rows: Some(Box::new(table.columns.clone())), ..ModelUsage::default() }
            }
        }
    }
}
