//! The model, by its parts, each of which can be trained, frozen and clipped separately.
//!
//! In order from the input to the output, the optional ones only if requested: `context` (a convolution over
//! neighbouring frames), `layer1` to `layer4` (recurrent), `normalize` (layer norm), `output` (linear, to the classes).
//! A model of rows of tables has dense layers with tanh as `layer1` to `layer4`, and before them `embedding` (the vectors
//! of hashed n-grams) if a column is a text. Batch norm is excluded: its statistics mix the units of a batch, so that no
//! unit has a gradient of its own to clip.

use serde::{Deserialize, Serialize};

use super::adaptation::PartWeights;
use super::rows::{RowColumns, TextEmbedding};

/// The recurrent cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Cell))]
#[serde(rename_all = "snake_case")]
pub enum RecurrentCell {
    /// Long short-term memory, with one bias for each gate.
    #[default]
    Lstm,
    /// Gated recurrent unit, with the reset after the product, and one bias for each gate.
    Gru,
}

/// The loss of an utterance in training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrainingLoss {
    /// Cross-entropy of each frame with its label.
    #[default]
    CrossEntropy,
    /// Connectionist temporal classification: the labels are characters in order, without times, and the last class is
    /// the blank.
    Ctc,
    /// The squared distance of the output to a numeric target, whose declared range is mapped to -1 to 1. For models of
    /// rows.
    SquaredError,
}

/// The model: `inputs` → (context) → recurrent `layers` of `hidden` → (normalize) → `classes`. The inputs (13 MFCC) are
/// those of the datasets. The default is one LSTM layer. With `rows` it is a model of rows of tables: `inputs` → dense
/// `layers` of `hidden` with tanh → (normalize) → `classes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = DpSgdModel))]
pub struct AcousticModel {
    /// Hidden units of each layer, and of each direction: 1 to 2,048. Omitted for a model without hidden layers.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2048))]
    pub hidden: u32,
    /// Classes: at least as many as any dataset of the job has, up to 65,536. If a proposal omits it, it becomes the
    /// most classes of any dataset; the manifest always states it.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 65536))]
    pub classes: Option<u32>,
    /// The recurrent cell.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cell: RecurrentCell,
    /// Stacked hidden layers: 1 to 4, or 0 for a linear model of rows.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[cfg_attr(feature = "openapi", schema(maximum = 4))]
    pub layers: u32,
    /// Whether each layer also reads from the end to the beginning. The next layer receives both directions, 2
    /// `hidden`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bidirectional: bool,
    /// The frames of a convolution before the first layer, with the present frame in the middle: an odd number from 3
    /// to 31; `inputs` → `hidden` channels, with a bias, zeros beyond the ends of an utterance. Absent: no convolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 3, maximum = 31))]
    pub context: Option<u32>,
    /// Layer norm before the output layer: each frame by its own mean and deviation, then a gain and a bias.
    #[serde(default, skip_serializing_if = "is_default")]
    pub normalize: bool,
    /// The loss of an utterance. With `ctc`, all datasets must have the same characters.
    #[serde(default, skip_serializing_if = "is_default")]
    pub loss: TrainingLoss,
    /// The columns of a model of rows of tables. Absent: a model of speech.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<Box<RowColumns>>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

pub(super) const fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(super) const fn is_one(value: &u32) -> bool {
    *value == 1
}

impl AcousticModel {
    /// Makes a model of one LSTM layer and nothing else.
    pub const fn lstm(hidden: u32, classes: Option<u32>) -> Self {
        Self {
            hidden,
            classes,
            cell: RecurrentCell::Lstm,
            layers: 1,
            bidirectional: false,
            context: None,
            normalize: false,
            loss: TrainingLoss::CrossEntropy,
            rows: None,
        }
    }

