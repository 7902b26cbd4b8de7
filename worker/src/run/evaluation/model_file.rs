//! Model files: safetensors files of the product's own jobs, named by their digest.

use std::fs;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use sha2::{Digest as _, Sha256};

use super::error::EvaluationError;
use crate::speech::dataset::Dataset;
use crate::speech::model::{Model, ModelError};

/// The names with which tensors of a batch normalization end.
const BATCH_STATISTICS: [&str; 3] = ["running_mean", "running_var", "num_batches_tracked"];
/// The names of the features' normalization, which is part of every model.
const NORMALIZER: [&str; 2] = ["normalizer.mean", "normalizer.deviation"];

/// Returns the SHA-256 of a file's content, hex.
pub fn digest_file(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Reads a model of speech or of rows, and checks that its scores are those of its architecture.
///
/// # Errors
/// [`EvaluationError`] with the tensor or the defect; a personal model is refused, because jobs send models.
pub fn read_any_model(content: &[u8]) -> Result<Model, EvaluationError> {
    read_with(content, Model::from_safetensors)
}

/// Reads a model of speech as [`read_any_model`] does.
///
/// # Errors
/// [`EvaluationError`] with the tensor or the defect; a model of rows is refused.
pub fn read_model(content: &[u8]) -> Result<Model, EvaluationError> {
    read_any_model(content).and_then(require_speech)
}

/// Reads a model of speech as [`read_model`] does, or a personal one, for use at this site alone.
///
/// # Errors
/// [`EvaluationError`] with the tensor or the defect; a model of rows is refused.
pub fn read_site_model(content: &[u8]) -> Result<Model, EvaluationError> {
    read_with(content, Model::from_site_file).and_then(require_speech)
}

fn require_speech(model: Model) -> Result<Model, EvaluationError> {
    if model.shape().dense { Err(EvaluationError::RowModel) } else { Ok(model) }
}

fn read_with(content: &[u8], read: fn(&[u8]) -> Result<Model, ModelError>) -> Result<Model, EvaluationError> {
    if is_graph(content) {
        return Err(EvaluationError::Graph);
    }
    if let Ok(tensors) = SafeTensors::deserialize(content) {
        let names: Vec<String> = tensors.names().into_iter().map(ToString::to_string).collect();
        if let Some(name) = names.iter().find(|name| BATCH_STATISTICS.iter().any(|end| name.ends_with(end))) {
            return Err(EvaluationError::BatchDependence(name.clone()));
        }
        let model = read(content)?;
        check_tensors(&names, &model)?;
        return Ok(model);
    }
    // The reader of models describes the defect.
    Ok(read(content)?)
}

/// Returns whether a file begins as an ONNX graph: the field of its version, then another field of its description. The
/// third byte of a safetensors file is not among these unless its header has more than a megabyte.
pub(super) fn is_graph(content: &[u8]) -> bool {
    matches!(content, [0x08, 1..=32, 0x12 | 0x1a | 0x22 | 0x28 | 0x32 | 0x3a | 0x42, ..])
}

/// Checks that each tensor of a file belongs to a layer.
fn check_tensors(names: &[String], model: &Model) -> Result<(), EvaluationError> {
    let matrices = model.shape().matrices();
    let is_known = |name: &String| {
        let own = matrices.iter().any(|(_, known, _)| known == name);
        own || NORMALIZER.contains(&name.as_str()) || matches!(name.as_str(), "lstm.weight" | "linear.weight")
    };
    match names.iter().find(|name| !is_known(name)) {
        Some(name) => Err(EvaluationError::UnknownOperator(name.clone())),
        None => Ok(()),
    }
}

/// Reads the file in `folder` that has a digest.
///
/// # Errors
/// [`EvaluationError::UnknownDigest`] when there is none.
pub(in crate::run) fn find_model(folder: &Path, digest: &str) -> Result<Vec<u8>, EvaluationError> {
    let unknown = || EvaluationError::UnknownDigest { folder: folder.to_owned(), digest: digest.to_owned() };
    find_file(folder, digest).map(|(_, content)| content).ok_or_else(unknown)
}

/// Returns the path of the file in `folder` that has a digest, if there is one.
pub fn locate_model(folder: &Path, digest: &str) -> Option<PathBuf> {
    find_file(folder, digest).map(|(path, _)| path)
}

/// Returns the first file by name in `folder` that has a digest, with its content.
fn find_file(folder: &Path, digest: &str) -> Option<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    let read = |path: PathBuf| fs::read(&path).ok().map(|content| (path, content));
    files.into_iter().filter_map(read).find(|(_, content)| digest_file(content) == digest)
}

