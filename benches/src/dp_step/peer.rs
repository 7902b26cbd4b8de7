//! PyTorch and Opacus, in a Python of their own (`.ci/peer.sh training`).

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use super::SHAPE;

/// The names of the script's modes in the report.
pub(super) const MODES: [&str; 3] = ["pytorch", "opacus hooks", "opacus ghost"];
const SCRIPT: &str = include_str!("../../peers/training.py");

pub(super) struct TrainingPeer {
    python: PathBuf,
    /// The versions of its components, by name.
    pub(super) versions: Value,
}

impl TrainingPeer {
    pub(super) fn find() -> Result<Self, Box<dyn Error>> {
        let python = std::env::var_os("UNDERTONE_PEER")
            .ok_or("UNDERTONE_PEER names no Python with torch and opacus: run `make bench NAME=dp_step`")?;
        let mut peer = Self { python: python.into(), versions: Value::Null };
        peer.versions = peer.ask(&["versions".to_owned()])?;
        Ok(peer)
    }

    /// Runs a mode; returns the seconds and frames per second of the median step, and the process's peak memory.
    pub(super) fn measure(
        &self,
        mode: &str,
        utterances: usize,
        frames: usize,
        steps: usize,
    ) -> Result<Value, Box<dyn Error>> {
        let mode = mode.strip_prefix("opacus ").unwrap_or("plain");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let numbers = [utterances, frames, SHAPE.inputs, SHAPE.hidden, SHAPE.classes, steps, threads];
        let numbers = numbers.map(|number| number.to_string());
        self.ask(&[&[mode.to_owned()], numbers.as_slice()].concat())
    }

    fn ask(&self, arguments: &[String]) -> Result<Value, Box<dyn Error>> {
        let output = Command::new(&self.python).args(["-c", SCRIPT]).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("the peer failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