    /// Returns the model's parts, from the input to the output.
    pub fn parts(&self) -> ModelParts {
        let layers = ModelPart::LAYERS.into_iter().take(self.layers as usize);
        let has_text = self.rows.as_ref().is_some_and(|rows| rows.text.is_some());
        let embedding = has_text.then_some(ModelPart::Embedding);
        let context = self.context.is_some().then_some(ModelPart::Context);
        let normalize = self.normalize.then_some(ModelPart::Normalize);
        embedding.into_iter().chain(context).chain(layers).chain(normalize).chain([ModelPart::Output]).collect()
    }

    /// Returns the parameters of one part, for data of `inputs` coefficients and `classes` classes; 0 for an absent
    /// part. Saturates for an unchecked model.
    pub fn part_parameters(&self, part: ModelPart, inputs: u32, classes: u32) -> u64 {
        self.part_weights(part, inputs, classes).parameters()
    }

    /// Returns the parameters of one part by their use, as [`AcousticModel::part_parameters`] counts them.
    pub(super) fn part_weights(&self, part: ModelPart, inputs: u32, classes: u32) -> PartWeights {
        let embedded = self.rows.as_ref().and_then(|rows| rows.embedded_width());
        let inputs = embedded.unwrap_or(u64::from(inputs));
        let hidden = u64::from(self.hidden);
        let directions = if self.bidirectional { 2 } else { 1 };
        let is_dense = self.rows.is_some();
        let width = if is_dense && self.layers == 0 { inputs } else { hidden.saturating_mul(directions) };
        if !self.parts().contains(part) {
            return PartWeights::default();
        }
        let layer = |fed: u64| {
            if is_dense {
                return PartWeights::affine(fed, hidden);
            }
            let gates = match self.cell {
                RecurrentCell::Lstm => 4,
                RecurrentCell::Gru => 3,
            };
            let outputs = hidden.saturating_mul(gates);
            let matrices = vec![[fed, outputs], [hidden, outputs]];
            PartWeights { matrices, biases: outputs, gains: 0, copies: directions }
        };
        match part {
            ModelPart::Embedding => {
                let table = self.rows.as_ref().and_then(|rows| rows.text);
                let shape = |table: TextEmbedding| [u64::from(table.buckets), u64::from(table.width)];
                PartWeights { matrices: table.map(shape).into_iter().collect(), copies: 1, ..PartWeights::default() }
            }
            ModelPart::Context => PartWeights::affine(inputs.saturating_mul(self.context.unwrap_or(0).into()), hidden),
            ModelPart::Layer1 => layer(if self.context.is_some() { hidden } else { inputs }),
            ModelPart::Layer2 | ModelPart::Layer3 | ModelPart::Layer4 => layer(width),
            ModelPart::Normalize => PartWeights { matrices: Vec::new(), biases: width, gains: width, copies: 1 },
            ModelPart::Output => PartWeights::affine(width, u64::from(classes)),
        }
    }

    /// Returns the parameters of several parts together.
    pub fn parameters(&self, parts: ModelParts, inputs: u32, classes: u32) -> u64 {
        parts.iter().map(|part| self.part_parameters(part, inputs, classes)).fold(0, u64::saturating_add)
    }
}

/// A part of a model that can be trained or frozen separately, and that per-layer clipping clips separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Part))]
#[serde(rename_all = "snake_case")]
pub enum ModelPart {
    /// The vectors of hashed n-grams of texts.
    Embedding,
    /// The convolution over neighbouring frames.
    Context,
    /// The first recurrent layer, both directions.
    Layer1,
    /// The second recurrent layer, both directions.
    Layer2,
    /// The third recurrent layer, both directions.
    Layer3,
    /// The fourth recurrent layer, both directions.
    Layer4,
    /// The gain and bias of the layer norm.
    Normalize,
    /// The output layer.
    Output,
}

impl ModelPart {
    /// Every part, from the input to the output.
    pub const ALL: [Self; 8] = [
        Self::Embedding,
        Self::Context,
        Self::Layer1,
        Self::Layer2,
        Self::Layer3,
        Self::Layer4,
        Self::Normalize,
        Self::Output,
    ];
    /// The recurrent layers, in order.
    pub const LAYERS: [Self; 4] = [Self::Layer1, Self::Layer2, Self::Layer3, Self::Layer4];

