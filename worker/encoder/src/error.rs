//! The reasons why an encoder is refused, or a row is not encoded. Neither states a value of a row.

use std::path::PathBuf;

use crate::graph::MOST_GRAPH_BYTES;

/// The reason why an encoder is refused.
#[derive(Debug, thiserror::Error)]
pub enum EncoderError {
    /// A file cannot be read.
    #[error("cannot read {path}: check {argument}")]
    File {
        /// The argument that names it.
        argument: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The graph is too large.
    #[error("the graph has {0} bytes, and at most {MOST_GRAPH_BYTES} are read: export a smaller graph")]
    TooLarge(u64),
    /// The graph is not in the format.
    #[error("the graph cannot be read as ONNX ({0}): check the file")]
    Format(String),
    /// A tensor of the graph is in another file.
    #[error("tensor `{0}` of the graph is in another file: export the graph with its weights in one file")]
    ExternalData(String),
    /// A node has an operator that is not accepted.
    #[error("node `{node}` of the graph has operator `{operator}`, {reason}")]
    Operator {
        /// The name or the number of the node.
        node: String,
        /// The operator.
        operator: String,
        /// The reason and the remedy.
        reason: &'static str,
    },
    /// The graph reads several rows together.
    #[error(
        "`{name}` of the graph has a fixed batch of {rows} rows: export it with a batch of 1 or a free one, because each row passes alone"
    )]
    Batch {
        /// The input or output.
        name: String,
        /// The rows.
        rows: i64,
    },
    /// The inputs or the output of the graph do not suit the encoding.
    #[error("the graph does not suit the encoding: {0}")]
    Interface(String),
    /// The graph does not score the frames of speech.
    #[error("the graph is no classifier of frames: {0}")]
    Classifier(String),
    /// The graph does not score the rows of tables.
    #[error("the graph is no classifier of rows: {0}")]
    RowClassifier(String),
    /// The graph has too many outputs for a table.
    #[error("the graph has {0} numbers for a row, and a table has room for 1 to {most}: append a projection to the graph", most = crate::MOST_WIDTH)]
    Width(usize),
    /// The graph cannot be run on an example.
    #[error("the graph cannot be run on an example of the input: {0}")]
    Example(String),
    /// The result for a row depends on other rows.
    #[error("the graph gives another result for a row after it has read another row: use a graph without a state")]
    Dependence,
    /// A field of the encoding is out of its range.
    #[error("--encoding: encoder.{field}: {problem}")]
    Specification {
        /// The field.
        field: &'static str,
        /// The valid values.
        problem: String,
    },
    /// The vocabulary cannot be used.
    #[error("the vocabulary cannot be used: {0}")]
    Vocabulary(String),
}

/// The reason why a row is not encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// The input is not of the kind that the encoder reads.
    #[error("the input is of another kind")]
    Kind,
    /// The path leaves the folder of the inputs.
    #[error("the path leaves the folder")]
    Path,
    /// The file is missing, damaged or too large.
    #[error("the file is missing, damaged or too large")]
    File,
    /// The graph cannot be run on the row.
    #[error("the graph refuses the row")]
    Graph,
    /// A number of the output is NaN or infinite.
    #[error("an output is not finite")]
    NotFinite,
}
