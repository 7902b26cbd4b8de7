//! The classifier as a safetensors file: named tensors that any other program can read, and no code.

use std::collections::HashMap;

use safetensors::tensor::{Dtype, SafeTensors, TensorView};
use serde::{Deserialize, Serialize};

use super::{Classifier, ClassifierError, NetworkWeights, Settings, shape};

/// Why a file is not a classifier.
#[derive(Debug, thiserror::Error)]
pub enum ClassifierFileError {
    /// The file has another format.
    #[error("the classifier is not a readable safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// The file has the format, but not the tensors of a classifier.
    #[error("the file is not a classifier of this product: tensor `{name}` {problem}")]
    Tensor {
        /// The name of the tensor.
        name: &'static str,
        /// The fault of the tensor.
        problem: &'static str,
    },
    /// The file has the format, and is no classifier.
    #[error("the file is not a classifier of this product: its metadata have no `classifier`")]
    NoClassifier,
    /// The file has the format, but unusable metadata.
    #[error("the file is not a classifier of this product: {0}")]
    About(String),
    /// The metadata hold settings that no classifier has.
    #[error("the file's metadata: {0}")]
    Settings(#[from] ClassifierError),
}

/// The tensors, in the order of the weights.
const TENSORS: [&str; 3] = ["embedding.weight", "hidden.weight", "output.weight"];
/// The key of the single metadata entry. A map of several entries has no order, and the same classifier must give the
/// same bytes.
const ABOUT: &str = "classifier";
/// The format's name and version in the metadata.
const FORMAT: &str = "undertone-queries/1";

/// The metadata, as JSON.
#[derive(Serialize, Deserialize)]
struct FileMetadata {
    format: String,
    #[serde(flatten)]
    settings: Settings,
    labels: Vec<String>,
    seed: u64,
}

impl Classifier {
    /// Writes the classifier as a safetensors file: `embedding.weight` `[buckets, embedding]`, `hidden.weight`
    /// `[embedding + 1, hidden]` (of an LSTM `[embedding + 1 + hidden, 4 · hidden]`, gates input, forget, candidate,
    /// output), `output.weight` `[hidden + 1, labels]` (one column for two labels); the row after the inputs is the
    /// bias. All values are little-endian `f32`. The metadata entry `classifier` holds settings, labels and seed as
    /// JSON. The same classifier gives the same bytes.
    ///
    /// # Errors
    /// [`ClassifierFileError::Format`] when the file cannot be written; this does not occur for a valid classifier.
    pub fn to_safetensors(&self) -> Result<Vec<u8>, ClassifierFileError> {
        let Self { settings, labels, seed, weights, .. } = self;
        let (layer, output) = weights.dense.split_at(self.shape.split());
        let parts = [bytes(&weights.table), bytes(layer), bytes(output)];
        let mut views = Vec::with_capacity(parts.len());
        for ((name, dimensions), data) in TENSORS.iter().zip(self.dimensions()).zip(&parts) {
            views.push((*name, TensorView::new(Dtype::F32, dimensions.to_vec(), data)?));
        }
        let about =
            FileMetadata { format: FORMAT.to_owned(), settings: *settings, labels: labels.clone(), seed: *seed };
        let about = serde_json::to_string(&about).map_err(|error| ClassifierFileError::About(error.to_string()))?;
        Ok(safetensors::serialize(views, Some(HashMap::from([(ABOUT.to_owned(), about)])))?)
    }

    /// Reads a file that [`Self::to_safetensors`] wrote.
    ///
    /// # Errors
    /// [`ClassifierFileError`] naming the fault when the file is not a classifier, or holds a number that is not
    /// finite.
    pub fn from_safetensors(file: &[u8]) -> Result<Self, ClassifierFileError> {
        let (_, header) = SafeTensors::read_metadata(file)?;
        let about = header.metadata().as_ref().and_then(|about| about.get(ABOUT));
        let about = about.ok_or(ClassifierFileError::NoClassifier)?;
        let FileMetadata { format, settings, labels, seed } = serde_json::from_str(about)
            .map_err(|error| ClassifierFileError::About(format!("its metadata: {error}")))?;
        if format != FORMAT {
            return Err(ClassifierFileError::About(format!("its format is `{format}`, not `{FORMAT}`")));
        }
        let shape = shape(&settings, labels.len())?;
        let weights = NetworkWeights { table: Vec::new(), dense: Vec::new() };
        let mut classifier = Self { settings, shape, labels, seed, weights };
        let tensors = SafeTensors::deserialize(file)?;
        let mut read = TENSORS.into_iter().zip(classifier.dimensions()).map(|(name, [rows, columns])| {
            let tensor = tensors.tensor(name)?;
            let wrong = |problem| ClassifierFileError::Tensor { name, problem };
            if tensor.dtype() != Dtype::F32 {
                return Err(wrong("is not of 32-bit numbers"));
            }
            if tensor.shape() != [rows, columns] {
                return Err(wrong("has other dimensions than the metadata"));
            }
            let values: Vec<f32> =
                tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
            if values.iter().all(|value| value.is_finite()) {
                Ok(values)
            } else {
                Err(wrong("has a number that is not finite"))
            }
        });
        let mut next = || read.next().unwrap_or_else(|| Ok(Vec::new()));
        let table = next()?;
        let mut dense = next()?;
        let output = next()?;
        dense.extend(output);
        classifier.weights = NetworkWeights { table, dense };
        Ok(classifier)
    }

    fn dimensions(&self) -> [[usize; 2]; 3] {
        let [layer, output] = self.shape.matrices();
        [[self.shape.buckets, self.shape.embedding], layer, output]
    }
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

    use undertone_api::job::active_learning::Encoder;

    use super::super::tests::{classifier, texts};
    use super::Classifier;

    #[test]
    fn classifier_file_round_trips_exactly() {
        for (encoder, labels) in [(Encoder::Bag, 3), (Encoder::Lstm, 3), (Encoder::Bag, 2)] {
            let classifier = classifier(encoder, labels, 5);
            let file = classifier.to_safetensors().unwrap();
            let read = Classifier::from_safetensors(&file).unwrap();
            assert_eq!(read, classifier);
            assert_eq!(read.posteriors(&texts()), classifier.posteriors(&texts()));
            assert_eq!(read.to_safetensors().unwrap(), file, "the same classifier is the same bytes");
        }
    }

    #[test]
    fn invalid_classifier_file_names_its_fault() {
        let file = classifier(Encoder::Bag, 3, 5).to_safetensors().unwrap();
        let changed = |from: &str, to: &str| {
            assert_eq!(from.len(), to.len());
            let at = file.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            let mut other = file.clone();
            other[at..at + from.len()].copy_from_slice(to.as_bytes());
            Classifier::from_safetensors(&other).unwrap_err().to_string()
        };
        assert!(changed("undertone-queries/1", "undertone-queries/2").contains("undertone-queries/2"));
        assert!(changed("\\\"hidden\\\":12", "\\\"hidden\\\":13").contains("dimensions"));
        assert!(changed("output.weight", "outpux.weight").contains("output.weight"));
        assert!(Classifier::from_safetensors(&file[..file.len() - 4]).is_err());
        let mut other = file.clone();
        let end = other.len();
        other[end - 4..].copy_from_slice(&f32::NAN.to_le_bytes());
        assert!(Classifier::from_safetensors(&other).unwrap_err().to_string().contains("not finite"));
    }
}
