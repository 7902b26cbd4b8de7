//! Training of few coordinates in place of each parameter: the biases alone, or changes of low rank.
//!
//! The noise has the same deviation in each trained coordinate, so its norm grows with the root of their number, while a
//! clipped gradient does not become longer. Fewer coordinates have less noise together, for the same price.
//!
//! * `biases`: the biases of the trained parts (BitFit: Ben Zaken, Goldberg and Ravfogel 2022).
//! * `low_rank`: a weight matrix W `[in, out]` moves as W₀ + P·B. P `[in, r]` is fixed and has orthonormal columns, and B
//!   `[r, out]` is trained. Biases, and the gains of a layer norm, are trained in full. This is low-rank adaptation with a
//!   frozen factor (LoRA: Hu et al. 2021; LoRA-FA: Zhang et al. 2023).
//!
//! The columns of P are the leading left singular vectors of W₀, the matrix after the warm start. All participants have
//! it, and it follows from public data and earlier releases, so the choice of P costs nothing (Zhou, Wu and Banerjee
//! 2021 project gradients to a public subspace). r is the rank, or the smaller side of the matrix if that is less: a
//! matrix has no more singular vectors.
//!
//! A site clips the gradient by these coordinates, so the sensitivity of the sum is C, as for all parameters.

use serde::{Deserialize, Serialize};

use super::model::{AcousticModel, ModelPart, ModelParts};

/// The trained coordinates of the trained parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ParameterAdaptation {
    /// The biases, and the shifts of a layer norm. All weights stay as after the warm start.
    Biases,
    /// Changes of low rank of each weight matrix, and the biases in full. The directions of the changes are the leading
    /// left singular vectors of the matrix after the warm start.
    LowRank {
        /// r: the directions of a matrix, 1 to the smaller side of the largest trained one.
        #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1024))]
        rank: u32,
    },
}

/// The parameters of a part by their use.
#[derive(Debug, Clone, Default)]
pub(super) struct PartWeights {
    /// The inputs and the outputs of each weight matrix.
    pub(super) matrices: Vec<[u64; 2]>,
    /// Biases, and shifts of a layer norm.
    pub(super) biases: u64,
    /// Gains of a layer norm.
    pub(super) gains: u64,
    /// The number of copies of all of them: 2 for a layer that reads in both directions.
    pub(super) copies: u64,
}

impl PartWeights {
    /// Returns one matrix and its bias.
    pub(super) fn affine(inputs: u64, outputs: u64) -> Self {
        Self { matrices: vec![[inputs, outputs]], biases: outputs, gains: 0, copies: 1 }
    }

    /// Returns the number of parameters. Saturates for an unchecked model.
    pub(super) fn parameters(&self) -> u64 {
        self.count(u64::saturating_mul, self.gains)
    }

    /// Returns the number of coordinates with an adaptation.
    fn coordinates(&self, adaptation: ParameterAdaptation) -> u64 {
        match adaptation {
            ParameterAdaptation::Biases => self.count(|_, _| 0, 0),
            ParameterAdaptation::LowRank { rank } => {
                self.count(|inputs, outputs| inputs.min(outputs).min(rank.into()).saturating_mul(outputs), self.gains)
            }
        }
    }

    fn count(&self, count_matrix: impl Fn(u64, u64) -> u64, gains: u64) -> u64 {
        let matrices = self.matrices.iter().map(|[inputs, outputs]| count_matrix(*inputs, *outputs));
        matrices.fold(self.biases.saturating_add(gains), u64::saturating_add).saturating_mul(self.copies)
    }
}

impl AcousticModel {
    /// Returns the number of coordinates of several parts with an adaptation: the length of a vector. Without one it is
    /// the number of their parameters.
    pub fn coordinates(
        &self,
        parts: ModelParts,
        adaptation: Option<ParameterAdaptation>,
        inputs: u32,
        classes: u32,
    ) -> u64 {
        let Some(adaptation) = adaptation else { return self.parameters(parts, inputs, classes) };
        let of_part = |part| self.part_weights(part, inputs, classes).coordinates(adaptation);
        parts.iter().map(of_part).fold(0, u64::saturating_add)
    }

