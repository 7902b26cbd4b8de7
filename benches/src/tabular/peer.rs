//! Opacus, in a Python of its own (`.ci/peer.sh training`). One process answers all requests, so that its start takes no part in a time.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::{Value, json};

use super::data::RowTask;

const SCRIPT: &str = include_str!("../../peers/tabular.py");

/// A data set of the peer.
#[derive(Debug, Deserialize)]
pub(super) struct PeerData {
    /// `[rows][columns]`.
    pub(super) inputs: Vec<Vec<f64>>,
    /// `[rows]`.
    pub(super) labels: Vec<u16>,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct RunResult {
    /// The share of the measured rows that are classified correctly.
    pub(super) accuracy: f64,
    /// The seconds of the steps.
    pub(super) seconds: f64,
}

pub(super) struct TabularPeer {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The versions of its components, by name.
    pub(super) versions: Value,
}

impl TabularPeer {
    pub(super) fn start() -> Result<Self, Box<dyn Error>> {
        let python = std::env::var_os("UNDERTONE_PEER")
            .ok_or("UNDERTONE_PEER names no Python with torch and opacus: run `make bench NAME=tabular`")?;
        let mut child =
            Command::new(python).args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let requests = child.stdin.take().ok_or("the peer has no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("the peer has no standard output")?);
        let mut peer = Self { child, requests, answers, versions: Value::Null };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        peer.versions = peer.ask(&json!({ "versions": threads }))?;
        Ok(peer)
    }

    /// Returns a data set that ships with scikit-learn.
    pub(super) fn read_data(&mut self, name: &str) -> Result<PeerData, Box<dyn Error>> {
        Ok(serde_json::from_value(self.ask(&json!({ "data": name }))?)?)
    }

    /// Hands over the rows of the next runs.
    pub(super) fn load(&mut self, task: &RowTask) -> Result<(), Box<dyn Error>> {
        let RowTask { columns, train, tests } = task;
        self.ask(&json!({ "load": {
            "inputs": train.rows(), "labels": train.labels, "test_inputs": tests.rows(), "test_labels": tests.labels,
            "classes": columns.outputs(),
        } }))?;
        Ok(())
    }

    /// Trains a model on the loaded rows.
    pub(super) fn train(&mut self, run: &Value) -> Result<RunResult, Box<dyn Error>> {
        Ok(serde_json::from_value(self.ask(&json!({ "train": run }))?)?)
    }

    /// Ends the process, which ends with its requests.
    pub(super) fn finish(self) -> Result<(), Box<dyn Error>> {
        let Self { mut child, requests, .. } = self;
        drop(requests);
        child.wait()?;
        Ok(())
    }

    fn ask(&mut self, request: &Value) -> Result<Value, Box<dyn Error>> {
        writeln!(self.requests, "{request}")?;
        self.requests.flush()?;
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            return Err("the peer ended: its reason is above".into());
        }
        Ok(serde_json::from_str(&line)?)
    }
}
