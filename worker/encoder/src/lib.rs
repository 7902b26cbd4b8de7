//! ONNX graphs at the site: frozen encoders, which turn each row of a source into a few numbers, and classifiers of the frames
//! of speech or of the rows of tables, which an evaluation measures.
//!
//! The graph is fixed before it sees a row, and it reads one row at a time with a batch of 1. The numbers of a row
//! therefore depend on that row and on public facts alone, and the sensitivity of a training on them is that of a training
//! on the rows. [`Encoder::open`] refuses graphs for which this does not hold: see [`operators`] for the operators, and
//! [`error::EncoderError`] for the reasons.
//!
//! `graph` reads and checks the file, `inputs` prepares rows of each [`specification::InputSpec`], and `model` runs the
//! graph with `rten`. To add an input: a variant of [`specification::InputSpec`], and its line in `inputs`.

mod classifier;
mod encoder;
pub mod error;
mod folder;
mod graph;
mod inputs;
mod model;
pub mod operators;
pub mod picture;
mod row_classifier;
mod scoring;
mod sound;
pub mod specification;
pub mod tokens;

pub use classifier::FrameClassifier;
pub use encoder::Encoder;
pub use graph::MOST_GRAPH_BYTES;
pub use inputs::RowInput;
pub use model::MOST_WIDTH;
pub use row_classifier::RowClassifier;
pub use scoring::ScoringGraph;

#[cfg(any(test, feature = "testing"))]
pub mod fixtures;
#[cfg(test)]
mod tests;
