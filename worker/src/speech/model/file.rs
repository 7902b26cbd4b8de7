//! The model as a safetensors file: named tensors that any other program can read, no code.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};

use super::{Model, Normalizer, Shape};

/// Why bytes are not a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// Not the format.
    #[error("the model is not a readable safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// The format, but not our tensors.
    #[error("the model file is not one of this product: tensor `{name}` {problem}")]
    Tensor {
        /// Which.
        name: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
}

const LSTM: &str = "lstm.weight";
const LINEAR: &str = "linear.weight";
const MEAN: &str = "normalizer.mean";
const DEVIATION: &str = "normalizer.deviation";

impl Model {
    /// The model as a safetensors file: `lstm.weight`, `linear.weight` (biases as rows, see the module's table),
    /// `normalizer.mean` and `normalizer.deviation`, all little-endian `f32`.
    ///
    /// # Errors
    /// [`ModelError::Format`] when it cannot be written; not for a model that exists.
    pub fn to_safetensors(&self) -> Result<Vec<u8>, ModelError> {
        let shape = self.shape;
        let (lstm, linear) = self.parameters.split_at(shape.recurrent().end);
        let parts = [
            (LSTM, vec![shape.lstm().width(), 4 * shape.hidden], bytes(lstm)),
            (LINEAR, vec![shape.hidden + 1, shape.classes], bytes(linear)),
            (MEAN, vec![shape.inputs], bytes(&self.normalizer.mean)),
            (DEVIATION, vec![shape.inputs], bytes(&self.normalizer.deviation)),
        ];
        let mut views = Vec::with_capacity(parts.len());
        for (name, dimensions, data) in &parts {
            views.push((*name, TensorView::new(Dtype::F32, dimensions.clone(), data)?));
        }
        // One entry only: a map of several has no order, and the same model must be the same bytes.
        let about = HashMap::from([("format".to_owned(), "undertone-senone-lstm/1".to_owned())]);
        Ok(safetensors::serialize(views, Some(about))?)
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// [`ModelError`] that names the tensor when the file is not one of these, or holds a number that is not finite.
    pub fn from_safetensors(file: &[u8]) -> Result<Self, ModelError> {
        let file = SafeTensors::deserialize(file)?;
        let (rows, lstm) = read(&file, LSTM)?;
        let (outer, linear) = read(&file, LINEAR)?;
        let ((_, mean), (_, deviation)) = (read(&file, MEAN)?, read(&file, DEVIATION)?);
        let &[width, gates] = rows.as_slice() else { return Err(wrong(LSTM, "is not a matrix")) };
        let &[inner, classes] = outer.as_slice() else { return Err(wrong(LINEAR, "is not a matrix")) };
        let shape = Shape { inputs: mean.len(), hidden: gates / 4, classes };
        if shape.hidden == 0 || gates % 4 != 0 || width != shape.lstm().width() {
            return Err(wrong(LSTM, "does not fit the number of inputs"));
        }
        if inner != shape.hidden + 1 || classes == 0 {
            return Err(wrong(LINEAR, "does not fit the LSTM"));
        }
        if deviation.len() != mean.len() || deviation.iter().any(|deviation| *deviation <= 0.0) {
            return Err(wrong(DEVIATION, "is not one positive number for each input"));
        }
        let parameters = [lstm, linear].concat();
        Ok(Self { shape, normalizer: Normalizer { mean, deviation }, parameters })
    }
}

const fn wrong(name: &'static str, problem: &'static str) -> ModelError {
    ModelError::Tensor { name, problem }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn read(file: &SafeTensors<'_>, name: &'static str) -> Result<(Vec<usize>, Vec<f32>), ModelError> {
    let tensor = file.tensor(name)?;
    if tensor.dtype() != Dtype::F32 {
        return Err(wrong(name, "is not of type F32"));
    }
    let (values, _) = tensor.data().as_chunks::<4>();
    let values: Vec<f32> = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    if values.iter().any(|value| !value.is_finite()) {
        return Err(wrong(name, "holds a number that is not finite"));
    }
    Ok((tensor.shape().to_vec(), values))
}
