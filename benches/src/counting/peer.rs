//! `DuckDB` and Apache DataSketches' C++, in a Python of their own (`.ci/peer.sh counting`).

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{MEMORY_MIB, THRESHOLD};

const SCRIPT: &str = include_str!("../../peers/counting.py");

/// A mode of the script.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerMode {
    pub(super) name: &'static str,
    argument: &'static str,
    /// Whether Python calls the library for every row.
    pub(super) once_a_row: bool,
}

pub(super) const MODES: [PeerMode; 2] = [
    PeerMode { name: "exact counts of the file, DuckDB", argument: "duckdb", once_a_row: false },
    PeerMode {
        name: "count-min, Apache DataSketches (C++, called from Python)",
        argument: "datasketches",
        once_a_row: true,
    },
];

pub(super) struct CountingPeer {
    python: PathBuf,
    /// The versions of its components, by name.
    pub(super) versions: Value,
}

impl CountingPeer {
    pub(super) fn find() -> Result<Self, Box<dyn Error>> {
        let python = std::env::var_os("UNDERTONE_PEER")
            .ok_or("UNDERTONE_PEER names no Python with duckdb: run `make bench NAME=counting`")?;
        let mut peer = Self { python: python.into(), versions: Value::Null };
        peer.versions = peer.ask(&["versions".to_owned()])?;
        Ok(peer)
    }

    /// Runs a mode over the file of so many rows.
    pub(super) fn measure(&self, mode: PeerMode, file: &Path, rows: u64) -> Result<Value, Box<dyn Error>> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let numbers = [rows, THRESHOLD.into(), MEMORY_MIB.into(), threads as u64].map(|number| number.to_string());
        self.ask(&[&[mode.argument.to_owned(), file.display().to_string()], numbers.as_slice()].concat())
    }

    fn ask(&self, arguments: &[String]) -> Result<Value, Box<dyn Error>> {
        let output = Command::new(&self.python).args(["-c", SCRIPT]).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("the peer failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
