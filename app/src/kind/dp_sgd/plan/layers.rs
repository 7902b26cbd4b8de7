//! A plan's model: its layers, and the parts that the rounds do not train.

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{Cell, Model, Part, Parts};

/// The layers besides the number of hidden units. The default is the model from before there was a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelLayers {
    /// The recurrent cell.
    pub cell: Cell,
    /// Recurrent layers.
    pub layers: u32,
    /// Whether they are bidirectional.
    pub bidirectional: bool,
    /// The context of a convolution before them, frames; 0 for none.
    pub context: u32,
    /// Whether there is a layer norm before the output layer.
    pub normalize: bool,
}

impl Default for ModelLayers {
    fn default() -> Self {
        Self { cell: Cell::Lstm, layers: 1, bidirectional: false, context: 0, normalize: false }
    }
}

impl ModelLayers {
    /// Returns the model of these layers.
    pub fn model(self, hidden: u32) -> Model {
        Model {
            cell: self.cell,
            layers: self.layers,
            bidirectional: self.bidirectional,
            context: (self.context > 0).then_some(self.context),
            normalize: self.normalize,
            ..Model::lstm(hidden, None)
        }
    }
}

/// The parts that the rounds do not train, as checkboxes post them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a checkbox of the form")]
pub struct FrozenParts {
    /// See [`Part::Context`].
    pub context: bool,
    /// See [`Part::Layer1`].
    pub layer1: bool,
    /// See [`Part::Layer2`].
    pub layer2: bool,
    /// See [`Part::Layer3`].
    pub layer3: bool,
    /// See [`Part::Layer4`].
    pub layer4: bool,
    /// See [`Part::Normalize`].
    pub normalize: bool,
    /// See [`Part::Output`].
    pub output: bool,
}

impl FrozenParts {
    /// Returns the flag of a part, which is true if the part is not trained.
    pub fn flag_mut(&mut self, part: Part) -> &mut bool {
        match part {
            Part::Context => &mut self.context,
            Part::Layer1 => &mut self.layer1,
            Part::Layer2 => &mut self.layer2,
            Part::Layer3 => &mut self.layer3,
            Part::Layer4 => &mut self.layer4,
            Part::Normalize => &mut self.normalize,
            Part::Output => &mut self.output,
        }
    }

    /// Returns the trained parts of a model; `None` if all are trained. Parts that the model lacks are ignored.
    pub fn trained_parts(mut self, model: &Model) -> Option<Parts> {
        let parts = model.parts();
        let trained: Parts = parts.iter().filter(|part| !*self.flag_mut(*part)).collect();
        (trained != parts).then_some(trained)
    }
}
