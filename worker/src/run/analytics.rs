//! `analytics` at a site: a table, the bounded contributions of its units, one noisy vector of integer sums.
//!
//! Every participant does the same: it reads its table unit by unit, adds the contribution of each unit to integer
//! sums, and releases them once with discrete Gaussian noise. The first participant then computes the report from the
//! average, and stores its numbers as a file. Counts and values of private rows leave in no other way, and are in no log.

mod error;

use std::time::{Duration, Instant};

use undertone_api::dataset::SizeClass;
use undertone_api::job::Report as AnyReport;
use undertone_api::job::analytics::{NUMBERS_FILE, Spec, VECTOR, VectorLayout};
use undertone_api::table::TableColumn;

use crate::dp::clip::{Clip, ClippedSum};
use crate::dp::randomness::Purpose;
use crate::run::{Artifacts, Averaging, RoundKey, RoundProgress, RunError, check_cancelled};
use crate::tables::dataset::{TableReader, read_meta};
use crate::tables::numbers::encode_numbers;

pub use error::AnalyticsError;

/// The one round of the job.
const ROUND: RoundKey<'static> = RoundKey::new(VECTOR, 1);
/// The made-up rows whose contributions are timed.
const TIMED_ROWS: usize = 2_000;
/// The time to read and decode a row, and each of its codes, on a slow machine.
const READ_ROW: Duration = Duration::from_nanos(400);
const READ_CODE: Duration = Duration::from_nanos(100);
/// The factor between the measured time and the period of the release clock.
const MARGIN: f64 = 2.0;
/// Units between two questions whether the job goes on.
const STRIDE: u64 = 1 << 10;

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
    let folder = exchange.dataset(id)?;
    let rows = read_meta(&folder)?.rows;
    // This precedes any access to the rows. The size class of their number is registered.
    exchange.fix_period(&mut || Ok(slowest_release(SizeClass::from_count(rows), &spec.columns, &layout)))?;
    match exchange.round_progress(ROUND)? {
        RoundProgress::Accepted | RoundProgress::Lost => {}
        RoundProgress::Stored => exchange.resend_vector(ROUND)?,
        RoundProgress::Untouched if exchange.is_closed(ROUND)? => {}
        RoundProgress::Untouched => {
            let table = TableReader::open(&folder)?;
            let sum = sum_contributions(spec, (&layout, site), &table, &|| check_cancelled(exchange))?;
            let clearance = exchange.clear(ROUND)?;
            let release = sum.release(1.0, clearance, &exchange.draw_randomness(Purpose::Noise));
            let release = release.map_err(AnalyticsError::Release)?;
            exchange.send_vector(ROUND, release.keep_only(&layout.own_coordinates(site)).into())?;
        }
    }
    let average = exchange.fetch_average(ROUND)?;
    if !spec.is_lead(id) {
        return Ok(());
    }
    let sums: Vec<f64> = average.mean.iter().map(|mean| f64::from(*mean) * f64::from(average.contributors)).collect();
    let report = spec.report(&sums, average.contributors).map_err(AnalyticsError::Average)?;
    exchange.put_file(NUMBERS_FILE, encode_numbers(&report).map_err(AnalyticsError::Numbers)?)?;
    exchange.submit_report(AnyReport::Analytics(report))
}

/// Returns the sum of the contributions of all units of a table, which is that of the participant at a position. `check`
/// is called at intervals, and ends the run.
///
/// # Errors
/// [`RunError::Failed`] if the table declares a column otherwise than the job, or cannot be read, and the error of
/// `check`.
pub fn sum_contributions(
    spec: &Spec,
    (layout, site): (&VectorLayout, usize),
    table: &TableReader,
    check: &dyn Fn() -> Result<(), RunError>,
) -> Result<ClippedSum, RunError> {
    let columns = table.find_columns(&spec.columns).map_err(AnalyticsError::Table)?;
    let clip = Clip::new(spec.contribution_norm(), spec.noise_multiplier).map_err(AnalyticsError::Clip)?;
    let mut sum = ClippedSum::begin_whole(clip, layout.length());
    let mut units = 0_u64;
    table.visit_units(&columns, &mut |unit| {
        if units.is_multiple_of(STRIDE) {
            check()?;
        }
        units += 1;
        sum.add_sparse(&layout.contribute(site, unit.rows()));
        Ok::<_, RunError>(())
    })?;
    Ok(sum)
}

/// Returns the time that covers the sum over a table, from public facts alone: the contributions of made-up rows with
/// values over the whole declared ranges, for as many rows as the size class can have.
fn slowest_release(rows: SizeClass, columns: &[TableColumn], layout: &VectorLayout) -> Duration {
    let made_up = |row: usize| -> Vec<Option<i64>> {
        let code = |(place, column): (usize, &TableColumn)| {
            let (least, most) = column.kind.code_range();
            let width = most.abs_diff(least).saturating_add(1);
            let step = ((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (place % 24)) % width;
            Some(least.saturating_add_unsigned(step))
        };
        columns.iter().enumerate().map(code).collect()
    };
    let made_up: Vec<Vec<Option<i64>>> = (0..TIMED_ROWS).map(made_up).collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..3 {
        // Units of one row, and units of two: they are summed in different ways, each at its greatest cost for a row.
        for rows in [1, 2] {
            let began = Instant::now();
            for unit in made_up.chunks(rows) {
                std::hint::black_box(layout.contribute(0, unit.iter().map(Vec::as_slice)));
            }
            slowest = slowest.max(began.elapsed());
        }
    }
    let per_row = slowest.as_secs_f64() / TIMED_ROWS as f64
        + READ_ROW.as_secs_f64()
        + READ_CODE.as_secs_f64() * columns.len() as f64;
    Duration::try_from_secs_f64(rows.most() as f64 * per_row * MARGIN).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
