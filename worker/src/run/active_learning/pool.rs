//! The pool of one participant: one sample, one payment, one release.
//!
//! Counting and storing come before the payment: a crash while the log is read has cost nothing and leaves nothing, and
//! the next process draws another sample. Once a pool is on disk, it is the only one: it is paid, and sent unchanged.

use std::error::Error;

use undertone_api::job::active_learning::{Gate as Settings, POOL};
use undertone_privacy::PrivacyUnit;

use super::AnnotationError;
use super::pace::slowest_count;
use crate::dp::randomness::Purpose;
use crate::queries::dataset::{Reader, Row, Subset};
use crate::queries::gate::Gate;
use crate::run::{Questions, RoundKey, RoundProgress, RunError, StopReason, check_cancelled};

/// The only round in which a pool leaves.
const KEY: RoundKey<'static> = RoundKey::new(POOL, 1);
/// The number of rows between two checks for a stop.
const ROWS: u64 = 65_536;

/// The error of one row.
type RowError = Box<dyn Error + Send + Sync>;

/// Sends the participant's pool, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when the log cannot be counted, the site does not pay, or the exchange is stopped.
pub(super) fn send(unit: PrivacyUnit, settings: Settings, exchange: &mut dyn Questions) -> Result<(), RunError> {
    match exchange.round_progress(KEY)? {
        RoundProgress::Accepted => return Ok(()),
        RoundProgress::Stored => return exchange.resend_pool(KEY),
        RoundProgress::Lost => return Err(AnnotationError::LostPool.into()),
        RoundProgress::Untouched => {}
    }
    let units = exchange.participant().units;
    let counting = exchange.query_settings();
    let work = exchange.folder().to_owned();
    exchange.fix_period(&mut || slowest_count(unit, settings, units, &counting, &work))?;
    let reader = Reader::open(&exchange.dataset(exchange.participant().dataset)?)?;
    let randomness = exchange.draw_randomness(Purpose::Rows);
    let watch: &dyn Questions = exchange;
    let mut log_rows = reader.rows(Subset::Train);
    let mut count = 0_u64;
    let rows = std::iter::from_fn(|| -> Option<Result<Row, RowError>> {
        count += 1;
        if count.is_multiple_of(ROWS) && watch.is_stopped() {
            return Some(Err(RowError::from(StopReason::Requested)));
        }
        Some(log_rows.next()?.map_err(RowError::from))
    });
    let survivors =
        Gate::new(settings, unit)?.survivors(rows, reader.meta().train.occurrences, &counting, &work, randomness);
    // A stop in the middle of the log is not a failure of the log.
    check_cancelled(exchange)?;
    let survivors = survivors?;
    let clearance = exchange.clear(KEY)?;
    let pool = survivors.release(clearance)?;
    exchange.send_pool(KEY, pool)
}
