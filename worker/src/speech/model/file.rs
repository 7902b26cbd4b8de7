//! The model as a safetensors file: named tensors that any other program can read, no code.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

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
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The format, but no dimensions that a model of ours has.
    #[error("the model file is not one of this product: {0}")]
    About(String),
}

const MEAN: &str = "normalizer.mean";
const DEVIATION: &str = "normalizer.deviation";
/// The one entry of the metadata: a map of several has no order, and the same model must be the same bytes.
const ABOUT: &str = "model";
/// What the entry begins with.
const FORMAT: &str = "undertone-senone/2";
/// Most coefficients of a frame.
const MOST_INPUTS: usize = 1 << 16;

/// What the metadata say, as JSON: the format, every dimension.
#[derive(Serialize, Deserialize)]
struct About {
    format: String,
    #[serde(flatten)]
    shape: Shape,
}

impl About {
    /// The dimensions, if there can be such a model: each within what a job may ask for, so that nothing overflows.
    fn shape(&self) -> Result<Shape, ModelError> {
        let Self { format, shape } = self;
        let within = format == FORMAT
            && (1..=MOST_INPUTS).contains(&shape.inputs)
            && (1..=2048).contains(&shape.hidden)
            && (1..=65_536).contains(&shape.classes)
            && (1..=4).contains(&shape.layers)
            && shape.context.is_none_or(|frames| frames % 2 == 1 && (3..=31).contains(&frames));
        if within { Ok(*shape) } else { Err(ModelError::About("its metadata say no dimensions of a model".to_owned())) }
    }
}

impl Model {
    /// The model as a safetensors file: a matrix for each of [`Shape::matrices`] (biases as rows, see the module's table),
    /// `normalizer.mean` and `normalizer.deviation`, all little-endian `f32`; in the metadata, under `model`, all dimensions as
    /// JSON. The same model is the same bytes.
    ///
    /// # Errors
    /// [`ModelError::Format`] when it cannot be written; not for a model that exists.
    pub fn to_safetensors(&self) -> Result<Vec<u8>, ModelError> {
        let mut parts = Vec::new();
        let mut rest = self.parameters.as_slice();
        for (_, name, [rows, columns]) in self.shape.matrices() {
            let (own, after) = rest.split_at(rows * columns);
            parts.push((name, vec![rows, columns], bytes(own)));
            rest = after;
        }
        let Normalizer { mean, deviation } = &self.normalizer;
        parts.push((MEAN.to_owned(), vec![mean.len()], bytes(mean)));
        parts.push((DEVIATION.to_owned(), vec![deviation.len()], bytes(deviation)));
        let mut views = Vec::with_capacity(parts.len());
        for (name, dimensions, data) in &parts {
            views.push((name.as_str(), TensorView::new(Dtype::F32, dimensions.clone(), data)?));
        }
        let about = About { format: FORMAT.to_owned(), shape: self.shape };
        let about = serde_json::to_string(&about).map_err(|error| ModelError::About(error.to_string()))?;
        Ok(safetensors::serialize(views, Some(HashMap::from([(ABOUT.to_owned(), about)])))?)
    }

    /// Reads such a file, or one of before there were dimensions in the metadata: `lstm.weight` and `linear.weight`.
    ///
    /// # Errors
    /// [`ModelError`] that names the tensor when the file is not one of these, or holds a number that is not finite.
    pub fn from_safetensors(file: &[u8]) -> Result<Self, ModelError> {
        let (_, header) = SafeTensors::read_metadata(file)?;
        let tensors = SafeTensors::deserialize(file)?;
        let (_, mean) = read(&tensors, MEAN)?;
        let (_, deviation) = read(&tensors, DEVIATION)?;
        let (shape, names) = match header.metadata().as_ref().and_then(|about| about.get(ABOUT)) {
            Some(about) => {
                let about: About =
                    serde_json::from_str(about).map_err(|error| ModelError::About(format!("its metadata: {error}")))?;
                let shape = about.shape()?;
                (shape, shape.matrices().into_iter().map(|(_, name, _)| name).collect())
            }
            None => (first_format(&tensors, mean.len())?, vec!["lstm.weight".to_owned(), "linear.weight".to_owned()]),
        };
        if mean.len() != shape.inputs {
            return Err(wrong(MEAN, "is not one number for each input"));
        }
        if deviation.len() != mean.len() || deviation.iter().any(|deviation| *deviation <= 0.0) {
            return Err(wrong(DEVIATION, "is not one positive number for each input"));
        }
        let mut parameters = Vec::with_capacity(shape.parameters());
        for (name, (_, _, expected)) in names.iter().zip(shape.matrices()) {
            let (dimensions, values) = read(&tensors, name)?;
            if dimensions != expected {
                return Err(wrong(name, "has not the dimensions that the model has"));
            }
            parameters.extend(values);
        }
        Ok(Self { shape, normalizer: Normalizer { mean, deviation }, parameters })
    }
}

