//! The trained coordinates of a model: the numbers that participants exchange, clip and add noise to.
//!
//! They are the parameters of the trained parts, or fewer ([`ParameterAdaptation`]): the biases alone, or with a low rank
//! also a matrix B `[r, out]` for each weight matrix W `[in, out]`, which moves as W = W₀ + P·B. W₀ is the matrix at the
//! start. P `[in, r]` has as orthonormal columns the leading left singular vectors of W₀ (`directions`). Each participant
//! computes it from the start, which all have, with the same bits; so it need not be sent or stored.
//!
//! **Gradient.** The derivative of the loss by B is Pᵀ times that by W. Layers compute it for each unit without the
//! gradient by W ([`GradientProjection`]), with P rounded to 32 bits.
//!
//! **Sensitivity.** The start, and with it P, is fixed before the first round, and a unit's gradient by the coordinates
//! depends on that unit alone. It is clipped by these coordinates, to a norm of at most C, and then added. So a unit moves
//! the sum by at most C, and the noise of deviation z·C in each coordinate has the price of a sum of all parameters. This
//! holds for any P. That its columns are orthonormal makes the noise in W equally strong in each of their directions.
//!
//! The model itself has merged matrices: its files, scores and passes know nothing of B.

use std::ops::Range;

use rayon::prelude::*;
use undertone_api::job::dp_sgd::{ModelPart, ModelParts, ParameterAdaptation};

use super::directions::find_directions;
use super::shape::RowUse;
use super::{Model, ModelShape};
use crate::layers::GradientProjection;
use crate::layers::projection::RowMap;

/// Reasons why parts of a model cannot be trained with an adaptation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoordinateError {
    /// The part has neither biases nor weight matrices.
    #[error("`{}` has neither biases nor directions: name the other parts in `train`, or leave `adaptation` out", .0.name())]
    NoDirections(ModelPart),
    /// The part contains infinite or undefined numbers.
    #[error("`{}` has numbers that are not finite after the warm start: lower its learning rate", .0.name())]
    NotFinite(ModelPart),
}

/// A linear map between all parameters of a model and its trained coordinates.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainedCoordinates {
    parts: ModelParts,
    /// The coordinates of each trained part, in the model's order.
    lengths: Vec<usize>,
    /// In the order of the parameters.
    blocks: Vec<CoordinateBlock>,
    /// The map of gradients; `None` if each parameter of the parts is a coordinate.
    projection: Option<GradientProjection>,
}

/// Consecutive coordinates, and the parameters that they determine.
#[derive(Debug, Clone, PartialEq)]
enum CoordinateBlock {
    /// The parameters of a range.
    Whole(Range<usize>),
    /// A weight matrix.
    LowRank(LowRankMatrix),
}

/// A weight matrix that moves as W₀ + P·B.
#[derive(Debug, Clone, PartialEq)]
struct LowRankMatrix {
    /// The parameters of W.
    range: Range<usize>,
    columns: usize,
    /// W₀, `[in, out]`.
    start: Vec<f32>,
    rank: usize,
    /// P, `[in, rank]`.
    directions: Vec<f64>,
}

impl LowRankMatrix {
    /// Writes W₀ + P·B to `target`, `[in, out]`. Each element is a sum of 64-bit numbers in the order of the directions, the
    /// same on each machine.
    fn merge(&self, coordinates: &[f32], target: &mut [f32]) {
        let starts = self.start.par_chunks_exact(self.columns);
        let rows =
            target.par_chunks_exact_mut(self.columns).zip(starts).zip(self.directions.par_chunks_exact(self.rank));
        rows.for_each(|((target, start), shares)| {
            let mut sums: Vec<f64> = start.iter().copied().map(f64::from).collect();
            for (share, own) in shares.iter().zip(coordinates.chunks_exact(self.columns)) {
                sums.iter_mut().zip(own).for_each(|(sum, value)| *sum += share * f64::from(*value));
            }
            target.iter_mut().zip(sums).for_each(|(target, sum)| *target = sum as f32);
        });
    }
}

impl CoordinateBlock {
    /// Returns the number of coordinates.
    fn len(&self) -> usize {
        match self {
            Self::Whole(range) => range.len(),
            Self::LowRank(matrix) => matrix.rank * matrix.columns,
        }
    }

    /// Returns the parameters.
    const fn range(&self) -> &Range<usize> {
        match self {
            Self::Whole(range) | Self::LowRank(LowRankMatrix { range, .. }) => range,
        }
    }
}

