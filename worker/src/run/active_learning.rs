//! `active_learning` at a site: the pool of an asking participant, and the lead's rounds.
//!
//! A participant with a gate draws one sample of its log, pays once for the survivors, and sends them; its part is over
//! then. The first participant leads. It waits for the pools and runs the rounds: learn from the golden set and the
//! labels so far, choose, wait for answers, learn, measure. At the end it reports.
//!
//! Everything after the pools is post-processing: the classifier reads [`Visible`](crate::queries::classifier::Visible)
//! texts, and those are released questions and public data. A killed lead resumes from its journal: choices stay, and
//! received answers are not awaited again. A killed asking participant sends the stored bytes again, and pays nothing
//! more.

mod exam;
mod journal;
mod lead;
mod learning;
mod log;
mod pace;
mod pool;
mod telling;
#[cfg(test)]
mod tests;

use undertone_api::job::active_learning::Spec;

use super::{Exchange, Run, RunError};

fn failed(error: impl std::fmt::Display) -> RunError {
    RunError::Failed(error.to_string())
}

impl Run for Spec {
    fn run(&self, exchange: &mut dyn Exchange) -> Result<(), RunError> {
        let own = exchange.own();
        let (dataset, name) = (own.dataset, own.dataset_name.clone());
        let party = *self
            .party(dataset)
            .ok_or_else(|| failed(format!("`{name}` does not take part in this job; only participants run it")))?;
        if let Some(gate) = party.gate {
            pool::send(self.unit, gate, exchange)?;
        }
        if self.participants.first().is_some_and(|first| first.dataset == dataset) {
            lead::lead(self, exchange)?;
        }
        Ok(())
    }
}

/// Ends the run when the exchange is stopped.
fn go_on(exchange: &dyn Exchange) -> Result<(), RunError> {
    if exchange.stopped() { Err(RunError::Stopped("the worker was asked to stop".to_owned())) } else { Ok(()) }
}
