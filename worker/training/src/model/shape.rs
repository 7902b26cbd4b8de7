//! The dimensions of a model, and the ranges of its parts in the flat vector of parameters.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{AcousticModel as Proposed, ModelPart, ModelParts, RecurrentCell, RowColumns};

use super::coordinates::TrainedCoordinates;
use crate::layers::Layer as _;
use crate::layers::embedding_bag::EmbeddingBag;
use crate::layers::output::OutputLayer;

/// The texts of a model of rows: the last inputs of a row, and the table of the vectors of their n-grams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextShape {
    /// Texts of a row.
    pub texts: usize,
    /// Inputs of a text: the most n-grams.
    pub grams: usize,
    /// Vectors of the table.
    pub buckets: usize,
    /// Numbers of a vector.
    pub width: usize,
}

impl TextShape {
    /// Returns the texts of declared columns; `None` without an embedding.
    fn from_columns(columns: &RowColumns) -> Option<Self> {
        let embedding = columns.text?;
        Some(Self {
            texts: columns.texts() as usize,
            grams: columns.grams_per_text() as usize,
            buckets: embedding.buckets as usize,
            width: embedding.width as usize,
        })
    }

    /// Returns whether a job can have these texts, in a model with this number of inputs.
    pub(super) fn is_within_limits(&self, inputs: usize) -> bool {
        let Self { texts, grams, buckets, width } = *self;
        (1..=256).contains(&texts)
            && (1..=1000).contains(&grams)
            && texts * grams <= inputs
            && (2..=1 << 20).contains(&buckets)
            && (1..=256).contains(&width)
    }
}

/// The use of consecutive rows of a part's matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowUse {
    /// A weight matrix.
    Weights,
    /// Biases, or the shifts of a layer norm.
    Biases,
    /// The gains of a layer norm.
    Gains,
}

