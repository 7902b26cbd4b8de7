//! The counting pass on synthetic rows, compared with Apache DataSketches' estimates and `DuckDB`'s exact counts on the
//! same rows. Each runs in a process of its own, so that its peak memory is its own too. Also the accuracy of estimates
//! on real queries.
//!
//! `UNDERTONE_COUNTING_ROWS` (10000000,100000000) sets the sizes of the streams; `UNDERTONE_COUNTING_FOLDER` is the
//! folder of their rows, some gigabytes (default: a temporary folder).

mod estimates;
mod passes;
mod peer;
mod stream;

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::report::{Outcome, Report};
use passes::StreamPass;
use peer::CountingPeer;

/// The threshold k: the least number of occurrences of a released query.
const THRESHOLD: u32 = 20;
/// Memory for exact counts, MiB: the engine's bound, and `DuckDB`'s.
const MEMORY_MIB: u32 = 512;
/// The number of rows beyond which a peer with a call for every row is omitted, because it takes minutes without new
/// information.
const MOST_CALLS: u64 = 10_000_000;

pub(crate) fn run(report: &mut Report) -> Outcome {
    if let Some(pass) = std::env::args().nth(2) {
        return alone(report, &pass);
    }
    let peer = CountingPeer::find();
    match &peer {
        Ok(peer) => report.line(json!({ "peers": peer.versions }))?,
        Err(reason) => report.line(json!({ "peers": "left out", "because": reason.to_string() }))?,
    }
    let row_counts = std::env::var("UNDERTONE_COUNTING_ROWS").unwrap_or_else(|_| "10000000,100000000".to_owned());
    let sizes = row_counts.split(',').map(|rows| rows.trim().parse::<u64>()).collect::<Result<Vec<_>, _>>()?;
    let mut peaks = BTreeMap::<String, Vec<f64>>::new();
    for rows in &sizes {
        for (name, measured) in size(report, peer.as_ref().ok(), *rows)? {
            peaks.entry(name).or_default().extend(measured["peak_mebibytes"].as_f64());
        }
    }
    if let [first, .., last] = sizes.as_slice() {
        let growth = |peaks: &Vec<f64>| Some(peaks.last()? / peaks.first()?);
        let growth: BTreeMap<_, _> = peaks.iter().map(|(name, peaks)| (name, growth(peaks))).collect();
        report.line(json!({ "rows_times": *last as f64 / *first as f64, "peak_memory_times": growth }))?;
    }
    estimates::run(report)
}

/// Runs all passes over a stream of so many rows.
fn size(report: &mut Report, peer: Option<&CountingPeer>, rows: u64) -> Result<Vec<(String, Value)>, Box<dyn Error>> {
    let folder = std::env::var_os("UNDERTONE_COUNTING_FOLDER").map(PathBuf::from);
    let folder = match &folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let mut passes = Vec::new();
    for pass in StreamPass::ALL {
        passes.push((pass.name().to_owned(), own(pass, rows, folder.path())?));
    }
    if let Some(peer) = peer {
        for mode in peer::MODES {
            if mode.once_a_row && rows > MOST_CALLS {
                continue;
            }
            passes.push((mode.name.to_owned(), peer.measure(mode, &folder.path().join(passes::FILE), rows)?));
        }
    }
    let truth = passes.iter().find(|(name, _)| name == StreamPass::Exact.name()).map(|(_, measured)| measured.clone());
    for (name, measured) in &passes {
        let mut line = json!({ "rows": rows, "threshold": THRESHOLD, "pass": name, "measured": measured });
        if let (Some(truth), Some(survivors)) = (&truth, measured.get("survivors")) {
            let same = *survivors == truth["survivors"] && measured["occurrences"] == truth["occurrences"];
            line["as_exact_counts"] = json!(same);
            if !same {
                report.line(line)?;
                return Err(format!("{name} has other survivors than exact counting").into());
            }
        }
        report.line(line)?;
    }
    Ok(passes)
}

/// Runs one pass in a process of its own.
fn own(pass: StreamPass, rows: u64, folder: &Path) -> Result<Value, Box<dyn Error>> {
    let output = Command::new(std::env::current_exe()?)
        .args(["counting", pass.name(), &rows.to_string()])
        .arg(folder)
        .output()?;
    let text = String::from_utf8(output.stdout)?;
    if !output.status.success() {
        return Err(format!("{}: {}", pass.name(), String::from_utf8_lossy(&output.stderr)).into());
    }
    let line = text.lines().last().ok_or("nothing was measured")?;
    Ok(serde_json::from_str::<Value>(line)?["measured"].take())
}

/// Runs the pass of such a process.
fn alone(report: &mut Report, pass: &str) -> Outcome {
    let usage = "usage: counting PASS ROWS FOLDER";
    let pass = StreamPass::ALL.into_iter().find(|known| known.name() == pass).ok_or(usage)?;
    let rows: u64 = std::env::args().nth(3).ok_or(usage)?.parse()?;
    let folder = PathBuf::from(std::env::args_os().nth(4).ok_or(usage)?);
    let start = std::time::Instant::now();
    let mut measured = pass.run(rows, &folder)?;
    let seconds = start.elapsed().as_secs_f64();
    measured["seconds"] = json!(seconds);
    measured["rows_per_second"] = json!(rows as f64 / seconds);
    measured["peak_mebibytes"] = json!(crate::dp_step::peak());
    report.line(json!({ "measured": measured }))
}