    /// Returns the greatest rank of a change of several parts: the greatest smaller side of their weight matrices. `None` if
    /// they have no matrix; the table of an embedding does not count.
    pub(super) fn greatest_rank(&self, parts: ModelParts, inputs: u32, classes: u32) -> Option<u64> {
        let parts = parts.iter().filter(|part| *part != ModelPart::Embedding);
        let matrices = parts.flat_map(|part| self.part_weights(part, inputs, classes).matrices);
        matrices.map(|[inputs, outputs]| inputs.min(outputs)).max()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test writes can be read")]

    use super::super::RecurrentCell;
    use super::{AcousticModel, ModelPart, ModelParts, ParameterAdaptation};

    const fn low_rank(rank: u32) -> ParameterAdaptation {
        ParameterAdaptation::LowRank { rank }
    }

    fn part(part: ModelPart) -> ModelParts {
        [part].into_iter().collect()
    }

    #[test]
    fn coordinates_are_directions_times_outputs_and_biases() {
        let model = AcousticModel::lstm(64, None);
        let layer = part(ModelPart::Layer1);
        assert_eq!(model.coordinates(layer, None, 13, 120), 4 * 64 * (13 + 1 + 64));
        let count = |parts, adaptation| model.coordinates(parts, Some(adaptation), 13, 120);
        assert_eq!(count(layer, ParameterAdaptation::Biases), 256);
        assert_eq!(count(layer, low_rank(8)), (8 + 1 + 8) * 256);
        // The inputs have no more than 13 directions.
        assert_eq!(count(layer, low_rank(32)), (13 + 1 + 32) * 256);
        assert_eq!(count(model.parts(), low_rank(8)), 17 * 256 + 9 * 120);
        // An output layer with fewer classes than directions has as many directions as classes.
        assert_eq!(model.coordinates(part(ModelPart::Output), Some(low_rank(8)), 13, 3), 3 * 3 + 3);
    }

    #[test]
    fn each_part_has_its_biases_and_matrices() {
        let model = AcousticModel {
            cell: RecurrentCell::Gru,
            layers: 2,
            bidirectional: true,
            context: Some(5),
            normalize: true,
            ..AcousticModel::lstm(7, None)
        };
        let count = |adaptation| ModelPart::ALL.map(|own| model.coordinates(part(own), Some(adaptation), 3, 11));
        assert_eq!(count(ParameterAdaptation::Biases), [0, 7, 2 * 21, 2 * 21, 0, 0, 14, 11]);
        let layer = 2 * (2 + 1 + 2) * 21;
        assert_eq!(count(low_rank(2)), [0, 3 * 7, layer, layer, 0, 0, 28, 3 * 11]);
        let rank = |parts| model.greatest_rank(parts, 3, 11);
        assert_eq!((rank(model.parts()), rank(part(ModelPart::Context))), (Some(14), Some(7)));
        assert_eq!(rank(part(ModelPart::Normalize)), None);
    }

    #[test]
    fn adaptation_is_written_with_its_kind() {
        for (adaptation, text) in [
            (ParameterAdaptation::Biases, r#"{"kind":"biases"}"#),
            (ParameterAdaptation::LowRank { rank: 8 }, r#"{"kind":"low_rank","rank":8}"#),
        ] {
            assert_eq!(serde_json::to_string(&adaptation).unwrap(), text);
            assert_eq!(serde_json::from_str::<ParameterAdaptation>(text).unwrap(), adaptation);
        }
        assert!(serde_json::from_str::<ParameterAdaptation>(r#"{"kind":"low_rank"}"#).is_err());
    }
}
