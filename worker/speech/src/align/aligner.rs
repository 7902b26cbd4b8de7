//! Forced alignment: the times of the words of a known transcript. Separate programs compute it; this module is their
//! interface.
//!
//! Labels determine gradients, so the labels of a recording must depend on that recording and its transcript alone. An
//! aligner that adapts to earlier recordings mixes units, and no job could protect them. Every implementation is tested
//! for this. To add an aligner, add a file that implements [`AlignerProgram`] and [`Aligner`], and its name in `data prepare`.

use serde::Deserialize;

use super::alignment::Alignment;

/// The identity of an aligner: everything that its labels depend on except recording and transcript.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AlignerIdentity {
    /// Program and version, for display.
    pub program: String,
    /// A digest of program, model and dictionary, hexadecimal. Another digest means other labels.
    pub identity: String,
    /// Number of classes of its labels, 1 to 65,536.
    pub classes: usize,
}

/// An aligner that can be started.
pub trait AlignerProgram: Sync {
    /// Starts an aligner. One process per core runs at a time.
    ///
    /// # Errors
    /// [`AlignerError`] with the remedy.
    fn start(&self) -> Result<Box<dyn Aligner>, AlignerError>;
}

/// A running aligner.
pub trait Aligner: Send {
    /// Returns the identity of the aligner.
    fn identity(&self) -> &AlignerIdentity;

    /// Aligns `samples` (mono, 16 kHz, full scale = 1) with the words of `text` and returns one class per 10 ms. The
    /// same samples and text give the same result whatever was aligned before, in bounded time.
    ///
    /// # Errors
    /// [`AlignFailure`]. The next utterance may be tried unless the aligner is gone.
    fn align(&mut self, samples: &[f32], text: &str) -> Result<Alignment, AlignFailure>;
}

/// Reasons why an utterance has no labels.
#[derive(Debug, thiserror::Error)]
pub enum AlignFailure {
    /// The aligner's dictionary lacks words.
    #[error("the dictionary lacks {}", .0.join(", "))]
    Words(Vec<String>),
    /// The alignment failed: the transcript does not match, or the aligner hung or crashed.
    #[error("{0}")]
    Failed(String),
    /// The aligner cannot be restarted.
    #[error(transparent)]
    Gone(#[from] AlignerError),
}

/// Reasons why an aligner does not run.
#[derive(Debug, thiserror::Error)]
pub enum AlignerError {
    /// The program does not exist.
    #[error("cannot start the aligner {command}: {remedy}")]
    Missing {
        /// The program.
        command: String,
        /// How to install it.
        remedy: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The program started and reported an error.
    #[error("the aligner {command} cannot work: {reason}; {remedy}")]
    Refused {
        /// The program.
        command: String,
        /// The reported error.
        reason: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The restarted program has another identity.
    #[error("the aligner {0} changed while it was used: run the command again")]
    Changed(String),
}
