//! PyTorch and Opacus, in a Python of their own (`.ci/peer.sh torch`), run by the script beside the other peers' in the
//! folder `UNDERTONE_BENCH_PEERS`.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

/// The script's names of its modes, used here too.
pub(super) const MODES: [&str; 3] = ["pytorch", "opacus hooks", "opacus ghost"];
const SCRIPT: &str = "opacus_lstm.py";

pub(super) struct Peer {
    python: PathBuf,
    script: PathBuf,
    /// The versions of its components, by name.
    pub(super) versions: Value,
}

impl Peer {
    pub(super) fn find() -> Result<Self, Box<dyn Error>> {
        let python = PathBuf::from(
            std::env::var_os("UNDERTONE_PEER")
                .ok_or("UNDERTONE_PEER names no Python: run `make bench NAME=dp_step`")?,
        );
        let beside = || concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/bench").into();
        let folder = std::env::var_os("UNDERTONE_BENCH_PEERS").map_or_else(beside, PathBuf::from);
        let script = folder.join(SCRIPT);
        if !script.is_file() {
            return Err(format!("{} is not there: set UNDERTONE_BENCH_PEERS", script.display()).into());
        }
        let ask = "import json, platform, importlib.metadata as m; \
                   print(json.dumps({'python': platform.python_version(), 'torch': m.version('torch'), 'opacus': m.version('opacus')}))";
        let output = Command::new(&python).args(["-c", ask]).output()?;
        if !output.status.success() {
            return Err(format!("{} has no torch and opacus", python.display()).into());
        }
        Ok(Self { python, script, versions: serde_json::from_slice(&output.stdout)? })
    }

    /// Runs a mode; returns frames per second of the median step and the process's peak memory.
    pub(super) fn measure(
        &self,
        mode: &str,
        utterances: usize,
        frames: usize,
        steps: usize,
    ) -> Result<Value, Box<dyn Error>> {
        let mode = mode.strip_prefix("opacus ").unwrap_or("plain");
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let output = Command::new(&self.python)
            .arg(&self.script)
            .arg(mode)
            .args([utterances, frames, steps, threads].map(|number| number.to_string()))
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        let number = |key: &str| -> Option<f64> {
            let after = text.split(key).nth(1)?;
            let end = after.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(after.len());
            after[..end].parse().ok()
        };
        match (number("frames/s="), number("peakRSS=")) {
            (Some(speed), Some(peak)) => Ok(json!({
                "frames_per_second": speed, "seconds": (utterances * frames) as f64 / speed, "peak_mebibytes": peak,
            })),
            _ => Err(format!("the peer said {text:?} and {:?}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    }
}