/// Checks that a model fits a dataset.
///
/// # Errors
/// [`EvaluationError::Inputs`] or [`EvaluationError::Classes`] with both numbers.
pub fn check_dataset(model: &Model, dataset: &Dataset) -> Result<(), EvaluationError> {
    check_dimensions(dataset, model.shape().inputs, model.shape().classes)
}

/// Checks that a dataset has the coefficients of a model, and no more classes.
pub(super) fn check_dimensions(dataset: &Dataset, inputs: usize, classes: usize) -> Result<(), EvaluationError> {
    let meta = dataset.meta();
    let name = || meta.name.clone();
    if meta.inputs != inputs {
        return Err(EvaluationError::Inputs { dataset: name(), coefficients: meta.inputs, inputs });
    }
    if meta.classes > classes {
        return Err(EvaluationError::Classes { dataset: name(), labels: meta.classes, classes });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use std::collections::HashMap;

    use safetensors::tensor::{Dtype, SafeTensors, TensorView};

    use super::{digest_file, find_model, read_model};
    use crate::speech::model::{Model, ModelShape, Normalizer};

    fn model_file() -> Vec<u8> {
        let normalizer = Normalizer { mean: vec![0.0; 3], deviation: vec![1.0; 3] };
        Model::initialize(ModelShape::plain(3, 2, 4), normalizer, 1).to_safetensors().unwrap()
    }

    /// Returns the file with one more tensor.
    fn file_with(name: &str) -> Vec<u8> {
        let file = model_file();
        let (_, header) = SafeTensors::read_metadata(&file).unwrap();
        let about: HashMap<String, String> = header.metadata().clone().unwrap().into_iter().collect();
        let tensors = SafeTensors::deserialize(&file).unwrap();
        let zeros = [0_u8; 8];
        let mut views = tensors.tensors();
        views.push((name.to_owned(), TensorView::new(Dtype::F32, vec![2], &zeros).unwrap()));
        safetensors::serialize(views, Some(about)).unwrap()
    }

    #[test]
    fn own_model_is_read() {
        assert_eq!(read_model(&model_file()).unwrap().shape().classes, 4);
    }

    #[test]
    fn unusable_file_has_a_specific_error() {
        let error = |content: &[u8]| read_model(content).map(|_| ()).unwrap_err().to_string();
        assert!(error(b"\x08\x07\x12\x07pytorch").contains("ONNX"));
        assert!(error(b"not a model").contains("safetensors"));
        assert!(error(&file_with("bn1.running_mean")).contains("batch normalization"));
        assert!(error(&file_with("attention.weight")).contains("`attention.weight`"));
    }

    #[test]
    fn model_is_found_by_its_digest_only() {
        let folder = tempfile::tempdir().unwrap();
        let file = model_file();
        std::fs::write(folder.path().join("any-name"), &file).unwrap();
        std::fs::write(folder.path().join("other"), b"other").unwrap();
        assert_eq!(find_model(folder.path(), &digest_file(&file)).unwrap(), file);
        let unknown = find_model(folder.path(), &digest_file(b"unknown")).unwrap_err().to_string();
        assert!(unknown.contains(&digest_file(b"unknown")), "{unknown}");
    }
}