impl TrainedCoordinates {
    /// Returns the coordinates of parts of the model `start`, where training starts. Parts that the model lacks have none.
    ///
    /// # Errors
    /// [`CoordinateError`] if a part cannot be trained with the adaptation.
    pub fn new(
        start: &Model,
        parts: ModelParts,
        adaptation: Option<ParameterAdaptation>,
    ) -> Result<Self, CoordinateError> {
        let Some(adaptation) = adaptation else { return Ok(Self::of_parts(start.shape(), parts)) };
        let mut own = Self { parts, lengths: Vec::new(), blocks: Vec::new(), projection: None };
        let mut projection = GradientProjection::default();
        let mut end = 0;
        let mut last = None;
        for (part, _, [rows, columns]) in start.shape().matrices() {
            let mut first = end;
            end += rows * columns;
            if !parts.contains(part) {
                continue;
            }
            let uses = start.shape().row_uses(part, rows);
            if uses.is_empty() {
                return Err(CoordinateError::NoDirections(part));
            }
            if last.replace(part) != Some(part) {
                own.lengths.push(0);
            }
            for (usage, rows) in uses {
                let range = first..first + rows * columns;
                first = range.end;
                let block = adapt_rows(start, part, range.clone(), columns, usage, adaptation)?;
                let map = match &block {
                    None => RowMap::Frozen,
                    Some(CoordinateBlock::Whole(_)) => RowMap::Whole,
                    Some(CoordinateBlock::LowRank(matrix)) => {
                        RowMap::Directions(matrix.rank, matrix.directions.iter().map(|value| *value as f32).collect())
                    }
                };
                projection.push(range.start, [rows, columns], map);
                if let (Some(block), Some(length)) = (block, own.lengths.last_mut()) {
                    *length += block.len();
                    own.blocks.push(block);
                }
            }
        }
        own.projection = Some(projection);
        Ok(own)
    }

    /// Returns each parameter of parts of a model as a coordinate.
    pub(super) fn of_parts(shape: &ModelShape, parts: ModelParts) -> Self {
        let mut joined: Vec<Range<usize>> = Vec::new();
        for (_, range) in shape.parts().into_iter().filter(|(part, _)| parts.contains(*part)) {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        let blocks = joined.into_iter().map(CoordinateBlock::Whole).collect();
        Self { parts, lengths: shape.lengths(parts), blocks, projection: None }
    }

    /// Returns the trained parts.
    pub const fn parts(&self) -> ModelParts {
        self.parts
    }

    /// Returns the number of coordinates of each trained part, in the model's order.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Returns the number of coordinates.
    pub fn len(&self) -> usize {
        self.lengths.iter().sum()
    }

    /// Returns true if there are no coordinates.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the ranges of the parameters that the coordinates determine.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        self.blocks.iter().map(|block| block.range().clone()).collect()
    }

    /// Returns the gradient by the coordinates for a gradient by all parameters, from the directions themselves, for tests.
    #[cfg(test)]
    pub(super) fn project_in_test(&self, gradient: &[f32]) -> Vec<f32> {
        let mut projected = Vec::with_capacity(self.len());
        for block in &self.blocks {
            let own = &gradient[block.range().clone()];
            let CoordinateBlock::LowRank(LowRankMatrix { columns, rank, directions, .. }) = block else {
                projected.extend_from_slice(own);
                continue;
            };
            for direction in 0..*rank {
                projected.extend((0..*columns).map(|column| {
                    let rows = own.chunks_exact(*columns).zip(directions.chunks_exact(*rank));
                    rows.map(|(row, shares)| f64::from(row[column]) * shares[direction]).sum::<f64>() as f32
                }));
            }
        }
        projected
    }

    /// Returns the map of gradients; `None` if each parameter of the parts is a coordinate.
    pub(super) const fn projection(&self) -> Option<&GradientProjection> {
        self.projection.as_ref()
    }

    /// Returns the coordinates of the start, whose parameters are `whole`.
    ///
    /// # Panics
    /// If the vector is too short.
    pub fn gather(&self, whole: &[f32]) -> Vec<f32> {
        let mut coordinates = Vec::with_capacity(self.len());
        for block in &self.blocks {
            match block {
                CoordinateBlock::Whole(range) => coordinates.extend_from_slice(&whole[range.clone()]),
                // B is 0 at W₀.
                CoordinateBlock::LowRank(_) => coordinates.resize(coordinates.len() + block.len(), 0.0),
            }
        }
        coordinates
    }

