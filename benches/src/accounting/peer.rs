//! Google's dp_accounting, in a Python of its own (`.ci/peer.sh`), which answers one question for each line of its
//! standard input.

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use undertone_bits::work::{DELTA, Runs};

const SCRIPT: &str = include_str!("../../peers/accounting.py");

/// The running peer; it ends when its input does.
pub(super) struct AccountingPeer {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    /// The versions of its components, by name.
    pub(super) versions: Value,
}

/// Its result, and the median time in seconds.
pub(super) struct PeerAnswer {
    pub(super) epsilon: f64,
    pub(super) seconds: f64,
}

impl AccountingPeer {
    pub(super) fn start() -> Result<Self, Box<dyn Error>> {
        let python = env::var_os("UNDERTONE_PEER")
            .ok_or("UNDERTONE_PEER names no Python with dp_accounting: run `make bench NAME=accounting`")?;
        let mut child =
            Command::new(python).args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().ok_or("the peer has no output")?);
        let questions = child.stdin.take();
        let mut peer = Self { child, questions, answers, versions: Value::Null };
        peer.versions = peer.answer()?;
        Ok(peer)
    }

    pub(super) fn ask(&mut self, method: &str, runs: &Runs) -> Result<PeerAnswer, Box<dyn Error>> {
        let question = json!({ "method": method, "runs": runs, "delta": DELTA });
        writeln!(self.questions.as_mut().ok_or("the peer has no input")?, "{question}")?;
        let answer = self.answer()?;
        let number = |key: &str| answer[key].as_f64().ok_or_else(|| format!("the peer said {answer}"));
        Ok(PeerAnswer { epsilon: number("epsilon")?, seconds: number("seconds")? })
    }

    fn answer(&mut self) -> Result<Value, Box<dyn Error>> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Ok(serde_json::from_str(&line).map_err(|error| format!("the peer said {line:?}: {error}"))?)
    }
}

impl Drop for AccountingPeer {
    fn drop(&mut self) {
        // The peer reads until its input ends.
        drop(self.questions.take());
        drop(self.child.wait());
    }
}
