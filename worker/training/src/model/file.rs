//! The model as a safetensors file: named tensors that other programs can read, without code.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};
use undertone_api::model::{PERSONAL_FORMAT, PersonalMarkScan};

use super::{Model, ModelShape, ModelUsage, Normalizer};

/// Reasons why bytes are not a model.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The bytes are not in the format.
    #[error("cannot read the model as a safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// The file is in the format, but has other tensors.
    #[error("cannot use the model file: tensor `{name}` {problem}")]
    Tensor {
        /// The tensor.
        name: String,
        /// The defect.
        problem: &'static str,
    },
    /// The file was personalized at a site with its data.
    #[error(
        "the model is personal: it was fine-tuned on a site's own data without noise, so no job and no other site may \
         have it"
    )]
    Personal,
    /// The file is in the format, but has invalid dimensions.
    #[error("cannot use the model file: {0}")]
    ModelMetadata(String),
}

const MEAN: &str = "normalizer.mean";
const DEVIATION: &str = "normalizer.deviation";
/// The only metadata entry. A map of several entries has no order, and the same model must give the same bytes.
const ABOUT: &str = "model";
/// The format name in the entry.
const FORMAT: &str = "undertone-senone/2";
/// Maximum coefficients per frame.
const MOST_INPUTS: usize = 1 << 16;

/// The metadata as JSON: the format, every dimension, and the settings of use that the model records.
#[derive(Serialize, Deserialize)]
struct ModelMetadata {
    format: String,
    #[serde(flatten)]
    shape: ModelShape,
    #[serde(flatten)]
    usage: ModelUsage,
}

impl ModelMetadata {
    /// Returns the dimensions, if each is within the limits of a job, so that no computation overflows.
    fn shape(&self) -> Result<ModelShape, ModelError> {
        let Self { format, shape, usage: _ } = self;
        let is_linear = shape.dense && shape.layers == 0 && shape.hidden == 0 && !shape.normalize;
        let has_layers = (1..=2048).contains(&shape.hidden) && (1..=4).contains(&shape.layers);
        let within = (format == FORMAT || format == PERSONAL_FORMAT)
            && (1..=MOST_INPUTS).contains(&shape.inputs)
            && (1..=65_536).contains(&shape.classes)
            && (has_layers || is_linear)
            && !(shape.dense && (shape.bidirectional || shape.context.is_some()))
            && shape.text.is_none_or(|text| shape.dense && text.is_within_limits(shape.inputs))
            && shape.context.is_none_or(|frames| frames % 2 == 1 && (3..=31).contains(&frames));
        if within {
            Ok(*shape)
        } else {
            Err(ModelError::ModelMetadata("its metadata say no dimensions of a model".to_owned()))
        }
    }
}

impl Model {
    /// Returns the model as a file of [`Model::to_safetensors`] with the format [`PERSONAL_FORMAT`], which marks it as
    /// personal.
    ///
    /// # Errors
    /// As [`Model::to_safetensors`].
    pub fn to_personal_file(&self) -> Result<Vec<u8>, ModelError> {
        self.write(PERSONAL_FORMAT)
    }

    /// Returns the model as a safetensors file: a matrix for each of [`ModelShape::matrices`] (biases as rows, see the table
    /// of the module), `normalizer.mean` and `normalizer.deviation`, all little-endian `f32`. The metadata entry
    /// `model` contains all dimensions and the settings of use as JSON. The same model gives the same bytes.
    ///
    /// # Errors
    /// [`ModelError::Format`] if the tensors cannot be serialized; this does not happen for a valid model.
    pub fn to_safetensors(&self) -> Result<Vec<u8>, ModelError> {
        self.write(FORMAT)
    }

    fn write(&self, format: &str) -> Result<Vec<u8>, ModelError> {
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
        let about = ModelMetadata { format: format.to_owned(), shape: self.shape, usage: self.usage.clone() };
        let about = serde_json::to_string(&about).map_err(|error| ModelError::ModelMetadata(error.to_string()))?;
        Ok(safetensors::serialize(views, Some(HashMap::from([(ABOUT.to_owned(), about)])))?)
    }

    /// Reads such a file, or one of the first format without dimensions in the metadata, with `lstm.weight` and
    /// `linear.weight`.
    ///
    /// # Errors
    /// [`ModelError`] that names the tensor if the file is in neither format, or contains a number that is not finite;
    /// [`ModelError::Personal`] for a personal model, which no job may read.
    pub fn from_safetensors(file: &[u8]) -> Result<Self, ModelError> {
        let model = Self::from_site_file(file)?;
        if PersonalMarkScan::default().add(file) { Err(ModelError::Personal) } else { Ok(model) }
    }