/// Dimensions of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelShape {
    /// Number of coefficients per frame.
    pub inputs: usize,
    /// Hidden units of each layer and direction; 0 for a linear model of rows.
    pub hidden: usize,
    /// Number of classes.
    pub classes: usize,
    /// The cell of the recurrent layers.
    pub cell: RecurrentCell,
    /// Number of hidden layers, 1 to 4, or 0 for a linear model of rows.
    pub layers: usize,
    /// True if the recurrent layers also read backwards.
    pub bidirectional: bool,
    /// Number of frames that the convolution before the recurrent layers reads, an odd number; `None` without a
    /// convolution.
    pub context: Option<usize>,
    /// True if a layer norm precedes the output layer.
    pub normalize: bool,
    /// True for a model of rows: its hidden layers are dense, not recurrent.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dense: bool,
    /// The texts of a model of rows; `None` without texts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<TextShape>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl ModelShape {
    /// Returns the dimensions of the model of the paper: one LSTM layer and an output layer.
    pub const fn plain(inputs: usize, hidden: usize, classes: usize) -> Self {
        let (cell, context) = (RecurrentCell::Lstm, None);
        Self {
            inputs,
            hidden,
            classes,
            cell,
            layers: 1,
            bidirectional: false,
            context,
            normalize: false,
            dense: false,
            text: None,
        }
    }

    /// Returns the dimensions that a spec requests, for data with this number of coefficients and classes.
    pub fn from_spec(model: &Proposed, inputs: usize, classes: usize) -> Self {
        Self {
            inputs,
            hidden: model.hidden as usize,
            classes,
            cell: model.cell,
            layers: model.layers as usize,
            bidirectional: model.bidirectional,
            context: model.context.map(|frames| frames as usize),
            normalize: model.normalize,
            dense: model.rows.is_some(),
            text: model.rows.as_deref().and_then(TextShape::from_columns),
        }
    }

    /// Returns the number of directions of each recurrent layer.
    pub const fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Returns the number of columns of a recurrent matrix per hidden unit.
    const fn gates(&self) -> usize {
        match self.cell {
            RecurrentCell::Lstm => 4,
            RecurrentCell::Gru => 3,
        }
    }

    /// Returns the layer of the texts of a model of rows.
    pub(super) fn embedding(&self) -> Option<EmbeddingBag> {
        let TextShape { texts, grams, buckets, width } = self.text?;
        let plain = self.inputs.saturating_sub(texts * grams);
        Some(EmbeddingBag { plain, bags: texts, symbols_per_bag: grams, symbols: buckets, width })
    }

    /// Returns the numbers of a frame after the embedding.
    fn embedded(&self) -> usize {
        self.embedding().map_or(self.inputs, |embedding| embedding.outputs())
    }

    /// Returns the number of inputs per frame of the output layer.
    pub fn width(&self) -> usize {
        if self.dense && self.layers == 0 {
            return self.embedded();
        }
        self.directions() * self.hidden
    }

    /// Returns the number of inputs per frame of hidden layer `layer`, counted from 0.
    pub fn fed(&self, layer: usize) -> usize {
        match (layer, self.context) {
            (0, None) => self.embedded(),
            (0, Some(_)) => self.hidden,
            _ => self.width(),
        }
    }

    /// Returns the matrices of every part, row-major, in the order of the flat vector, with their names in a file: the
    /// part, the direction where there are two, and `weight`.
    pub fn matrices(&self) -> Vec<(ModelPart, String, [usize; 2])> {
        let file_name = |part: ModelPart, direction: &str| format!("{}{direction}.weight", part.name());
        let one = |part: ModelPart, shape| (part, file_name(part, ""), shape);
        let mut matrices = Vec::new();
        matrices.extend(self.text.map(|text| one(ModelPart::Embedding, [text.buckets, text.width])));
        matrices.extend(self.context.map(|frames| one(ModelPart::Context, [frames * self.inputs + 1, self.hidden])));
        for (layer, part) in ModelPart::LAYERS.into_iter().enumerate().take(self.layers) {
            let shape = if self.dense {
                [self.fed(layer) + 1, self.hidden]
            } else {
                [self.fed(layer) + 1 + self.hidden, self.gates() * self.hidden]
            };
            let directions: &[&str] = if self.bidirectional { &[".forward", ".backward"] } else { &[""] };
            matrices.extend(directions.iter().map(|direction| (part, file_name(part, direction), shape)));
        }
        matrices.extend(self.normalize.then(|| one(ModelPart::Normalize, [2, self.width()])));
        matrices.push(one(ModelPart::Output, [self.width() + 1, self.classes]));
        matrices
    }

    /// Returns every part and its range of the flat vector, from the input to the output.
    pub fn parts(&self) -> Vec<(ModelPart, Range<usize>)> {
        let mut parts: Vec<(ModelPart, Range<usize>)> = Vec::new();
        let mut end = 0;
        for (part, _, [rows, columns]) in self.matrices() {
            let start = end;
            end += rows * columns;
            match parts.last_mut() {
                Some((last, range)) if *last == part => range.end = end,
                _ => parts.push((part, start..end)),
            }
        }
        parts
    }

    /// Returns all parts of the model.
    pub fn all(&self) -> ModelParts {
        self.parts().into_iter().map(|(part, _)| part).collect()
    }

    /// Returns the number of parameters of each part in `parts`, in the model's order. Parts that the model lacks are
    /// omitted.
    pub fn lengths(&self, parts: ModelParts) -> Vec<usize> {
        self.parts().into_iter().filter(|(part, _)| parts.contains(*part)).map(|(_, range)| range.len()).collect()
    }

    /// Returns each parameter of `parts` as a coordinate. Parts that the model lacks have none.
    pub fn coordinates(&self, parts: ModelParts) -> TrainedCoordinates {
        TrainedCoordinates::of_parts(self, parts)
    }

    /// Returns the use of the rows of a part's matrix with so many rows, from the first. The table of an embedding has none.
    pub(super) fn row_uses(&self, part: ModelPart, rows: usize) -> Vec<(RowUse, usize)> {
        match part {
            ModelPart::Embedding => Vec::new(),
            ModelPart::Normalize => vec![(RowUse::Gains, 1), (RowUse::Biases, 1)],
            ModelPart::Layer1 | ModelPart::Layer2 | ModelPart::Layer3 | ModelPart::Layer4 if !self.dense => {
                vec![(RowUse::Weights, rows - 1 - self.hidden), (RowUse::Biases, 1), (RowUse::Weights, self.hidden)]
            }
            _ => vec![(RowUse::Weights, rows - 1), (RowUse::Biases, 1)],
        }
    }

    /// Returns the number of parameters.
    pub fn parameters(&self) -> usize {
        self.parts().last().map_or(0, |(_, range)| range.end)
    }

    /// Returns the output layer.
    pub fn output(&self) -> OutputLayer {
        OutputLayer { inputs: self.width(), classes: self.classes }
    }

    /// Returns the range of all layers but the output layer in the flat vector; the output layer is the rest.
    pub fn recurrent(&self) -> Range<usize> {
        0..self.parameters() - self.output().parameters()
    }

    /// Returns the range of the output layer.
    pub fn output_range(&self) -> Range<usize> {
        self.recurrent().end..self.parameters()
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::job::dp_sgd::{AcousticModel, ModelPart, ModelParts, RecurrentCell};

    use super::ModelShape;

    #[test]
    fn parts_are_adjacent_and_have_the_lengths_of_the_contract() {
        let plain = AcousticModel::lstm(7, Some(11));
        let rich = AcousticModel { context: Some(5), layers: 3, bidirectional: true, normalize: true, ..plain.clone() };
        let gru = AcousticModel { cell: RecurrentCell::Gru, ..rich.clone() };
        let rows = |layers| AcousticModel::from_rows(crate::model::tests::rows(), layers, 7);
        for model in [plain, rich, gru, rows(0), AcousticModel { normalize: true, ..rows(3) }] {
            let shape = ModelShape::from_spec(&model, 3, 11);
            let mut end = 0;
            for (part, range) in shape.parts() {
                assert_eq!(range.start, end);
                assert_eq!(range.len() as u64, model.part_parameters(part, 3, 11), "{}", part.name());
                end = range.end;
            }
            assert_eq!(shape.parts().into_iter().map(|(part, _)| part).collect::<ModelParts>(), model.parts());
            assert_eq!((shape.parameters(), shape.coordinates(model.parts()).len()), (end, end));
            let output = [ModelPart::Output].into_iter().collect();
            assert_eq!(shape.coordinates(output).ranges(), [shape.output_range()]);
        }
    }
}
