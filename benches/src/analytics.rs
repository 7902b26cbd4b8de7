//! Twelve queries on a table in one job: the measured errors beside the planner's and beside those of `OpenDP` at the same
//! ε, δ and unit, and the time and memory of the pass over the rows beside `DataFusion` and `DuckDB`.
//!
//! Errors are the 95th percentile of the absolute errors over repeated releases: `error_over_promise` divides it by half
//! of the planner's 95 % interval, `error_over_best_peer` by the peer's percentile. Each unit has one row, so that a peer
//! without limits on units has the same sensitivity. All twelve queries are answered together, at one ε and δ; the peer
//! divides its budget among them as the job does.
//!
//! Each pass runs in a process of its own, so that its peak memory is its own too.
//!
//! `UNDERTONE_ANALYTICS_ROWS` (100000000) sets the rows of the passes, `UNDERTONE_ANALYTICS_UNITS` (20000) and
//! `UNDERTONE_ANALYTICS_RELEASES` (300) those of the errors; `UNDERTONE_ANALYTICS_FOLDER` is the folder of the rows, about
//! 100 bytes each (default: a temporary folder).

mod errors;
mod pass;
mod peer;
mod people;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde_json::{Value, json};
use undertone_api::id::DatasetId;
use undertone_api::job::analytics::sql::parse_queries;
use undertone_api::job::analytics::{ContributionLimits, Party, Spec};
use undertone_privacy::gaussian::GaussianProfile;
use undertone_privacy::{Delta, Epsilon, NoiseMultiplier, PrivacyUnit};
use uuid::Uuid;

use crate::report::{Outcome, Report};
use peer::AnalyticsPeer;
use people::QUERIES;

const EPSILON: f64 = 1.0;
const DELTA: f64 = 1e-6;
/// Memory of the peers' engines, MiB.
const MEMORY_MIB: u32 = 512;

pub(crate) fn run(report: &mut Report) -> Outcome {
    if let Some(rows) = std::env::args().nth(2) {
        return alone(report, &rows);
    }
    let peer = AnalyticsPeer::find();
    match &peer {
        Ok(peer) => report.line(json!({ "peers": peer.versions }))?,
        Err(reason) => report.line(json!({ "peers": "left out", "because": reason.to_string() }))?,
    }
    let peer = peer.ok();
    let (units, releases) = (size("UNITS", 20_000)?, size("RELEASES", 300)?);
    errors::run(report, peer.as_ref(), units, releases)?;
    measure_passes(report, peer.as_ref(), size("ROWS", 100_000_000)?)
}

fn size<T: FromStr>(name: &str, usual: T) -> Result<T, T::Err> {
    std::env::var(format!("UNDERTONE_ANALYTICS_{name}")).map_or(Ok(usual), |text| text.trim().parse())
}

/// Returns the job of one site: the least noise with which its release has the ε.
fn spec() -> Result<Spec, Box<dyn Error>> {
    let text = QUERIES.map(|query| query.sql).join(";\n");
    let parsed = parse_queries(&text, &people::schema()?, ContributionLimits::default())?;
    let profile = GaussianProfile::largest(Epsilon::new(EPSILON)?, Delta::new(DELTA)?);
    Ok(Spec {
        unit: PrivacyUnit::User,
        participants: vec![Party { dataset: DatasetId(Uuid::from_u128(1)) }],
        columns: parsed.columns,
        queries: parsed.queries,
        noise_multiplier: NoiseMultiplier::new(1.0 / profile.mu())?,
        quorum: 1,
        deadline_seconds: 3600,
    })
}

/// Measures the passes over a table of so many rows.
fn measure_passes(report: &mut Report, peer: Option<&AnalyticsPeer>, rows: u64) -> Outcome {
    let folder = match std::env::var_os("UNDERTONE_ANALYTICS_FOLDER") {
        Some(folder) => tempfile::tempdir_in(PathBuf::from(folder))?,
        None => tempfile::tempdir()?,
    };
    let table = folder.path().join("people");
    let seconds = pass::write_table(&table, rows)?;
    report.line(json!({ "rows": rows, "pass": "the table is added", "measured": { "seconds": seconds } }))?;
    let own = measure_alone(rows, &table)?;
    report.line(json!({ "rows": rows, "pass": "all queries in one vector", "measured": own }))?;
    let Some(peer) = peer else { return Ok(()) };
    for engine in peer::ENGINES {
        let measured = peer.measure(engine, &table, rows)?;
        let over = own["seconds"].as_f64().zip(measured["seconds"].as_f64()).map(|(own, peer)| own / peer);
        let mut line = json!({ "rows": rows, "pass": format!("exact queries, {engine}"), "measured": measured });
        line[format!("seconds_over_{engine}")] = json!(over);
        report.line(line)?;
    }
    Ok(())
}

/// Runs the product's pass in a process of its own.
fn measure_alone(rows: u64, table: &Path) -> Result<Value, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    let output = command.args(["analytics", &rows.to_string()]).arg(table).output()?;
    if !output.status.success() {
        return Err(format!("the pass failed: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().last().ok_or("nothing was measured")?;
    Ok(serde_json::from_str::<Value>(line)?["measured"].take())
}

/// Runs the pass of such a process.
fn alone(report: &mut Report, rows: &str) -> Outcome {
    let table = PathBuf::from(std::env::args_os().nth(3).ok_or("usage: analytics ROWS TABLE")?);
    let rows: u64 = rows.parse()?;
    let seconds = pass::run(&table)?;
    report.line(json!({ "measured": {
        "seconds": seconds,
        "rows_per_second": rows as f64 / seconds,
        "peak_mib": crate::dp_step::peak(),
    }}))
}
