//! The dimensions of a model, and where its parts lie in the flat vector of parameters.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{Cell, Model as Proposed, Part, Parts};

use super::subset::Subset;
use crate::dp::layers::output::Output;

/// Dimensions of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Coefficients of a frame.
    pub inputs: usize,
    /// Units of each recurrent layer, and of each of its directions.
    pub hidden: usize,
    /// Classes.
    pub classes: usize,
    /// What the recurrent layers are made of.
    pub cell: Cell,
    /// Recurrent layers, 1 to 4.
    pub layers: usize,
    /// Whether they also read backwards.
    pub bidirectional: bool,
    /// Frames that the convolution before them sees, an odd number; none without one.
    pub context: Option<usize>,
    /// Whether a layer norm comes before the output layer.
    pub normalize: bool,
}

impl Shape {
    /// The model of the paper: one LSTM layer and an output layer.
    pub const fn plain(inputs: usize, hidden: usize, classes: usize) -> Self {
        let (cell, context) = (Cell::Lstm, None);
        Self { inputs, hidden, classes, cell, layers: 1, bidirectional: false, context, normalize: false }
    }

    /// What a spec asks for, of data with so many coefficients and classes.
    pub fn of(model: &Proposed, inputs: usize, classes: usize) -> Self {
        Self {
            inputs,
            hidden: model.hidden as usize,
            classes,
            cell: model.cell,
            layers: model.layers as usize,
            bidirectional: model.bidirectional,
            context: model.context.map(|frames| frames as usize),
            normalize: model.normalize,
        }
    }

    /// Directions in which each recurrent layer reads.
    pub const fn directions(&self) -> usize {
        if self.bidirectional { 2 } else { 1 }
    }

    /// Columns of a recurrent matrix for each unit.
    const fn gates(&self) -> usize {
        match self.cell {
            Cell::Lstm => 4,
            Cell::Gru => 3,
        }
    }

    /// Numbers a frame that the output layer sees.
    pub const fn width(&self) -> usize {
        self.directions() * self.hidden
    }

    /// Numbers a frame that recurrent layer `layer`, counted from 0, sees.
    pub const fn fed(&self, layer: usize) -> usize {
        match (layer, self.context) {
            (0, None) => self.inputs,
            (0, Some(_)) => self.hidden,
            _ => self.width(),
        }
    }

    /// The matrices of every part, row-major, in the order in which they lie in the flat vector, with their names in a file:
    /// the part's, the direction's where there are two, and `weight`.
    pub fn matrices(&self) -> Vec<(Part, String, [usize; 2])> {
        let named = |part: Part, direction: &str| format!("{}{direction}.weight", part.name());
        let one = |part: Part, shape| (part, named(part, ""), shape);
        let mut matrices = Vec::new();
        matrices.extend(self.context.map(|frames| one(Part::Context, [frames * self.inputs + 1, self.hidden])));
        for (layer, part) in Part::LAYERS.into_iter().enumerate().take(self.layers) {
            let shape = [self.fed(layer) + 1 + self.hidden, self.gates() * self.hidden];
            let directions: &[&str] = if self.bidirectional { &[".forward", ".backward"] } else { &[""] };
            matrices.extend(directions.iter().map(|direction| (part, named(part, direction), shape)));
        }
        matrices.extend(self.normalize.then(|| one(Part::Normalize, [2, self.width()])));
        matrices.push(one(Part::Output, [self.width() + 1, self.classes]));
        matrices
    }

    /// Every part and its range of the flat vector, from the input to the output.
    pub fn parts(&self) -> Vec<(Part, Range<usize>)> {
        let mut parts: Vec<(Part, Range<usize>)> = Vec::new();
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

    /// The parts that the model has.
    pub fn all(&self) -> Parts {
        self.parts().into_iter().map(|(part, _)| part).collect()
    }

    /// How many parameters each of some parts has, in the model's order; parts that the model has not are left out.
    pub fn lengths(&self, parts: Parts) -> Vec<usize> {
        self.parts().into_iter().filter(|(part, _)| parts.contains(*part)).map(|(_, range)| range.len()).collect()
    }

    /// The coordinates of some parts; parts that the model has not have none.
    pub fn subset(&self, parts: Parts) -> Subset {
        Subset::new(self.parts().into_iter().filter(|(part, _)| parts.contains(*part)).map(|(_, range)| range))
    }

    /// Number of parameters.
    pub fn parameters(&self) -> usize {
        self.parts().last().map_or(0, |(_, range)| range.end)
    }

    /// The output layer.
    pub const fn output(&self) -> Output {
        Output { inputs: self.width(), classes: self.classes }
    }

    /// Where all but the output layer lies in the flat vector; the output layer is the rest.
    pub fn recurrent(&self) -> Range<usize> {
        0..self.parameters() - self.output().parameters()
    }

    /// Where the output layer lies.
    pub fn output_range(&self) -> Range<usize> {
        self.recurrent().end..self.parameters()
    }
}

#[cfg(test)]
mod tests {
    use undertone_api::job::dp_sgd::{Cell, Model, Part, Parts};

    use super::Shape;

    #[test]
    fn parts_lie_one_after_another_and_are_as_long_as_the_contract_says() {
        let plain = Model::lstm(7, Some(11));
        let rich = Model { context: Some(5), layers: 3, bidirectional: true, normalize: true, ..plain.clone() };
        let gru = Model { cell: Cell::Gru, ..rich.clone() };
        for model in [plain, rich, gru] {
            let shape = Shape::of(&model, 3, 11);
            let mut end = 0;
            for (part, range) in shape.parts() {
                assert_eq!(range.start, end);
                assert_eq!(range.len() as u64, model.part_parameters(part, 3, 11), "{}", part.name());
                end = range.end;
            }
            assert_eq!(shape.parts().into_iter().map(|(part, _)| part).collect::<Parts>(), model.parts());
            assert_eq!((shape.parameters(), shape.subset(model.parts()).len()), (end, end));
            let output = [Part::Output].into_iter().collect();
            assert_eq!(shape.subset(output).ranges(), std::slice::from_ref(&shape.output_range()));
        }
    }
}
