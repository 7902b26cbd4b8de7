//! A model as layers one after another: normalized features in, logits out.

use undertone_api::job::dp_sgd::{Cell, Part, Parts};

use super::shape::Shape;
use crate::dp::layers::Layer;
use crate::dp::layers::affine::Linear;
use crate::dp::layers::combine::{Beside, Reversed};
use crate::dp::layers::conv1d::Conv1d;
use crate::dp::layers::layer_norm::LayerNorm;
use crate::dp::layers::recurrent::gru::Gru;
use crate::dp::layers::recurrent::lstm::Lstm;
use crate::dp::layers::stack::{Stack, StackError};

impl Shape {
    /// The layers, under the names of their parts, in the order and with the parameters of [`Shape::parts`]; the parts of
    /// `trained` are trained. Where `trained` has none of them, none is frozen, and nobody has use for a gradient.
    ///
    /// # Panics
    /// Not for a shape of one to four layers.
    pub fn stack(&self, trained: Parts) -> Stack {
        let output = Linear { inputs: self.width(), outputs: self.classes };
        let mut stack = self.below().and_then(|below| below.then(Part::Output.name(), output)).expect(FITS);
        self.freeze(&mut stack, trained);
        stack
    }

    /// The same without the output layer: what it sees comes out.
    ///
    /// # Panics
    /// Not for a shape of one to four layers.
    pub fn body(&self, trained: Parts) -> Stack {
        let mut stack = self.below().expect(FITS);
        self.freeze(&mut stack, trained.with(Part::Output, false));
        stack
    }

    fn freeze(&self, stack: &mut Stack, trained: Parts) {
        let parts = self.parts().into_iter().map(|(part, _)| part).filter(|part| trained.contains(*part));
        let names: Vec<&str> = parts.map(Part::name).collect();
        if !names.is_empty() {
            stack.train_only(&names).expect(FITS);
        }
    }

    fn below(&self) -> Result<Stack, StackError> {
        let mut stack = None;
        if let Some(frames) = self.context {
            put(&mut stack, Part::Context, Conv1d::new(self.inputs, self.hidden, frames))?;
        }
        for (layer, part) in Part::LAYERS.into_iter().enumerate().take(self.layers) {
            let (inputs, hidden) = (self.fed(layer), self.hidden);
            match self.cell {
                Cell::Lstm => recurrent(&mut stack, part, Lstm { inputs, hidden }, self.bidirectional)?,
                Cell::Gru => recurrent(&mut stack, part, Gru { inputs, hidden }, self.bidirectional)?,
            }
        }
        if self.normalize {
            put(&mut stack, Part::Normalize, LayerNorm { features: self.width() })?;
        }
        stack.ok_or(StackError::Frozen)
    }
}

/// Widths and names follow from the shape.
const FITS: &str = "a shape's own parts are a stack";

fn recurrent<L: Layer + Copy>(
    stack: &mut Option<Stack>,
    part: Part,
    layer: L,
    bidirectional: bool,
) -> Result<(), StackError> {
    if bidirectional { put(stack, part, Beside(layer, Reversed(layer))) } else { put(stack, part, layer) }
}

fn put(stack: &mut Option<Stack>, part: Part, layer: impl Layer) -> Result<(), StackError> {
    *stack = Some(match stack.take() {
        None => Stack::of(part.name(), layer),
        Some(below) => below.then(part.name(), layer)?,
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use undertone_api::job::dp_sgd::{Cell, Model, Part};

    use crate::dp::layers::Layer;
    use crate::speech::model::Shape;

    /// One of every kind.
    fn shapes() -> Vec<(Model, Shape)> {
        let plain = Model::lstm(6, Some(11));
        let deep = Model { layers: 3, bidirectional: true, normalize: true, ..plain.clone() };
        let gru = Model { cell: Cell::Gru, context: Some(5), layers: 2, ..plain.clone() };
        [plain, deep, gru].into_iter().map(|model| (model.clone(), Shape::of(&model, 3, 11))).collect()
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
    fn what_is_not_trained_has_no_gradient() {
        for (model, shape) in shapes() {
            let some = model.parts().with(Part::Layer1, false);
            let stack = shape.stack(some);
            let trained: Vec<_> =
                stack.parts().filter(|(.., trained)| *trained).map(|(name, ..)| name.to_owned()).collect();
            assert_eq!(trained, some.iter().map(Part::name).collect::<Vec<_>>());
            assert_eq!(stack.trained().into_iter().flatten().count(), shape.subset(some).len());
        }
    }
}
