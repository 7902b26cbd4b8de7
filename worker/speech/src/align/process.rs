//! A separate process that replies with lines. It may hang, crash or write without end; then only the current request
//! fails.

use std::io::{BufReader, Read, Write};
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::lines;
use crate::sandbox::{RunningProgram, Start};

/// Maximum length of the stored error output, in bytes from the end.
const COMPLAINT: usize = 2_048;
/// Maximum time to wait for the rest of the error output.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running process, killed on drop.
pub struct Process {
    child: RunningProgram,
    questions: Sender<Vec<u8>>,
    answers: Receiver<Vec<u8>>,
    complaint: Receiver<String>,
}

/// Reasons why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Silence {
    /// The process did not reply within this number of seconds.
    #[error("the aligner hung: no answer within {0} s")]
    Late(u64),
    /// The process ended; includes the last line of its error output or, without one, how it ended.
    #[error("the aligner crashed{0}")]
    Ended(String),
}

impl Process {
    /// Starts the process and connects its input, output and error output.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start(program: Start<'_>) -> std::io::Result<Self> {
        let mut child = program.spawn(Stdio::piped(), Stdio::piped(), Stdio::piped())?;
        let missing = || std::io::Error::other("a pipe was not made");
        let mut input = child.take_input().ok_or_else(missing)?;
        let mut output = BufReader::new(child.take_output().ok_or_else(missing)?);
        let errors = child.take_complaints().ok_or_else(missing)?;
        let (questions, asked) = channel::<Vec<u8>>();
        let (answered, answers) = channel();
        let (complained, complaint) = channel();
        // Separate threads, because any pipe may block indefinitely. All threads end when the process is killed.
        thread::spawn(move || {
            for question in asked {
                if input.write_all(&question).and_then(|()| input.flush()).is_err() {
                    return;
                }
            }
        });
        thread::spawn(move || {
            let mut line = Vec::new();
            while lines::next(&mut output, &mut line).is_ok_and(|more| more) {
                if answered.send(line.trim_ascii().to_vec()).is_err() {
                    return;
                }
            }
        });
        thread::spawn(move || drop(complained.send(tail(errors))));
        Ok(Self { child, questions, answers, complaint })
    }

    /// Sends a request and returns the reply.
    ///
    /// # Errors
    /// [`Silence`] if there is no reply within `limit`.
    pub fn ask(&mut self, question: Vec<u8>, limit: Duration) -> Result<Vec<u8>, Silence> {
        // If the process no longer reads, there is no reply either; `hear` reports that.
        drop(self.questions.send(question));
        self.hear(limit)
    }

    /// Returns the next line of output, truncated to one byte more than `lines::LONGEST_LINE`.
    ///
    /// # Errors
    /// [`Silence`] if there is none within `limit`.
    pub fn hear(&mut self, limit: Duration) -> Result<Vec<u8>, Silence> {
        match self.answers.recv_timeout(limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(Silence::Late(limit.as_secs())),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.end_within(LAST_WORDS);
                let complaint = self.complaint.recv_timeout(LAST_WORDS).unwrap_or_default();
                let last = complaint.lines().rev().map(str::trim).find(|line| !line.is_empty());
                let cause = last.map(str::to_owned).or(status);
                Err(Silence::Ended(cause.map(|cause| format!(" ({cause})")).unwrap_or_default()))
            }
        }
    }

    fn end(&mut self) {
        self.child.end();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the end of a stream, once the stream is closed.
fn tail(mut source: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 1_024]);
    while let Ok(read @ 1..) = source.read(&mut buffer) {
        kept.extend(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(COMPLAINT));
    }
    String::from_utf8_lossy(&kept).into_owned()
}
