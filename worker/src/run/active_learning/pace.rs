//! The longest time of a pool, measured on public input before the log is read (`privacy.md`, 14.7).
//!
//! The input is a made-up log; the time is scaled to the public number of rows. Half the rows of a made-up log repeat
//! texts, and half are unique: the more texts there are, the longer counting takes.

use std::convert::Infallible;
use std::path::Path;
use std::time::{Duration, Instant};

use undertone_api::dataset::SizeClass;
use undertone_api::job::active_learning::Gate as Settings;
use undertone_privacy::PrivacyUnit;

use crate::config::queries::Queries;
use crate::dp::randomness::{Purpose, Randomness};
use crate::queries::dataset::Row;
use crate::queries::gate::Gate;
use crate::run::RunError;

/// The factor between the scaled time and the period: a log's texts may be longer, its disk slower. A job has one pool,
/// so a long period is awaited once.
const MARGIN: u32 = 4;
/// The highest number of made-up rows.
const ROWS: u64 = 50_000;
/// The number of rows of a made-up user.
const ROWS_PER_USER: u64 = 5;

/// Returns the time that covers the counting of a log with about `units` of the protected unit.
///
/// # Errors
/// [`RunError::Failed`] when counting fails on the made-up log.
pub(super) fn slowest_count(
    unit: PrivacyUnit,
    settings: Settings,
    units: u64,
    counting: &Queries,
    work: &Path,
) -> Result<Duration, RunError> {
    let most = SizeClass::from_count(units).most().max(1);
    // A user has several rows; at most the charged number counts.
    let rows = match unit {
        PrivacyUnit::User => most.saturating_mul(settings.rows_per_unit.get().into()),
        PrivacyUnit::Record | PrivacyUnit::Speaker | PrivacyUnit::Words => most,
    };
    let sample = rows.min(ROWS);
    let log = (0..sample).map(|number| {
        let text = if number.is_multiple_of(2) { number % 1_000 } else { number };
        let user = (unit == PrivacyUnit::User).then(|| u128::from(number / ROWS_PER_USER));
        let text = format!("a made-up question of the usual length, with the number {text}");
        Ok::<_, Infallible>(Row { text, user, count: 1, label: None })
    });
    let randomness = Randomness::from_os(Purpose::Rows);
    let began = Instant::now();
    drop(Gate::new(settings, unit)?.survivors(log, sample, counting, work, randomness)?);
    let scaled = began.elapsed().as_secs_f64() * (rows as f64 / sample as f64).max(1.0) * f64::from(MARGIN);
    Ok(Duration::try_from_secs_f64(scaled).unwrap_or(Duration::MAX))
}
