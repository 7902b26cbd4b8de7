//! Development data: public utterances that score the runs of a private selection.
//!
//! The lead sets them aside from its public training data, by a rule that depends only on the seed of the warm start
//! and the order of the dataset. It trains on none of them, and publishes them with the warm start. A score is computed
//! from a run's update and these data: it is no separate release. A bad set makes sites choose badly, without a loss of
//! privacy.

use std::collections::HashMap;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use undertone_api::job::dp_sgd::{Spec, TrainingLoss};

use super::data::TrainingData;
use super::error::TrainingError;
use crate::run::RunError;
use crate::speech::model::gradient::{Engine, Example};
use crate::speech::model::{Model, ModelShape};

/// The artifact that contains them.
pub(super) const NAME: &str = "development.safetensors";
/// The highest number of frames in it: a site scores them up to some hundred times.
const MAX_FRAMES: usize = 1 << 22;

/// Public utterances, concatenated.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DevelopmentData {
    inputs: usize,
    features: Vec<f32>,
    labels: Vec<u16>,
    /// Frames of each, positive.
    lengths: Vec<u32>,
}

/// Returns the training utterances of the lead's data that a spec sets aside, ascending; none without a selection.
///
/// # Errors
/// [`RunError::Failed`] when the lead would have none left to train on.
pub(super) fn set_aside(spec: &Spec, data: &TrainingData) -> Result<Vec<usize>, RunError> {
    let Some(selection) = &spec.selection else { return Ok(Vec::new()) };
    let mut all = data.training();
    let count = selection.development as usize;
    if count >= all.len() {
        let name = data.name().to_owned();
        let error = TrainingError::DevelopmentSize { dataset: name, utterances: all.len(), development: count };
        return Err(error.into());
    }
    let mut rng = ChaCha20Rng::seed_from_u64(spec.warm_start.seed);
    // Stream 0 and those from 1 on belong to the warm start.
    rng.set_stream(u64::MAX);
    for first in 0..count {
        let remaining = (all.len() - first) as u64;
        all.swap(first, first + (rng.next_u64() % remaining) as usize);
    }
    all.truncate(count);
    all.sort_unstable();
    Ok(all)
}

/// Returns the error of data whose content is wrong.
fn content_error(reason: impl Into<String>) -> RunError {
    TrainingError::DevelopmentContent(reason.into()).into()
}

impl DevelopmentData {
    /// Copies some utterances of public data.
    pub(super) fn copy_from(data: &TrainingData, utterances: &[usize]) -> Self {
        let mut development =
            Self { inputs: data.inputs(), features: Vec::new(), labels: Vec::new(), lengths: Vec::new() };
        for Example { features, labels } in utterances.iter().map(|index| data.example(*index)) {
            development.features.extend_from_slice(features);
            development.labels.extend_from_slice(labels);
            development.lengths.push(labels.len() as u32);
        }
        development
    }

    /// Returns the data as a file.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it cannot be written.
    pub(super) fn to_file(&self) -> Result<Vec<u8>, RunError> {
        let features: Vec<u8> = self.features.iter().flat_map(|value| value.to_le_bytes()).collect();
        let labels: Vec<u8> = self.labels.iter().flat_map(|value| value.to_le_bytes()).collect();
        let lengths: Vec<u8> = self.lengths.iter().flat_map(|value| value.to_le_bytes()).collect();
        let frames = self.labels.len();
        let view = |kind, shape, data| TensorView::new(kind, shape, data).map_err(TrainingError::DevelopmentFile);
        let views = [
            ("features", view(Dtype::F32, vec![frames, self.inputs], &features)?),
            ("labels", view(Dtype::U16, vec![frames], &labels)?),
            ("lengths", view(Dtype::U32, vec![self.lengths.len()], &lengths)?),
        ];
        Ok(safetensors::serialize(views, None::<HashMap<String, String>>).map_err(TrainingError::DevelopmentFile)?)
    }

