//! Acoustic models and models of rows as ONNX graphs: [`convert`] turns the safetensors file of a training job into a file that other
//! programs run without this product.
//!
//! The graph has one input, `features` `[batch, frames, inputs]`, and one output, `logits` `[batch, frames, classes]`,
//! both `f32`. All recordings of a batch have the same length, because padding would change the scores of layers that
//! read backwards. The normalization of the features is part of the graph. Operators are those of opset 17.
//!
//! A model of rows reads the inputs of its columns, a row in the place of a frame, and the metadata of its file name the
//! columns ([`COLUMNS_PROPERTY`]). One that reads texts is not converted: a graph would leave the hashes of n-grams to its
//! caller.
//!
//! `weights` reads the file, `graph` arranges the operators, and `wire` writes the protocol buffers. The formats are those
//! of ONNX 1.12 (`onnx.proto3`, IR version 8). `benches/peers/export.py` compares the scores with those of the worker.

mod graph;
mod weights;
mod wire;

#[cfg(test)]
mod tests;

use weights::ModelWeights;

/// The largest file that is converted: 1 GiB. A protocol buffer has at most 2 GiB.
pub const MOST_BYTES: usize = 1 << 30;

/// The entry of a graph's metadata (`metadata_props`) with the columns that it reads and predicts, as JSON of
/// [`RowColumns`](undertone_api::job::dp_sgd::RowColumns).
pub const COLUMNS_PROPERTY: &str = "undertone.columns";

/// The reason why a file is not converted.
#[derive(Debug, thiserror::Error)]
pub enum OnnxError {
    /// The file is too large.
    #[error("the file has {0} bytes, and at most {MOST_BYTES} are converted: export a smaller model")]
    TooLarge(usize),
    /// The file is not in the format.
    #[error("cannot read the model as a safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// The file has no description of its layers, or one that is not valid.
    #[error("cannot convert the model: {0}")]
    Metadata(String),
    /// A tensor is missing or has another form.
    #[error("cannot convert the model: tensor `{name}` {problem}")]
    Tensor {
        /// The tensor.
        name: String,
        /// The defect.
        problem: &'static str,
    },
    /// The model was personalized at a site.
    #[error("the model is personal: it stays at its site as it is, because an export would lose the mark")]
    Personal,
    /// The model reads texts.
    #[error(
        "the model reads texts as hashed n-grams, which no ONNX operator computes: apply it with `undertone-worker predict`"
    )]
    Texts,
}

/// Converts the safetensors file of a `dp_sgd` job into an ONNX file. The same file gives the same bytes.
///
/// # Errors
/// [`OnnxError`] with the defect of the file.
pub fn convert(file: &[u8]) -> Result<Vec<u8>, OnnxError> {
    if file.len() > MOST_BYTES {
        return Err(OnnxError::TooLarge(file.len()));
    }
    Ok(graph::write_model(&ModelWeights::read(file)?))
}

/// Returns the number of inputs and of classes of the model in a safetensors file.
///
/// # Errors
/// As [`convert`].
pub fn read_dimensions(file: &[u8]) -> Result<(usize, usize), OnnxError> {
    let weights = ModelWeights::read(file)?;
    Ok((weights.layers.inputs, weights.layers.classes))
}
