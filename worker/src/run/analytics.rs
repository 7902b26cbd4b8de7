//! `analytics` at a site: a table, the bounded contributions of its units, one noisy vector of integer sums.
//!
//! Every participant does the same: it adds the contributions of the units of its table to integer sums
//! ([`crate::tables::sums`]), and releases them once with discrete Gaussian noise. Where the job selects keys, it releases
//! a vector of the choice before, and reads the keys from the average of all. The first participant then computes the
//! report from the average, and stores its numbers as a file. Counts and values of private rows leave in no other way, and
//! are in no log.

mod error;
mod pace;

use std::ops::Range;

use undertone_api::dataset::SizeClass;
use undertone_api::job::Report as AnyReport;
use undertone_api::job::analytics::{KEYS, NUMBERS_FILE, RADIUS, SelectedKeys, Spec, VECTOR, VectorLayout};

use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::randomness::Purpose;
use crate::run::{Artifacts, Averaging, RoundKey, RoundProgress, RunError, check_cancelled};
use crate::tables::dataset::{UnverifiedTable, read_meta};
use crate::tables::numbers::encode_numbers;
use crate::tables::sums::{AggregateSum, ContributionSum, KeySum, sum_units};

pub use error::AnalyticsError;
use pace::slowest_release;

/// The one round of the choice of keys.
const KEY_ROUND: RoundKey<'static> = RoundKey::new(KEYS, 1);
/// The one round of the aggregates.
const ROUND: RoundKey<'static> = RoundKey::new(VECTOR, 1);

/// Runs a job to its end, from the point where an earlier process stopped.
///
/// # Errors
/// [`RunError`] when it ends without a result.
pub fn run(spec: &Spec, exchange: &mut (impl Averaging + Artifacts)) -> Result<(), RunError> {
    let own = exchange.participant();
    let id = own.dataset;
    let Some(site) = spec.find_site(id) else {
        return Err(AnalyticsError::NotParticipant(own.dataset_name.clone()).into());
    };
    let layout = spec.layout().map_err(AnalyticsError::Layout)?;
    let key_layout = spec.key_layout().map_err(AnalyticsError::Layout)?;
    let folder = exchange.dataset(id)?;
    let rows = read_meta(&folder)?.rows;
    // This precedes any access to the rows. The size class of their number is registered.
    exchange.fix_period(&mut || {
        slowest_release(SizeClass::from_count(rows), spec, &layout, &key_layout).map_err(RunError::from)
    })?;
    let mut selected = SelectedKeys::new();
    if spec.selects_keys() {
        release_once(exchange, KEY_ROUND, &mut |exchange| {
            let table = UnverifiedTable::open(&folder)?;
            let sum = sum_table(spec, &KeySum::new(&key_layout), &table, &|| check_cancelled(exchange))?;
            Ok((sum, std::iter::once(0..key_layout.length()).collect()))
        })?;
        let (sums, sites) = fetch_sums(exchange, KEY_ROUND)?;
        selected = spec.select_keys(&sums, sites).map_err(AnalyticsError::Average)?;
    }
    let layout = layout.with_keys(&selected);
    release_once(exchange, ROUND, &mut |exchange| {
        let table = UnverifiedTable::open(&folder)?;
        let sum = sum_contributions(spec, (&layout, site), &table, &|| check_cancelled(exchange))?;
        Ok((sum, layout.own_coordinates(site)))
    })?;
    let (sums, sites) = fetch_sums(exchange, ROUND)?;
    if !spec.is_lead(id) {
        return Ok(());
    }
    let report = spec.report_keys(&selected, &sums, sites).map_err(AnalyticsError::Average)?;
    exchange.put_file(NUMBERS_FILE, encode_numbers(&report).map_err(AnalyticsError::Numbers)?)?;
    exchange.submit_report(AnyReport::Analytics(report))
}

/// Returns the sum of a round, and the coordinates that this site fills.
type RoundSum<'a, E> = dyn FnMut(&E) -> Result<(ClippedSum, Vec<Range<usize>>), RunError> + 'a;

/// Releases the sum of a round, unless an earlier process did or the round is closed.
fn release_once<E: Averaging>(exchange: &mut E, key: RoundKey<'_>, sum: &mut RoundSum<'_, E>) -> Result<(), RunError> {
    match exchange.round_progress(key)? {
        RoundProgress::Accepted | RoundProgress::Lost => Ok(()),
        RoundProgress::Stored => exchange.resend_vector(key),
        RoundProgress::Untouched if exchange.is_closed(key)? => Ok(()),
        RoundProgress::Untouched => {
            let (sum, own) = sum(exchange)?;
            let clearance = exchange.clear(key)?;
            let release = sum.release(1.0, clearance, &exchange.draw_randomness(Purpose::Noise));
            let release = release.map_err(AnalyticsError::Release)?;
            exchange.send_vector(key, release.keep_only(&own).into())
        }
    }
}

/// Returns the sums of a round over the contributing sites, and the number of these.
fn fetch_sums(exchange: &mut impl Averaging, key: RoundKey<'_>) -> Result<(Vec<f64>, u32), RunError> {
    let average = exchange.fetch_average(key)?;
    let sites = f64::from(average.contributors);
    Ok((average.mean.iter().map(|mean| f64::from(*mean) * sites).collect(), average.contributors))
}

/// Returns the sum of the contributions of all units of a table, which is that of the participant at a position. `check`
/// is called at intervals, and ends the run.
///
/// # Errors
/// [`RunError::Failed`] if the table declares a column otherwise than the job, has changed, or cannot be read, and the
/// error of `check`.
pub fn sum_contributions(
    spec: &Spec,
    (layout, site): (&VectorLayout, usize),
    table: &UnverifiedTable,
    check: &dyn Fn() -> Result<(), RunError>,
) -> Result<ClippedSum, RunError> {
    sum_table(spec, &AggregateSum::new(layout, site), table, check)
}

/// Returns the sum of the contributions of all units of a table; `empty` is that of no unit.
fn sum_table(
    spec: &Spec,
    empty: &impl ContributionSum,
    table: &UnverifiedTable,
    check: &dyn Fn() -> Result<(), RunError>,
) -> Result<ClippedSum, RunError> {
    let clip = Clip::new(spec.contribution_norm(), spec.noise_multiplier).map_err(AnalyticsError::Clip)?;
    let steps = sum_units(table, &spec.columns, empty, check)?;
    let mut sum = ClippedSum::begin_whole(clip, steps.len());
    sum.add_bounded(RADIUS, &steps).map_err(AnalyticsError::Clip)?;
    Ok(sum)
}

#[cfg(test)]
mod tests;
