//! `OpenDP`, `DataFusion` and `DuckDB`, in a Python of their own (`.ci/peer.sh analytics`).

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{DELTA, EPSILON, MEMORY_MIB};

const SCRIPT: &str = include_str!("../../peers/analytics.py");

/// The engines of exact queries.
pub(super) const ENGINES: [&str; 2] = ["datafusion", "duckdb"];

pub(super) struct AnalyticsPeer {
    python: PathBuf,
    /// The versions of its components, by name.
    pub(super) versions: Value,
}

impl AnalyticsPeer {
    pub(super) fn find() -> Result<Self, Box<dyn Error>> {
        let python = std::env::var_os("UNDERTONE_PEER")
            .ok_or("UNDERTONE_PEER names no Python with opendp: run `make bench NAME=analytics`")?;
        let mut peer = Self { python: python.into(), versions: Value::Null };
        peer.versions = peer.ask(&["versions".to_owned()])?;
        Ok(peer)
    }

    /// Releases the queries on the rows of a file of codes: for each query, for each release, its numbers.
    pub(super) fn release(&self, rows: &Path, releases: usize) -> Result<Vec<Vec<Vec<f64>>>, Box<dyn Error>> {
        let mut arguments = vec!["release".to_owned(), rows.display().to_string()];
        arguments.extend([EPSILON.to_string(), DELTA.to_string(), releases.to_string()]);
        Ok(serde_json::from_value(self.ask(&arguments)?)?)
    }

    /// Runs the exact queries of an engine over a table.
    pub(super) fn measure(&self, engine: &str, table: &Path, rows: u64) -> Result<Value, Box<dyn Error>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut arguments = vec![engine.to_owned(), table.join("rows").display().to_string()];
        arguments.extend([rows.to_string(), u64::from(MEMORY_MIB).to_string(), threads.to_string()]);
        self.ask(&arguments)
    }

    fn ask(&self, arguments: &[String]) -> Result<Value, Box<dyn Error>> {
        let output = Command::new(&self.python).args(["-c", SCRIPT]).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("the peer failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
