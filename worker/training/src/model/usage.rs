//! The settings that a program needs besides the parameters to run a model: loss, features and labels of its training.

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{RowColumns, TrainingLoss};

/// The settings with which a model is run, as its file records them. A file of an earlier version records none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModelUsage {
    /// The loss of the training. It decides the meaning of the last class, which is the blank with CTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<TrainingLoss>,
    /// The features of the lead's public data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<FeatureSettings>,
    /// The labels of the lead's public data, as text, at most [`ModelUsage::MOST_TEXT`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// The columns that a model of rows reads and predicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Box<RowColumns>>,
}

/// The computation of the features that a model reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureSettings {
    /// The sampling rate of the audio, Hz.
    pub sample_rate: u32,
    /// Whether the mean of a recording is subtracted from its coefficients; absent if the dataset does not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtracts_mean: Option<bool>,
    /// The computation as text, at most [`ModelUsage::MOST_TEXT`] bytes.
    pub text: String,
}

impl ModelUsage {
    /// The longest text of the features and of the labels, bytes.
    pub const MOST_TEXT: usize = 500;

    /// Shortens a text to [`Self::MOST_TEXT`] bytes, at the end of a character.
    pub fn shorten(text: &str) -> String {
        text[..text.floor_char_boundary(Self::MOST_TEXT)].to_owned()
    }

    /// Returns these settings, with those of `other` where these record none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            loss: self.loss.or(other.loss),
            features: self.features.or(other.features),
            labels: self.labels.or(other.labels),
            rows: self.rows.or(other.rows),
        }
    }
}
