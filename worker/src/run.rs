//! The execution of jobs at a site: the second interface of a job kind.
//!
//! A run is ordinary blocking code on a separate thread. The traits of [`exchange`] are its only access to external
//! services. Its only outputs of data are [`Outgoing`](crate::dp::release::Outgoing) vectors,
//! [`OutgoingPool`](crate::queries::gate::OutgoingPool)s of questions and
//! [`SealedSounds`](crate::speech::transcribe::outbound::SealedSounds) batches of sounds, which cannot be made
//! without a [`Clearance`](crate::site::clearance::Clearance). The exchange stores them, pays for them, has the server
//! countersign the payment, and then sends them.
//!
//! To add a kind: `run/<kind>.rs` with `run(spec, exchange)`, which takes the traits that the kind needs, and its line
//! in [`run`].

use std::path::Path;

use undertone_api::job::Spec;

pub mod active_learning;
pub mod analytics;
pub mod dp_sgd;
mod error;
pub mod evaluation;
pub mod exchange;
#[cfg(test)]
pub(crate) mod fake;
pub mod transcription;

pub use error::{RunError, RunProblem, StopReason};
pub use exchange::{
    Artifacts, Averaging, Exchange, MaskedAveraging, Outbound, Questions, RoundAverage, RoundKey, RoundProgress,
    RunContext, TranscriptionSite,
};
pub use undertone_proto::question::AnswerLine;

/// Runs a job of any kind to its end, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub fn run(spec: &Spec, exchange: &mut impl Exchange) -> Result<(), RunError> {
    match spec {
        Spec::DpSgd(spec) => dp_sgd::run(spec, exchange),
        Spec::ActiveLearning(spec) => active_learning::run(spec, exchange),
        Spec::Transcription(spec) => transcription::run(spec, exchange),
        Spec::Evaluation(spec) => evaluation::run(spec, exchange),
        Spec::Analytics(spec) => analytics::run(spec, exchange),
    }
}

/// Removes the data of a finished part from its `folder`, after any outcome: first transcripts and sounds of
/// recordings, and the parts of public data of a rehearsal. They have no further use.
///
/// # Errors
/// [`RunError::Failed`] when the disk refuses.
pub fn forget(folder: &Path) -> Result<(), RunError> {
    transcription::forget(folder)?;
    dp_sgd::forget(folder)
}

/// Ends the run when the exchange is stopped.
fn check_cancelled(exchange: &dyn RunContext) -> Result<(), RunError> {
    if exchange.is_stopped() { Err(RunError::Stopped(StopReason::Requested)) } else { Ok(()) }
}