    /// Writes the parameters that these coordinates determine to a whole vector; the others do not change.
    ///
    /// # Panics
    /// If the number of coordinates differs, or the vector is too short.
    pub fn scatter(&self, coordinates: &[f32], whole: &mut [f32]) {
        assert_eq!(coordinates.len(), self.len(), "a number for each coordinate");
        let mut rest = coordinates;
        for block in &self.blocks {
            let (own, after) = rest.split_at(block.len());
            let target = &mut whole[block.range().clone()];
            match block {
                CoordinateBlock::Whole(_) => target.copy_from_slice(own),
                CoordinateBlock::LowRank(matrix) => matrix.merge(own, target),
            }
            rest = after;
        }
    }
}

/// Returns the coordinates of consecutive rows of a part's matrix; `None` for frozen ones.
fn adapt_rows(
    start: &Model,
    part: ModelPart,
    range: Range<usize>,
    columns: usize,
    usage: RowUse,
    adaptation: ParameterAdaptation,
) -> Result<Option<CoordinateBlock>, CoordinateError> {
    let rank = match (usage, adaptation) {
        (RowUse::Biases, _) | (RowUse::Gains, ParameterAdaptation::LowRank { .. }) => {
            return Ok(Some(CoordinateBlock::Whole(range)));
        }
        (_, ParameterAdaptation::Biases) => return Ok(None),
        (RowUse::Weights, ParameterAdaptation::LowRank { rank }) => rank as usize,
    };
    let start = start.parameters()[range.clone()].to_vec();
    if !start.iter().all(|value| value.is_finite()) {
        return Err(CoordinateError::NotFinite(part));
    }
    let rows = range.len() / columns.max(1);
    let rank = rank.min(rows).min(columns);
    if rank == 0 {
        return Ok(None);
    }
    let directions = find_directions(&start, [rows, columns], rank);
    Ok(Some(CoordinateBlock::LowRank(LowRankMatrix { range, columns, start, rank, directions })))
}

#[cfg(test)]
mod tests {
    use undertone_api::job::dp_sgd::{AcousticModel, ModelPart, ModelParts, ParameterAdaptation, RecurrentCell};

    use super::{CoordinateBlock, CoordinateError, TrainedCoordinates};
    use crate::model::tests::{rows, text_rows};
    use crate::model::{Model, ModelShape, Normalizer};

    fn model(proposed: &AcousticModel) -> Model {
        let shape = ModelShape::from_spec(proposed, proposed.inputs(3) as usize, 11);
        let normalizer = Normalizer { mean: vec![0.0; shape.inputs], deviation: vec![1.0; shape.inputs] };
        Model::initialize(shape, normalizer, 5)
    }

    #[test]
    fn gather_then_scatter_changes_nothing_else() {
        let model = model(&AcousticModel { layers: 2, normalize: true, ..AcousticModel::lstm(4, None) });
        let parts: ModelParts = [ModelPart::Layer1, ModelPart::Normalize].into_iter().collect();
        let coordinates = model.shape().coordinates(parts);
        assert_eq!(coordinates.lengths(), model.shape().lengths(parts));
        let mut moved = coordinates.gather(model.parameters());
        for value in &mut moved {
            *value += 1.0;
        }
        let mut whole = model.parameters().to_vec();
        coordinates.scatter(&moved, &mut whole);
        assert_eq!(coordinates.gather(&whole), moved);
        let ranges = coordinates.ranges();
        for (place, (before, after)) in model.parameters().iter().zip(&whole).enumerate() {
            let is_trained = ranges.iter().any(|range| range.contains(&place));
            assert_eq!(before.to_bits() != after.to_bits(), is_trained, "{place}");
        }
    }

