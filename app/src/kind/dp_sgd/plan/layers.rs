//! A plan's model: its layers, and the parts that the rounds do not train.

use serde::{Deserialize, Serialize};
use undertone_api::job::dp_sgd::{AcousticModel, ModelPart, ModelParts, RecurrentCell, TrainingLoss};

/// The layers besides the number of hidden units, and the loss. The default is the model from before there was a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelLayers {
    /// The recurrent cell.
    pub cell: RecurrentCell,
    /// Recurrent layers.
    pub layers: u32,
    /// Whether they are bidirectional.
    pub bidirectional: bool,
    /// The context of a convolution before them, frames; 0 for none.
    pub context: u32,
    /// Whether there is a layer norm before the output layer.
    pub normalize: bool,
    /// Whether the loss is CTC.
    pub ctc: bool,
}

impl Default for ModelLayers {
    fn default() -> Self {
        Self { cell: RecurrentCell::Lstm, layers: 1, bidirectional: false, context: 0, normalize: false, ctc: false }
    }
}

impl ModelLayers {
    /// Returns the layers of a model.
    #[cfg(feature = "ssr")]
    pub fn from_model(model: &AcousticModel) -> Self {
        Self {
            cell: model.cell,
            layers: model.layers,
            bidirectional: model.bidirectional,
            context: model.context.unwrap_or(0),
            normalize: model.normalize,
            ctc: model.loss == TrainingLoss::Ctc,
        }
    }

    /// Returns the model of these layers.
    pub fn model(self, hidden: u32) -> AcousticModel {
        AcousticModel {
            cell: self.cell,
            layers: self.layers,
            bidirectional: self.bidirectional,
            context: (self.context > 0).then_some(self.context),
            normalize: self.normalize,
            loss: if self.ctc { TrainingLoss::Ctc } else { TrainingLoss::CrossEntropy },
            ..AcousticModel::lstm(hidden, None)
        }
    }
}

/// The parts that the rounds do not train, as checkboxes post them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a checkbox of the form")]
pub struct FrozenParts {
    /// See [`ModelPart::Embedding`].
    pub embedding: bool,
    /// See [`ModelPart::Context`].
    pub context: bool,
    /// See [`ModelPart::Layer1`].
    pub layer1: bool,
    /// See [`ModelPart::Layer2`].
    pub layer2: bool,
    /// See [`ModelPart::Layer3`].
    pub layer3: bool,
    /// See [`ModelPart::Layer4`].
    pub layer4: bool,
    /// See [`ModelPart::Normalize`].
    pub normalize: bool,
    /// See [`ModelPart::Output`].
    pub output: bool,
}

impl FrozenParts {
    /// Returns the flag of a part, which is true if the part is not trained.
    pub fn flag_mut(&mut self, part: ModelPart) -> &mut bool {
        match part {
            ModelPart::Embedding => &mut self.embedding,
            ModelPart::Context => &mut self.context,
            ModelPart::Layer1 => &mut self.layer1,
            ModelPart::Layer2 => &mut self.layer2,
            ModelPart::Layer3 => &mut self.layer3,
            ModelPart::Layer4 => &mut self.layer4,
            ModelPart::Normalize => &mut self.normalize,
            ModelPart::Output => &mut self.output,
        }
    }

    /// Returns the trained parts of a model; `None` if all are trained. Parts that the model lacks are ignored.
    pub fn trained_parts(mut self, model: &AcousticModel) -> Option<ModelParts> {
        let parts = model.parts();
        let trained: ModelParts = parts.iter().filter(|part| !*self.flag_mut(*part)).collect();
        (trained != parts).then_some(trained)
    }
}