    /// Reads a file, for a model of this shape, with labels that suit the loss: classes, or levels of a number.
    ///
    /// # Errors
    /// [`RunError::Failed`] when it is damaged, or does not fit the model.
    pub(super) fn from_file(file: &[u8], shape: &ModelShape, loss: TrainingLoss) -> Result<Self, RunError> {
        let tensors = SafeTensors::deserialize(file).map_err(TrainingError::DevelopmentFile)?;
        let tensor = |name: &str, kind| {
            let tensor = tensors.tensor(name).map_err(TrainingError::DevelopmentFile)?;
            let has_kind = tensor.dtype() == kind;
            if has_kind { Ok(tensor) } else { Err(content_error(format!("`{name}` has another type"))) }
        };
        let features = tensor("features", Dtype::F32)?;
        let labels = tensor("labels", Dtype::U16)?;
        let lengths = tensor("lengths", Dtype::U32)?;
        let data = Self {
            inputs: features.shape().get(1).copied().unwrap_or(0),
            features: features.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect(),
            labels: labels.data().as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect(),
            lengths: lengths.data().as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
        };
        let frames = data.labels.len();
        let has_all_frames = data.lengths.iter().map(|length| u64::from(*length)).sum::<u64>() == frames as u64;
        let is_consistent = (1..=MAX_FRAMES).contains(&frames)
            && has_all_frames
            && !data.lengths.contains(&0)
            && data.features.len() == frames * data.inputs
            && data.features.iter().all(|value| value.is_finite());
        if !is_consistent {
            return Err(content_error("its tensors contradict each other"));
        }
        let classes = data.labels.iter().max().map_or(0, |label| usize::from(*label) + 1);
        let are_classes = loss != TrainingLoss::SquaredError;
        if data.inputs != shape.inputs || (are_classes && classes > shape.classes) {
            return Err(content_error("the model has other inputs or classes"));
        }
        Ok(data)
    }

    /// Returns the mean cross-entropy of a model on them, nats: lower is better.
    pub(super) fn loss(&self, model: &Model, engine: &mut Engine) -> f64 {
        let mut start = 0;
        let examples: Vec<Example<'_>> = self
            .lengths
            .iter()
            .map(|length| {
                let frames = start..start + *length as usize;
                start = frames.end;
                let features = &self.features[frames.start * self.inputs..frames.end * self.inputs];
                Example { features, labels: &self.labels[frames] }
            })
            .collect();
        engine.score(model, &examples).mean_loss()
    }
}

#[cfg(test)]
mod tests {
    use super::{DevelopmentData, TrainingLoss};
    use crate::speech::model::ModelShape;

    const CLASSES: TrainingLoss = TrainingLoss::CrossEntropy;

    const fn shape() -> ModelShape {
        ModelShape::plain(2, 3, 4)
    }

    fn development() -> DevelopmentData {
        DevelopmentData {
            inputs: 2,
            features: (0..10).map(|value| value as f32).collect(),
            labels: vec![0, 1, 2, 3, 0],
            lengths: vec![2, 3],
        }
    }

    #[test]
    fn development_file_is_read_back_unchanged() {
        let file = development().to_file().expect("it can be written");
        assert_eq!(DevelopmentData::from_file(&file, &shape(), CLASSES).expect("it is whole"), development());
    }

    #[test]
    fn inconsistent_development_file_is_refused() {
        let changes: [fn(&mut DevelopmentData); 5] = [
            |data| data.lengths[0] = 3,
            |data| data.lengths = vec![5, 0],
            |data| data.labels[1] = 4,
            |data| data.features[3] = f32::NAN,
            |data| (data.inputs, data.lengths) = (1, vec![5]),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut data = development();
            change(&mut data);
            let result = data.to_file().and_then(|file| DevelopmentData::from_file(&file, &shape(), CLASSES));
            assert!(result.is_err(), "{number}");
        }
        assert!(DevelopmentData::from_file(b"nothing", &shape(), CLASSES).is_err());
    }
}
