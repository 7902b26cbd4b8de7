//! The errors of repeated releases, by the product's own contributions, noise and post-processing, and by the peer's.

use std::error::Error;
use std::fmt::Write as _;

use serde_json::json;
use undertone_api::dataset::{Dataset, DatasetContent, SizeClass, Visibility};
use undertone_api::id::{LineageId, OrganizationId, WorkerId};
use undertone_api::job::analytics::{AggregateResult, NumberEstimate, QueryResult, RADIUS, Spec};
use undertone_privacy::PrivacyUnit;
use undertone_worker::dp::clip::{Clip, ClippedSum};
use undertone_worker::dp::randomness::{Purpose, Randomness};
use undertone_worker::site::clearance::Clearance;
use undertone_worker::site::gate;
use undertone_worker::tables::chunk::UnitChunk;
use undertone_worker::tables::sums::{AggregateSum, ContributionSum as _};
use uuid::Uuid;

use super::peer::AnalyticsPeer;
use super::people::{EDGES, OLD, PROBABILITIES, PersonRow, QUERIES, REGIONS, month, person};
use super::{DELTA, EPSILON, pass};
use crate::report::{Outcome, Report};

/// The position of the quantiles among the queries.
const QUANTILES: usize = 9;
/// The share of errors below the stated one.
const LEVEL: f64 = 0.95;

pub(super) fn run(report: &mut Report, peer: Option<&AnalyticsPeer>, units: usize, releases: usize) -> Outcome {
    let spec = super::spec()?;
    let rows: Vec<PersonRow> = (0..units as u64).map(person).collect();
    let truths = ExactAnswers::new(&rows);
    let promised = spec.expected_errors(&[dataset(&spec, units)?])?;
    let own = release(&spec, &rows, releases)?;
    let peers = peer.map(|peer| release_by_peer(peer, &rows, releases)).transpose()?;
    for (query, one) in QUERIES.iter().enumerate() {
        let error = truths.error(query, &own[query])?;
        let promise = promised[query].overall;
        let peer = peers.as_ref().map(|peers| truths.error(query, &peers[query])).transpose()?;
        report.line(json!({
            "query": one.name,
            "sql": one.sql,
            "units": units,
            "releases": releases,
            "epsilon": EPSILON,
            "delta": DELTA,
            "error": error,
            "promise": promise,
            "error_over_promise": error / promise,
            "peer_error": peer,
            "error_over_best_peer": peer.map(|peer| error / peer),
        }))?;
    }
    Ok(())
}

/// Returns the table as the planner knows it.
fn dataset(spec: &Spec, units: usize) -> Result<Dataset, Box<dyn Error>> {
    let size = SizeClass(units as u64);
    Ok(Dataset {
        id: spec.participants[0].dataset,
        lineage: LineageId(Uuid::from_u128(2)),
        organization: OrganizationId(Uuid::from_u128(3)),
        organization_name: "people".to_owned(),
        worker: WorkerId(Uuid::from_u128(4)),
        name: "people".to_owned(),
        visibility: Visibility::Private,
        content: DatasetContent::Table,
        inputs: 0,
        classes: 0,
        records: size,
        speakers: SizeClass(1),
        test_records: 0,
        seconds: None,
        users: Some(size),
        table: Some(super::people::schema()?),
        units: vec![PrivacyUnit::User],
        approval: None,
        accounts: Vec::new(),
        created_at: time::OffsetDateTime::UNIX_EPOCH,
    })
}

/// Returns the numbers of each query in each release.
fn release(spec: &Spec, rows: &[PersonRow], releases: usize) -> Result<Vec<Vec<Vec<f64>>>, Box<dyn Error>> {
    let layout = spec.layout()?;
    let schema = super::people::schema()?;
    let places: Vec<usize> =
        spec.columns.iter().filter_map(|column| schema.find_column(&column.name)).map(|(place, _)| place).collect();
    let mut units = UnitChunk::new(places.len());
    for row in rows {
        let codes: Vec<Option<i64>> = places.iter().map(|place| Some(row[*place])).collect();
        units.push_unit([codes.as_slice()]);
    }
    let mut exact = AggregateSum::new(&layout, 0);
    exact.add_units(&units)?;
    let rules = pass::public_rules()?;
    let mut numbers = vec![Vec::new(); QUERIES.len()];
    for _ in 0..releases {
        let clip = Clip::new(spec.contribution_norm(), spec.noise_multiplier)?;
        let mut sum = ClippedSum::begin_whole(clip, layout.length());
        sum.add_bounded(RADIUS, exact.steps())?;
        let clearance = Clearance::Public(gate::prove_public(&rules)?);
        let release = sum.release(1.0, clearance, &Randomness::from_os(Purpose::Noise))?;
        let sums: Vec<f64> = release.vector().iter().map(|value| f64::from(*value)).collect();
        let report = spec.report(&sums, 1)?;
        for (query, numbers) in report.queries.iter().zip(&mut numbers) {
            numbers.push(read_numbers(query));
        }
    }
    Ok(numbers)
}