    /// Returns the name in a spec: `embedding`, `context`, `layer1` to `layer4`, `normalize`, `output`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Context => "context",
            Self::Layer1 => "layer1",
            Self::Layer2 => "layer2",
            Self::Layer3 => "layer3",
            Self::Layer4 => "layer4",
            Self::Normalize => "normalize",
            Self::Output => "output",
        }
    }
}

/// A set of parts of a model; in JSON a list of their names, from the input to the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<ModelPart>", into = "Vec<ModelPart>")]
pub struct ModelParts(u8);

impl ModelParts {
    /// Returns whether a part is in the set.
    pub const fn contains(self, part: ModelPart) -> bool {
        self.0 & (1 << part as u8) != 0
    }

    /// Returns the set with the part added or removed.
    #[must_use]
    pub const fn with_part(self, part: ModelPart, there: bool) -> Self {
        let bit = 1 << part as u8;
        Self(if there { self.0 | bit } else { self.0 & !bit })
    }

    /// Returns whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the number of parts.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Iterates over the parts, from the input to the output.
    pub fn iter(self) -> impl Iterator<Item = ModelPart> {
        ModelPart::ALL.into_iter().filter(move |part| self.contains(*part))
    }
}

impl FromIterator<ModelPart> for ModelParts {
    fn from_iter<I: IntoIterator<Item = ModelPart>>(parts: I) -> Self {
        parts.into_iter().fold(Self::default(), |all, part| all.with_part(part, true))
    }
}

impl From<Vec<ModelPart>> for ModelParts {
    fn from(parts: Vec<ModelPart>) -> Self {
        parts.into_iter().collect()
    }
}

impl From<ModelParts> for Vec<ModelPart> {
    fn from(parts: ModelParts) -> Self {
        parts.iter().collect()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test writes can be read")]
    use super::{AcousticModel, ModelPart, ModelParts, RecurrentCell};

    #[test]
    fn model_of_the_paper_has_its_parameters() {
        let paper = AcousticModel::lstm(200, None);
        assert_eq!(paper.parameters(paper.parts(), 13, 9096), 4 * 200 * 214 + 9096 * 201);
        assert_eq!(Vec::from(paper.parts()), [ModelPart::Layer1, ModelPart::Output]);
    }

    #[test]
    fn options_add_parameters_and_absent_parts_none() {
        let model = AcousticModel {
            cell: RecurrentCell::Gru,
            layers: 2,
            bidirectional: true,
            context: Some(5),
            normalize: true,
            ..AcousticModel::lstm(7, None)
        };
        let sizes: Vec<u64> = ModelPart::ALL.into_iter().map(|part| model.part_parameters(part, 3, 11)).collect();
        let gru = |fed: u64| 2 * 3 * 7 * (fed + 7 + 1);
        assert_eq!(sizes, [0, 7 * 3 * 5 + 7, gru(7), gru(14), 0, 0, 28, 11 * 15]);
        assert_eq!(model.parameters(model.parts(), 3, 11), sizes.iter().sum::<u64>());
    }

    #[test]
    fn parameters_of_unchecked_model_saturate() {
        let most = AcousticModel {
            context: Some(u32::MAX),
            bidirectional: true,
            layers: 4,
            ..AcousticModel::lstm(u32::MAX, None)
        };
        assert_eq!(most.parameters(most.parts(), u32::MAX, u32::MAX), u64::MAX);
    }

    #[test]
    fn parts_serialize_in_one_order() {
        let parts: ModelParts = serde_json::from_str(r#"["output","context","output"]"#).unwrap();
        assert_eq!(serde_json::to_string(&parts).unwrap(), r#"["context","output"]"#);
        assert_eq!((parts.len(), parts.is_empty()), (2, false));
        for part in ModelPart::ALL {
            assert_eq!(serde_json::to_value(part).unwrap(), part.name());
            assert!(!parts.with_part(part, false).contains(part) && parts.with_part(part, true).contains(part));
        }
    }
}
