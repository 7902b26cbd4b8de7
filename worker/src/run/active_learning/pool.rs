//! The pool of one participant: one sample, one payment, one release.
//!
//! Counting and storing come before the payment: a crash while the log is read has cost nothing and leaves nothing, and
//! the next process draws another sample. Once a pool is on disk, it is the only one: it is paid, and sent unchanged.

use undertone_api::job::active_learning::{Gate as Settings, POOL};
use undertone_privacy::PrivacyUnit;

use super::go_on;
use super::pace::slowest_count;
use crate::dp::randomness::Purpose;
use crate::queries::dataset::{Reader, Subset};
use crate::queries::gate::{Gate, GateError};
use crate::run::{Exchange, Past, RunError};

/// The only round in which a pool leaves.
const ROUND: u32 = 1;
/// The reason to send no pool when a paid one is missing.
const LOST: &str = "a pool of this log was paid for, and is not at this site any more: a second sample is never drawn; propose a new job";
/// The number of rows between two checks for a stop.
const ROWS: u64 = 65_536;

impl From<GateError> for RunError {
    fn from(error: GateError) -> Self {
        match error {
            GateError::WrongEvent { .. } | GateError::Unsampled => Self::Refused(error.to_string()),
            other => {
                // The cause of an error of the engine or the disk is for the site's own log only.
                let cause = std::error::Error::source(&other).map(ToString::to_string).unwrap_or_default();
                tracing::error!(error = %other, cause, "a pool could not be made");
                Self::from_failure(other)
            }
        }
    }
}

/// Sends the participant's pool, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when the log cannot be counted, the site does not pay, or the exchange is stopped.
pub(super) fn send(unit: PrivacyUnit, settings: Settings, exchange: &mut dyn Exchange) -> Result<(), RunError> {
    match exchange.past(POOL, ROUND)? {
        Past::Accepted => return Ok(()),
        Past::Stored => return exchange.ask_again(POOL, ROUND),
        Past::Lost => return Err(RunError::Refused(LOST.to_owned())),
        Past::Untouched => {}
    }
    let units = exchange.own().units;
    let (counting, work) = (exchange.counting(), exchange.folder().to_owned());
    exchange.fix_period(&mut || slowest_count(unit, settings, units, &counting, &work))?;
    let reader = Reader::open(&exchange.dataset(exchange.own().dataset)?)?;
    let chance = exchange.chance(Purpose::Rows);
    let seen: &dyn Exchange = exchange;
    let mut rows = reader.rows(Subset::Train);
    let mut read = 0_u64;
    let rows = std::iter::from_fn(|| {
        read += 1;
        if read.is_multiple_of(ROWS) && seen.stopped() {
            return Some(Err("the worker was asked to stop".to_owned()));
        }
        Some(rows.next()?.map_err(|error| error.to_string()))
    });
    let survivors =
        Gate::new(settings, unit)?.survivors(rows, reader.meta().train.occurrences, &counting, &work, chance);
    // A stop in the middle of the log is not a failure of the log.
    go_on(exchange)?;
    let survivors = survivors?;
    let clearance = exchange.clear(POOL, ROUND)?;
    let pool = survivors.release(clearance)?;
    exchange.ask(POOL, ROUND, pool)
}

#[cfg(test)]
mod tests {
    use super::GateError;
    use crate::queries::sample::SampleError;
    use crate::run::RunError;

    #[test]
    fn a_payment_for_something_else_is_a_refusal_and_a_broken_disk_a_failure() {
        assert!(matches!(RunError::from(GateError::Unsampled), RunError::Refused(_)));
        let disk = GateError::Sample(SampleError::Disk(std::io::Error::other("full")));
        assert!(matches!(RunError::from(disk), RunError::Failed(said) if !said.contains("full")));
        assert!(matches!(RunError::from(GateError::NoUsers), RunError::Failed(_)));
    }
}
