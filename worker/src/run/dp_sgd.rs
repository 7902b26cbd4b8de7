//! `dp_sgd` at a site, from the warm start to the report.
//!
//! All participants follow the same procedure: the lead trains on its public data and shares the result. Then, arm by
//! arm, each starts again from that model and sends one vector a round. All apply the server's average with the same
//! optimizer, so that they hold the same parameters bit for bit. Only the lead measures, on public test sets, and
//! reports.
//!
//! A rehearsal is another procedure: the lead alone runs the planned job on parts of its public data (`rehearse`).
//!
//! A killed site resumes from its last checkpoint: closed rounds are replayed from the server's averages, and a paid
//! vector is sent again, never drawn again. Nothing here may log the members of a batch, a norm, or a loss except of
//! public data.

mod audit;
mod checkpoint;
mod contribution;
mod correlated;
mod data;
mod development;
pub(super) mod error;
mod initial;
mod learner;
mod local;
mod masked;
mod pace;
mod rehearse;
mod series;
mod site;
mod test_sets;
mod trained_model;
mod training;
pub mod tune;
mod turns;
mod warm;

use std::path::Path;

use undertone_api::job::dp_sgd::Spec;

use super::{Artifacts, Averaging, RunError};

pub use self::error::TrainingError;

/// Runs a job to its end, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub fn run(spec: &Spec, exchange: &mut (impl Averaging + Artifacts)) -> Result<(), RunError> {
    match &spec.rehearsal {
        Some(rehearsal) => rehearse::run(spec, rehearsal, exchange),
        None => training::train(spec, exchange),
    }
}

/// Removes what a finished part has no further use for, after any outcome: the seeds of correlated noise, with which the
/// sums of released vectors could be computed, and the data of a rehearsal.
///
/// # Errors
/// [`RunError`] when the disk refuses.
pub(super) fn forget(folder: &Path) -> Result<(), RunError> {
    correlated::forget(folder)?;
    rehearse::forget(folder)
}

#[cfg(test)]
mod tests;