    #[test]
    fn coordinates_are_as_many_as_the_contract_says() {
        let plain = AcousticModel::lstm(7, None);
        let deep = AcousticModel { layers: 3, bidirectional: true, normalize: true, context: Some(5), ..plain.clone() };
        let gru = AcousticModel { cell: RecurrentCell::Gru, layers: 2, ..plain.clone() };
        let dense = AcousticModel { normalize: true, ..AcousticModel::from_rows(rows(), 2, 7) };
        for proposed in [plain, deep, gru, dense, AcousticModel::from_rows(text_rows(), 1, 6)] {
            let model = model(&proposed);
            let parts = proposed.parts().with_part(ModelPart::Embedding, false);
            let adaptations = [1, 2, 7, 50].map(|rank| ParameterAdaptation::LowRank { rank });
            for adaptation in adaptations.into_iter().chain([ParameterAdaptation::Biases]) {
                let own = TrainedCoordinates::new(&model, parts, Some(adaptation)).expect("no part is an embedding");
                let expected = proposed.coordinates(parts, Some(adaptation), proposed.inputs(3), 11);
                assert_eq!((own.len() as u64, own.parts()), (expected, parts), "{adaptation:?} of {proposed:?}");
                assert_eq!(own.lengths().len(), parts.len() as usize);
            }
        }
    }

    #[test]
    fn frozen_directions_are_orthonormal_and_follow_from_the_start() {
        let model = model(&AcousticModel { layers: 2, bidirectional: true, ..AcousticModel::lstm(9, None) });
        let adaptation = Some(ParameterAdaptation::LowRank { rank: 4 });
        let coordinates = || TrainedCoordinates::new(&model, model.shape().all(), adaptation).expect("all are finite");
        let own = coordinates();
        assert!(own == coordinates(), "to the last bit");
        let mut matrices = 0;
        for block in &own.blocks {
            let CoordinateBlock::LowRank(matrix) = block else { continue };
            matrices += 1;
            let rank = matrix.rank;
            let product =
                |a: usize, b: usize| matrix.directions.chunks_exact(rank).map(|row| row[a] * row[b]).sum::<f64>();
            for (a, b) in (0..rank).flat_map(|a| (0..rank).map(move |b| (a, b))) {
                assert!((product(a, b) - f64::from(u8::from(a == b))).abs() < 1e-10);
            }
        }
        // Two in each direction of each layer, and the output.
        assert_eq!(matrices, 9);
    }

    #[test]
    fn matrices_move_within_their_directions_alone() {
        let model = model(&AcousticModel { normalize: true, ..AcousticModel::lstm(8, None) });
        let adaptation = Some(ParameterAdaptation::LowRank { rank: 2 });
        let own = TrainedCoordinates::new(&model, model.shape().all(), adaptation).expect("all are finite");
        let mut moved = own.gather(model.parameters());
        let mut whole = model.parameters().to_vec();
        own.scatter(&moved, &mut whole);
        assert!(whole == model.parameters(), "without a change the model is the start");
        moved.iter_mut().enumerate().for_each(|(place, value)| *value += (place % 7) as f32 / 10.0 - 0.3);
        own.scatter(&moved, &mut whole);
        for block in &own.blocks {
            let CoordinateBlock::LowRank(matrix) = block else { continue };
            let change: Vec<f64> = whole[matrix.range.clone()]
                .iter()
                .zip(&matrix.start)
                .map(|(end, start)| f64::from(*end) - f64::from(*start))
                .collect();
            let squares: f64 = change.iter().map(|value| value * value).sum();
            let mut within = 0.0;
            for direction in 0..matrix.rank {
                for column in 0..matrix.columns {
                    let rows = change.chunks_exact(matrix.columns).zip(matrix.directions.chunks_exact(matrix.rank));
                    let share: f64 = rows.map(|(row, own)| row[column] * own[direction]).sum();
                    within += share * share;
                }
            }
            assert!(squares > 0.01 && (within / squares - 1.0).abs() < 1e-6, "{within} of {squares}");
        }
    }

    #[test]
    fn embedding_and_parts_without_numbers_are_refused() {
        let proposed = AcousticModel::from_rows(text_rows(), 1, 6);
        let adapted = |model: &Model, parts| TrainedCoordinates::new(model, parts, Some(ParameterAdaptation::Biases));
        let error = adapted(&model(&proposed), proposed.parts());
        assert_eq!(error, Err(CoordinateError::NoDirections(ModelPart::Embedding)));
        assert!(adapted(&model(&proposed), proposed.parts().with_part(ModelPart::Embedding, false)).is_ok());
        let mut broken = model(&AcousticModel::lstm(4, None));
        broken.parameters_mut()[0] = f32::NAN;
        let low_rank = Some(ParameterAdaptation::LowRank { rank: 2 });
        let error = TrainedCoordinates::new(&broken, broken.shape().all(), low_rank);
        assert_eq!(error, Err(CoordinateError::NotFinite(ModelPart::Layer1)));
    }
}