/// Returns the numbers of a query that the peer has too: of a variance the variance, of a matrix the correlation. A number
/// that the noise hides counts as the middle of its interval.
fn read_numbers(query: &QueryResult) -> Vec<f64> {
    let is_compared = |aggregate: &AggregateResult, number: &NumberEstimate| match aggregate.label.as_str() {
        label if label.starts_with("variance") => number.label == "variance",
        label if label.starts_with("covariance") => number.label.starts_with("correlation"),
        _ => true,
    };
    let aggregates = query.cells.iter().flat_map(|cell| &cell.aggregates);
    let numbers =
        aggregates.flat_map(|aggregate| aggregate.numbers.iter().filter(move |number| is_compared(aggregate, number)));
    numbers.map(|number| number.value.unwrap_or_else(|| f64::midpoint(number.low, number.high))).collect()
}

fn release_by_peer(
    peer: &AnalyticsPeer,
    rows: &[PersonRow],
    releases: usize,
) -> Result<Vec<Vec<Vec<f64>>>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("codes.csv");
    let mut text = String::new();
    for row in rows {
        let codes: Vec<String> = row.iter().map(ToString::to_string).collect();
        writeln!(text, "{},{}", codes.join(","), month(row[6]))?;
    }
    std::fs::write(&path, text)?;
    peer.release(&path, releases)
}

/// The exact numbers of each query.
struct ExactAnswers {
    numbers: Vec<Vec<f64>>,
    /// Sorted.
    ages: Vec<i64>,
}

impl ExactAnswers {
    fn new(rows: &[PersonRow]) -> Self {
        let total = rows.len() as f64;
        let count = |keep: &dyn Fn(&PersonRow) -> bool| rows.iter().filter(|row| keep(row)).count() as f64;
        let mean = |value: &dyn Fn(&PersonRow) -> f64| rows.iter().map(value).sum::<f64>() / total;
        let income_of = |region: i64| {
            let own = || rows.iter().filter(move |row| row[2] == region).map(|row| row[3] as f64);
            own().sum::<f64>() / own().count() as f64
        };
        let (age, weight) = (|row: &PersonRow| row[0] as f64, |row: &PersonRow| row[4] as f64 / 10.0);
        let (mean_age, mean_weight) = (mean(&age), mean(&weight));
        let variance_age = mean(&|row| (age(row) - mean_age).powi(2));
        let variance_weight = mean(&|row| (weight(row) - mean_weight).powi(2));
        let covariance = mean(&|row| (age(row) - mean_age) * (weight(row) - mean_weight));
        let regions = || 0..REGIONS.cast_signed();
        let bin = |edges: &[i64]| count(&|row| (edges[0]..edges[1]).contains(&row[0]));
        let mut ages: Vec<i64> = rows.iter().map(|row| row[0]).collect();
        ages.sort_unstable();
        let numbers = vec![
            vec![total],
            vec![count(&|row| row[0] >= OLD)],
            (0..3).map(|sex| count(&|row| row[1] == sex)).collect(),
            vec![rows.iter().map(|row| row[3] as f64).sum()],
            vec![mean_age],
            regions().map(income_of).collect(),
            vec![variance_weight],
            EDGES.windows(2).map(bin).collect(),
            regions().map(|region| count(&|row| row[2] == region && row[5] == 1)).collect(),
            PROBABILITIES.to_vec(),
            (0..24).map(|own| count(&|row| month(row[6]) == own)).collect(),
            vec![covariance / (variance_age * variance_weight).sqrt()],
        ];
        Self { numbers, ages }
    }

    /// Returns the percentile of the errors of a query over all numbers and releases.
    fn error(&self, query: usize, releases: &[Vec<f64>]) -> Result<f64, Box<dyn Error>> {
        let truths = &self.numbers[query];
        if let Some(odd) = releases.iter().find(|numbers| numbers.len() != truths.len()) {
            return Err(format!("{}: {} numbers, not {}", QUERIES[query].name, odd.len(), truths.len()).into());
        }
        let difference = |(number, truth): (&f64, &f64)| {
            if query == QUANTILES { self.rank_error(*number, *truth) } else { (number - truth).abs() }
        };
        let mut errors: Vec<f64> =
            releases.iter().flat_map(|numbers| numbers.iter().zip(truths)).map(difference).collect();
        errors.sort_by(f64::total_cmp);
        let place = (errors.len() as f64 * LEVEL).ceil() as usize;
        errors.get(place.saturating_sub(1)).copied().ok_or_else(|| "no releases".into())
    }

    /// Returns the rows by which the rank of an age misses a quantile: 0 if the quantile is among the rows of this age.
    fn rank_error(&self, age: f64, probability: f64) -> f64 {
        let age = age.floor() as i64;
        let below = self.ages.partition_point(|other| *other < age) as f64;
        let through = self.ages.partition_point(|other| *other <= age) as f64;
        let rank = probability * self.ages.len() as f64;
        (below - rank).max(rank - through).max(0.0)
    }
}
