//! Flower, in a Python of its own (`.ci/peer.sh rounds`).

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use support::port;
use tempfile::TempDir;

use super::RoundTime;

const SCRIPT: &str = include_str!("../../peers/rounds.py");

pub(super) struct RoundPeer {
    python: PathBuf,
    /// The folder of the script, which its server starts again for every client.
    folder: TempDir,
    /// The versions of its components, by name.
    pub(super) versions: Value,
}

impl RoundPeer {
    pub(super) fn find() -> Result<Self, Box<dyn Error>> {
        let python = std::env::var_os("UNDERTONE_PEER")
            .ok_or("UNDERTONE_PEER names no Python with flwr: run `make bench NAME=rounds`")?;
        let mut peer = Self { python: python.into(), folder: TempDir::new()?, versions: Value::Null };
        std::fs::write(peer.script(), SCRIPT)?;
        peer.versions = peer.ask(&["versions".to_owned()])?;
        Ok(peer)
    }

    /// Runs so many rounds of so many clients, after one round that is not measured.
    pub(super) fn measure(
        &self,
        clients: usize,
        numbers: usize,
        rounds: usize,
    ) -> Result<Vec<RoundTime>, Box<dyn Error>> {
        let settings = [usize::from(port::free()?), clients, numbers, rounds + 1].map(|number| number.to_string());
        let answer = self.ask(&[&["serve".to_owned()], settings.as_slice()].concat())?;
        let played = answer["rounds"].as_array().ok_or_else(|| format!("the peer said {answer}"))?;
        if played.len() != rounds + 1 {
            return Err(format!("Flower played {} rounds instead of {}", played.len(), rounds + 1).into());
        }
        let number = |round: &Value, key: &str| round[key].as_f64().ok_or_else(|| format!("the peer said {answer}"));
        played
            .iter()
            .skip(1)
            .map(|round| -> Result<RoundTime, Box<dyn Error>> {
                Ok(RoundTime { wall: number(round, "seconds")?, computing: number(round, "computing")? })
            })
            .collect()
    }

    fn script(&self) -> PathBuf {
        self.folder.path().join("peer.py")
    }

    fn ask(&self, arguments: &[String]) -> Result<Value, Box<dyn Error>> {
        let output = Command::new(&self.python).arg(self.script()).args(arguments).output()?;
        if !output.status.success() {
            return Err(format!("the peer failed: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}
