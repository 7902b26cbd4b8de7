//! An open encoder: a checked graph, and the reader of its inputs.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::error::{EncoderError, RowError};
use crate::graph::{check_graph, read_file};
use crate::inputs::{InputReader, RowInput};
use crate::model::EncoderModel;
use crate::specification::{EncoderSpec, InputSpec, Pooling};

/// A frozen encoder.
///
/// The numbers of a row depend on the row, the graph and the specification, and not on other rows.
pub struct Encoder {
    model: EncoderModel,
    reader: InputReader,
    digest: String,
    graph_digest: String,
}

/// Prints the digest alone.
impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").field("digest", &self.digest).field("width", &self.width()).finish_non_exhaustive()
    }
}

impl Encoder {
    /// Opens the graph in the file `model`. The files that the specification names are relative to `files`, and the paths
    /// of rows to `folder`.
    ///
    /// # Errors
    /// [`EncoderError`] with the node, tensor, field or file that is refused, and the remedy.
    pub fn open(model: &Path, spec: &EncoderSpec, files: &Path, folder: Option<&Path>) -> Result<Self, EncoderError> {
        spec.check()?;
        let bytes = read_file(model)?;
        let interface = check_graph(&bytes)?;
        let (reader, vocabulary) = InputReader::open(&spec.input, &interface, files, folder)?;
        let graph_digest = hex::encode(Sha256::digest(&bytes));
        let mut model = EncoderModel::load(bytes, &interface, spec.pool)?;
        let [first, second] = reader.create_examples();
        model.try_examples(&first, &second)?;
        let digest = digest_encoder(&graph_digest, spec, &vocabulary);
        Ok(Self { model, reader, digest, graph_digest })
    }

    /// Returns the number of numbers of a row, 1 to [`MOST_WIDTH`](crate::MOST_WIDTH).
    pub const fn width(&self) -> usize {
        self.model.width()
    }

    /// Returns the digest of the graph and of what prepares its inputs: 64 hexadecimal digits. Two encoders with one
    /// digest give the same numbers for the same input, except for the last bits on another processor.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Returns the SHA-256 of the graph's file, hexadecimal.
    pub fn graph_digest(&self) -> &str {
        &self.graph_digest
    }

    /// Returns the numbers of a row.
    ///
    /// # Errors
    /// [`RowError`] if the input cannot be read, the graph cannot be run on it, or a number is not finite.
    pub fn encode(&self, input: &RowInput) -> Result<Vec<f32>, RowError> {
        self.model.encode(&self.reader.read(input)?)
    }
}

/// Returns the SHA-256 of the lines that state the graph, the pooling, and the input without the names of its columns.
fn digest_encoder(graph: &str, spec: &EncoderSpec, vocabulary: &[u8]) -> String {
    let pool = match spec.pool {
        None => "none",
        Some(Pooling::Mean) => "mean",
    };
    let input = match &spec.input {
        InputSpec::Numbers { columns } => format!("numbers {}", columns.len()),
        InputSpec::Text { lower_case, tokens, .. } => {
            let vocabulary = hex::encode(Sha256::digest(vocabulary));
            format!("text wordpiece {vocabulary} lower_case {lower_case} tokens {tokens}")
        }
        InputSpec::Audio { rate, seconds, .. } => format!("audio rate {rate} seconds {seconds:?}"),
        InputSpec::Image { width, height, mean, deviation, .. } => {
            format!("image width {width} height {height} mean {mean:?} deviation {deviation:?}")
        }
    };
    hex::encode(Sha256::digest(format!("graph {graph}\npool {pool}\ninput {input}\n")))
}
