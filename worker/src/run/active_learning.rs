//! `active_learning` at a site: the pool of an asking participant, and the lead's rounds.
//!
//! A participant with a gate draws one sample of its log, pays once for the survivors, and sends them; its part is over
//! then. The first participant leads. It waits for the pools and runs the rounds: learn from the golden set and the
//! labels so far, choose, wait for answers, learn, measure. At the end it reports.
//!
//! Everything after the pools is post-processing: the classifier reads [`Visible`](crate::queries::classifier::Visible)
//! texts, and those are released questions and public data. A private lead trains on rows of its own by DP-SGD alone
//! (`private.rs`); each classifier is a release, and what follows from it is post-processing too. A private test set
//! releases noisy score histograms of the lead's classifiers (`private_test.rs`).
//!
//! A killed lead resumes from its journal: choices stay, and received answers are not awaited again. A killed asking
//! participant sends the stored bytes again, and pays nothing more; so does a private test set.

mod error;
mod journal;
mod lead;
mod learning;
mod log;
mod output;
mod pace;
mod pool;
mod private;
mod private_test;
mod test_sets;
#[cfg(test)]
mod tests;

use undertone_api::job::active_learning::Spec;

use super::{Artifacts, Averaging, Questions, RunError};

pub use self::error::AnnotationError;

/// Runs a job to its end, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub fn run(spec: &Spec, exchange: &mut (impl Questions + Artifacts + Averaging)) -> Result<(), RunError> {
    let own = exchange.participant();
    let dataset = own.dataset;
    if let Some(test) = spec.private_test_on(dataset) {
        return private_test::follow(spec, test, exchange);
    }
    let party = *spec.party(dataset).ok_or_else(|| AnnotationError::NotParticipant(own.dataset_name.clone()))?;
    if let Some(gate) = party.gate {
        pool::send(spec.unit, gate, exchange)?;
    }
    if spec.participants.first().is_some_and(|first| first.dataset == dataset) {
        lead::lead(spec, exchange)?;
    }
    Ok(())
}
