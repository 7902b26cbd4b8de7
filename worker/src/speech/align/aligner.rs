//! Forced alignment: when was said what is known to have been said. The work of programs of their own; this is all that is
//! asked of one.
//!
//! Labels decide gradients, so that the labels of a recording must depend on that recording and its transcript alone: an
//! aligner that adapts to what it heard before mixes units, and no job could protect them. A test of every implementation
//! holds it to that. To add one: a file that implements [`Program`] and [`Aligner`], and its name in `data prepare`.

use serde::Deserialize;

use super::Alignment;

/// What an aligner is: everything that its labels depend on besides recording and transcript.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Identity {
    /// Program and version, for people.
    pub program: String,
    /// A digest of program, model and dictionary, hexadecimal: another one makes other labels.
    pub identity: String,
    /// Classes that its labels are of, 1 to 65,536.
    pub classes: usize,
}

/// An aligner that can be started.
pub trait Program: Sync {
    /// Starts one. As many as there are cores run side by side.
    ///
    /// # Errors
    /// [`AlignerError`] with what to do about it.
    fn start(&self) -> Result<Box<dyn Aligner>, AlignerError>;
}

/// A running aligner.
pub trait Aligner: Send {
    /// What it is.
    fn identity(&self) -> &Identity;

    /// One class for every 10 ms of `samples` (mono, 16 kHz, full scale = 1), by the words of `text`. The same samples and
    /// text give the same answer whatever was asked before, and in bounded time.
    ///
    /// # Errors
    /// [`Unaligned`]; unless the aligner is gone, the next utterance may be tried.
    fn align(&mut self, samples: &[f32], text: &str) -> Result<Alignment, Unaligned>;
}

/// Why an utterance has no labels.
#[derive(Debug, thiserror::Error)]
pub enum Unaligned {
    /// Words that the aligner's dictionary lacks.
    #[error("the dictionary lacks {}", .0.join(", "))]
    Words(Vec<String>),
    /// It was not aligned: the transcript does not fit, or the aligner hung or crashed over it.
    #[error("{0}")]
    Failed(String),
    /// The aligner cannot be started any more.
    #[error(transparent)]
    Gone(#[from] AlignerError),
}

/// Why an aligner does not run.
#[derive(Debug, thiserror::Error)]
pub enum AlignerError {
    /// The program is not there.
    #[error("cannot start the aligner {command}: {remedy}")]
    Missing {
        /// The program.
        command: String,
        /// How to get it.
        remedy: &'static str,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// It started and refused.
    #[error("the aligner {command} cannot work: {reason}; {remedy}")]
    Refused {
        /// The program.
        command: String,
        /// Why.
        reason: String,
        /// How to mend it.
        remedy: &'static str,
    },
    /// Started again, it was another one.
    #[error("the aligner {0} changed while it was used: run the command again")]
    Changed(String),
}
