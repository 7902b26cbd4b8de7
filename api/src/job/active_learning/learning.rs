//! The classifier, the selection of questions, and the use of answers. All of it uses released questions, answers and
//! public data, so nothing here is charged.

use serde::{Deserialize, Serialize};

/// The measure by which the questions of a round are chosen: those with the greatest values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Acquisition {
    /// A random number, for comparison.
    Random,
    /// Entropy of the mean prediction over the passes, −Σ p ln p.
    #[default]
    Entropy,
    /// 1 − max p of the mean prediction.
    LeastConfidence,
    /// 1 − (p₁ − p₂), a small lead of the best label over the second.
    Margin,
    /// Entropy of the mean less the mean of the entropies: the disagreement of the passes (Houlsby et al. 2011).
    /// Requires dropout, and two passes.
    Bald,
}

impl Acquisition {
    /// All functions, in the order of forms.
    pub const ALL: [Self; 5] = [Self::Random, Self::Entropy, Self::LeastConfidence, Self::Margin, Self::Bald];

    /// Returns the name for display.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Entropy => "entropy",
            Self::LeastConfidence => "least confidence",
            Self::Margin => "margin",
            Self::Bald => "disagreement (BALD)",
        }
    }
}

/// The method by which several answers to a question become one label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Aggregation {
    /// The most frequent label. In a tie, the label that comes first in the job's list.
    #[default]
    Majority,
    /// Weights by each annotator's agreement with the others, label by label (Dawid and Skene 1979). Requires two
    /// annotators.
    DawidSkene,
}

/// The encoder of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Encoder {
    /// A sum of hashed n-grams of characters and words.
    #[default]
    Bag,
    /// An LSTM over the words in their order, each as its hashed n-grams.
    Lstm,
}

/// The classifier: hashed pieces of the text → embedding → encoder → dense layer → dropout → labels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct Classifier {
    /// The encoder of a text.
    pub encoder: Encoder,
    /// Rows of the embedding table, into which pieces of the text are hashed: 256 to 1,048,576.
    #[cfg_attr(feature = "openapi", schema(minimum = 256, maximum = 1_048_576))]
    pub buckets: u32,
    /// Width of the embedding: 1 to 1,024. The table has at most 67,108,864 numbers.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1024))]
    pub embedding: u32,
    /// Units of the hidden layer (of each gate, for the LSTM): 1 to 2,048.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2048))]
    pub hidden: u32,
    /// The probability with which a number of the embedding or of the hidden layer is dropped, in training and in each
    /// pass: 0 to 0.9.
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 0.9))]
    pub dropout: f64,
    /// T: predictions with different dropped units, from which the uncertainty is estimated: 1 to 1,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub passes: u32,
    /// Passes over the labelled examples in each training, which starts from the initial weights: 1 to 1,000.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1000))]
    pub epochs: u32,
    /// Examples in a step: 1 to 4,096.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 4096))]
    pub batch: u32,
    /// Learning rate of Adam: above 0, at most 1.
    #[cfg_attr(feature = "openapi", schema(exclusive_minimum = 0, maximum = 1))]
    pub learning_rate: f64,
}

impl Default for Classifier {
    fn default() -> Self {
        Self {
            encoder: Encoder::Bag,
            buckets: 65_536,
            embedding: 64,
            hidden: 128,
            dropout: 0.5,
            passes: 20,
            epochs: 20,
            batch: 32,
            learning_rate: 0.01,
        }
    }
}
