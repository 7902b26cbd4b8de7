//! A model as a stack of layers: normalized features in, logits out.

use undertone_api::job::dp_sgd::{ModelPart, ModelParts, RecurrentCell};

use super::shape::ModelShape;
use crate::layers::Layer;
use crate::layers::affine::Linear;
use crate::layers::combine::{ConcatenatedLayers, ReversedLayer};
use crate::layers::conv1d::Conv1d;
use crate::layers::dense::{Dense, IdentityLayer};
use crate::layers::layer_norm::LayerNorm;
use crate::layers::recurrent::gru::Gru;
use crate::layers::recurrent::lstm::Lstm;
use crate::layers::stack::{Stack, StackError};

impl ModelShape {
    /// Returns the layers, with the part names, order and parameters of [`ModelShape::parts`]. The parts in `trained` are
    /// trained. If `trained` contains none of them, no part is frozen, and the caller requests no gradient.
    ///
    /// # Panics
    /// Never for a shape of one to four layers, or of none for rows.
    pub fn stack(&self, trained: ModelParts) -> Stack {
        let output = Linear { inputs: self.width(), outputs: self.classes };
        let mut stack = self.below().and_then(|below| below.then(ModelPart::Output.name(), output)).expect(FITS);
        self.freeze(&mut stack, trained);
        stack
    }

    /// Returns the same stack without the output layer; its output is the input of the output layer.
    ///
    /// # Panics
    /// Never for a shape of one to four layers, or of none for rows.
    pub fn body(&self, trained: ModelParts) -> Stack {
        let mut stack = self.below().expect(FITS);
        self.freeze(&mut stack, trained.with_part(ModelPart::Output, false));
        stack
    }

    fn freeze(&self, stack: &mut Stack, trained: ModelParts) {
        let parts = self.parts().into_iter().map(|(part, _)| part).filter(|part| trained.contains(*part));
        let names: Vec<&str> = parts.map(ModelPart::name).collect();
        if !names.is_empty() {
            stack.train_only(&names).expect(FITS);
        }
    }

    fn below(&self) -> Result<Stack, StackError> {
        let mut stack = None;
        if let Some(frames) = self.context {
            put(&mut stack, ModelPart::Context.name(), Conv1d::new(self.inputs, self.hidden, frames))?;
        }
        if let Some(embedding) = self.embedding() {
            put(&mut stack, ModelPart::Embedding.name(), embedding)?;
        } else if self.dense && self.layers == 0 {
            put(&mut stack, ROWS, IdentityLayer { width: self.inputs })?;
        }
        for (layer, part) in ModelPart::LAYERS.into_iter().enumerate().take(self.layers) {
            let (inputs, hidden) = (self.fed(layer), self.hidden);
            if self.dense {
                put(&mut stack, part.name(), Dense { inputs, outputs: hidden })?;
                continue;
            }
            match self.cell {
                RecurrentCell::Lstm => recurrent(&mut stack, part, Lstm { inputs, hidden }, self.bidirectional)?,
                RecurrentCell::Gru => recurrent(&mut stack, part, Gru { inputs, hidden }, self.bidirectional)?,
            }
        }
        if self.normalize {
            put(&mut stack, ModelPart::Normalize.name(), LayerNorm { features: self.width() })?;
        }
        stack.ok_or(StackError::Frozen)
    }
}

/// The name of the layer without parameters below the output layer of a linear model.
const ROWS: &str = "rows";
/// The shape determines widths and names.
const FITS: &str = "a shape's own parts are a stack";

fn recurrent<L: Layer + Copy>(
    stack: &mut Option<Stack>,
    part: ModelPart,
    layer: L,
    bidirectional: bool,
) -> Result<(), StackError> {
    if bidirectional {
        put(stack, part.name(), ConcatenatedLayers(layer, ReversedLayer(layer)))
    } else {
        put(stack, part.name(), layer)
    }
}

fn put(stack: &mut Option<Stack>, name: &str, layer: impl Layer) -> Result<(), StackError> {
    *stack = Some(match stack.take() {
        None => Stack::with_layer(name, layer),
        Some(below) => below.then(name, layer)?,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use undertone_api::job::dp_sgd::{AcousticModel, ModelPart, RecurrentCell};

    use crate::layers::Layer;
    use crate::model::ModelShape;

    /// Returns one shape of each kind.
    fn shapes() -> Vec<(AcousticModel, ModelShape)> {
        let plain = AcousticModel::lstm(6, Some(11));
        let deep = AcousticModel { layers: 3, bidirectional: true, normalize: true, ..plain.clone() };
        let gru = AcousticModel { cell: RecurrentCell::Gru, context: Some(5), layers: 2, ..plain.clone() };
        let rows = AcousticModel::from_rows(crate::model::tests::rows(), 2, 6);
        [plain, deep, gru, rows]
            .into_iter()
            .map(|model| (model.clone(), ModelShape::from_spec(&model, 3, 11)))
            .collect()
    }

    #[test]
    fn layers_lie_where_the_shape_says() {
        for (model, shape) in shapes() {
            let stack = shape.stack(model.parts());
            let layers: Vec<_> = stack.parts().map(|(name, range, _)| (name.to_owned(), range)).collect();
            let parts: Vec<_> =
                shape.parts().into_iter().map(|(part, range)| (part.name().to_owned(), range)).collect();
            assert_eq!(layers, parts);
            assert_eq!((stack.inputs(), stack.outputs(), stack.parameters()), (3, 11, shape.parameters()));
            let body = shape.body(model.parts());
            assert_eq!((body.inputs(), body.outputs(), body.parameters()), (3, shape.width(), shape.recurrent().end));
        }
    }

    #[test]
    fn frozen_part_has_no_gradient() {
        for (model, shape) in shapes() {
            let some = model.parts().with_part(ModelPart::Layer1, false);
            let stack = shape.stack(some);
            let trained: Vec<_> =
                stack.parts().filter(|(.., trained)| *trained).map(|(name, ..)| name.to_owned()).collect();
            assert_eq!(trained, some.iter().map(ModelPart::name).collect::<Vec<_>>());
            assert_eq!(stack.trained().into_iter().flatten().count(), shape.coordinates(some).len());
        }
    }
}