    /// Reads a file of [`Model::from_safetensors`] or a personal one, for use at this site alone.
    ///
    /// # Errors
    /// [`ModelError`] that names the tensor if the file is in no known format, or contains a number that is not finite.
    pub fn from_site_file(file: &[u8]) -> Result<Self, ModelError> {
        let (_, header) = SafeTensors::read_metadata(file)?;
        let tensors = SafeTensors::deserialize(file)?;
        let (_, mean) = read(&tensors, MEAN)?;
        let (_, deviation) = read(&tensors, DEVIATION)?;
        let about = header.metadata().as_ref().and_then(|about| about.get(ABOUT));
        let (shape, names, usage) = if let Some(about) = about {
            let about: ModelMetadata = serde_json::from_str(about)
                .map_err(|error| ModelError::ModelMetadata(format!("its metadata: {error}")))?;
            let shape = about.shape()?;
            let names: Vec<String> = shape.matrices().into_iter().map(|(_, name, _)| name).collect();
            (shape, names, about.usage)
        } else {
            let names = vec!["lstm.weight".to_owned(), "linear.weight".to_owned()];
            (first_format(&tensors, mean.len())?, names, ModelUsage::default())
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
        Ok(Self { shape, normalizer: Normalizer { mean, deviation }, parameters, usage })
    }
}

/// Returns the dimensions of a file of the first format, from its tensors.
fn first_format(tensors: &SafeTensors<'_>, inputs: usize) -> Result<ModelShape, ModelError> {
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
    Ok(ModelShape::plain(inputs, gates / 4, classes))
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
    use undertone_api::job::dp_sgd::{AcousticModel as Proposed, RecurrentCell, TrainingLoss};

    use super::{ABOUT, bytes};
    use crate::model::{FeatureSettings, Model, ModelError, ModelShape, ModelUsage, Normalizer};

    fn model(shape: ModelShape) -> Model {
        let normalizer = Normalizer { mean: vec![0.5; shape.inputs], deviation: vec![1.5; shape.inputs] };
        Model::initialize(shape, normalizer, 11)
    }

    fn rich() -> ModelShape {
        let proposed = Proposed {
            cell: RecurrentCell::Gru,
            layers: 2,
            bidirectional: true,
            context: Some(5),
            normalize: true,
            ..Proposed::lstm(4, Some(9))
        };
        ModelShape::from_spec(&proposed, 3, 9)
    }

    #[test]
    fn model_file_round_trip_keeps_bytes() {
        for shape in [ModelShape::plain(13, 9, 21), rich()] {
            let model = model(shape);
            let file = model.to_safetensors().unwrap();
            assert_eq!(Model::from_safetensors(&file).unwrap(), model);
            assert_eq!(model.to_safetensors().unwrap(), file);
        }
    }

    #[test]
    fn model_file_keeps_the_settings_of_its_use() {
        let features = FeatureSettings { sample_rate: 16_000, subtracts_mean: Some(false), text: "MFCC".to_owned() };
        let usage = ModelUsage {
            loss: Some(TrainingLoss::Ctc),
            features: Some(features),
            labels: Some("ä".repeat(400)),
            rows: None,
        };
        let mut model = model(rich());
        assert_eq!(model.usage(), &ModelUsage::default());
        model.set_usage(usage.clone());
        let file = model.to_safetensors().unwrap();
        assert_eq!(Model::from_safetensors(&file).unwrap().usage(), &usage);
        assert_eq!(Model::from_site_file(&model.to_personal_file().unwrap()).unwrap(), model);
        assert_eq!(ModelUsage::shorten(&"xä".repeat(400)).len(), 499, "at the end of a character");
        let older = ModelUsage { labels: Some("own".to_owned()), ..ModelUsage::default() };
        assert_eq!(older.or(usage).labels.as_deref(), Some("own"));
    }

    #[test]
    fn personal_file_is_read_at_its_site_only() {
        let model = model(rich());
        let file = model.to_personal_file().unwrap();
        assert_eq!(Model::from_site_file(&file).unwrap(), model);
        assert!(matches!(Model::from_safetensors(&file), Err(ModelError::Personal)));
        assert_eq!(Model::from_site_file(&model.to_safetensors().unwrap()).unwrap(), model);
    }

    #[test]
    fn model_file_names_matrices_and_dimensions() {
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
        let model = model(ModelShape::plain(3, 2, 5));
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
    fn model_file_with_invalid_dimensions_is_refused() {
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