/// The dimensions of a file of the first format, told by its tensors.
fn first_format(tensors: &SafeTensors<'_>, inputs: usize) -> Result<Shape, ModelError> {
    let matrix = |name: &str| match *tensors.tensor(name)?.shape() {
        [rows, columns] => Ok([rows, columns]),
        _ => Err(wrong(name, "is not a matrix")),
    };
    let [_, gates] = matrix("lstm.weight")?;
    let [_, classes] = matrix("linear.weight")?;
    if gates == 0 || gates % 4 != 0 {
        return Err(wrong("lstm.weight", "has not four columns for each hidden unit"));
    }
    if classes == 0 {
        return Err(wrong("linear.weight", "has no classes"));
    }
    Ok(Shape::plain(inputs, gates / 4, classes))
}

fn wrong(name: &str, problem: &'static str) -> ModelError {
    ModelError::Tensor { name: name.to_owned(), problem }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn read(file: &SafeTensors<'_>, name: &str) -> Result<(Vec<usize>, Vec<f32>), ModelError> {
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::HashMap;

    use safetensors::tensor::{Dtype, SafeTensors, TensorView};
    use undertone_api::job::dp_sgd::{Cell, Model as Proposed};

    use super::{ABOUT, bytes};
    use crate::speech::model::{Model, Normalizer, Shape};

    fn model(shape: Shape) -> Model {
        let normalizer = Normalizer { mean: vec![0.5; shape.inputs], deviation: vec![1.5; shape.inputs] };
        Model::initialize(shape, normalizer, 11)
    }

    fn rich() -> Shape {
        let proposed = Proposed {
            cell: Cell::Gru,
            layers: 2,
            bidirectional: true,
            context: Some(5),
            normalize: true,
            ..Proposed::lstm(4, Some(9))
        };
        Shape::of(&proposed, 3, 9)
    }

    #[test]
    fn every_kind_of_model_survives_its_file_and_is_the_same_bytes_each_time() {
        for shape in [Shape::plain(13, 9, 21), rich()] {
            let model = model(shape);
            let file = model.to_safetensors().unwrap();
            assert_eq!(Model::from_safetensors(&file).unwrap(), model);
            assert_eq!(model.to_safetensors().unwrap(), file);
        }
    }

    #[test]
    fn other_programs_find_matrices_by_name_and_dimensions_in_the_metadata() {
        let file = model(rich()).to_safetensors().unwrap();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        assert_eq!(tensors.tensor("layer2.backward.weight").unwrap().shape(), [8 + 1 + 4, 12]);
        let (_, header) = SafeTensors::read_metadata(&file).unwrap();
        let about: serde_json::Value = serde_json::from_str(&header.metadata().as_ref().unwrap()[ABOUT]).unwrap();
        assert_eq!(
            about,
            serde_json::json!({
                "format": "undertone-senone/2", "inputs": 3, "hidden": 4, "classes": 9, "cell": "gru", "layers": 2,
                "bidirectional": true, "context": 5, "normalize": true,
            })
        );
    }

    #[test]
    fn a_file_of_the_first_format_is_read() {
        let model = model(Shape::plain(3, 2, 5));
        let (lstm, linear) = model.parameters().split_at(model.shape().recurrent().end);
        let parts = [
            ("lstm.weight", vec![6, 8], bytes(lstm)),
            ("linear.weight", vec![3, 5], bytes(linear)),
            ("normalizer.mean", vec![3], bytes(&model.normalizer().mean)),
            ("normalizer.deviation", vec![3], bytes(&model.normalizer().deviation)),
        ];
        let write = |parts: &[(&str, Vec<usize>, Vec<u8>)]| {
            let views = parts
                .iter()
                .map(|(name, shape, data)| (*name, TensorView::new(Dtype::F32, shape.clone(), data).unwrap()));
            let about = HashMap::from([("format".to_owned(), "undertone-senone-lstm/1".to_owned())]);
            safetensors::serialize(views, Some(about)).unwrap()
        };
        assert_eq!(Model::from_safetensors(&write(&parts)).unwrap(), model);
        let mut other = parts;
        other[1].1 = vec![5, 3];
        let error = Model::from_safetensors(&write(&other)).unwrap_err().to_string();
        assert!(error.contains("linear.weight"), "{error}");
    }

    #[test]
    fn dimensions_that_no_model_has_are_refused_before_anything_is_counted() {
        let file = model(rich()).to_safetensors().unwrap();
        let text = String::from_utf8_lossy(&file).into_owned();
        for (from, to) in [("\\\"layers\\\":2", "\\\"layers\\\":9"), ("\\\"context\\\":5", "\\\"context\\\":4")] {
            assert!(text.contains(from), "{text}");
            let at = file.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            let mut other = file.clone();
            other[at..at + from.len()].copy_from_slice(to.as_bytes());
            let error = Model::from_safetensors(&other).unwrap_err().to_string();
            assert!(error.contains("dimensions"), "{error}");
        }
    }
}
