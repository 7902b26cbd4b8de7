//! A program of its own that answers lines, which may hang, crash or talk without end, and must then cost no more than the
//! question it was asked.

use std::io::{BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use super::lines;

/// How much of what a program complains of is kept, bytes from the end.
const COMPLAINT: usize = 2_048;
/// How long to wait for the rest of a complaint.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A running program. Killed when dropped.
pub(in crate::speech) struct Process {
    child: Child,
    questions: Sender<Vec<u8>>,
    answers: Receiver<Vec<u8>>,
    complaint: Receiver<String>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::speech) enum Silence {
    #[error("the aligner hung: no answer within {0} s")]
    Late(u64),
    #[error("the aligner crashed{0}")]
    Ended(String),
}

impl Process {
    /// Starts it; its input, output and complaints are taken.
    pub(in crate::speech) fn start(command: &mut Command) -> std::io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || std::io::Error::other("a pipe was not made");
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let mut output = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        let errors = child.stderr.take().ok_or_else(missing)?;
        let (questions, asked) = channel::<Vec<u8>>();
        let (answered, answers) = channel();
        let (complained, complaint) = channel();
        // Threads of their own, as any pipe may block for as long as the program likes. All end when it is killed.
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

    /// The answer to a question.
    pub(in crate::speech) fn ask(&mut self, question: Vec<u8>, limit: Duration) -> Result<Vec<u8>, Silence> {
        // Where nobody reads any more, nobody answers: that is noticed below.
        drop(self.questions.send(question));
        self.hear(limit)
    }

    /// The next line it says, at most [`lines::LONGEST_LINE`] bytes and one of it.
    pub(in crate::speech) fn hear(&mut self, limit: Duration) -> Result<Vec<u8>, Silence> {
        match self.answers.recv_timeout(limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => Err(Silence::Late(limit.as_secs())),
            Err(RecvTimeoutError::Disconnected) => {
                self.end();
                let said = self.complaint.recv_timeout(LAST_WORDS).unwrap_or_default();
                let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
                Err(Silence::Ended(last.map(|line| format!(" ({line})")).unwrap_or_default()))
            }
        }
    }

    fn end(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// The end of what somebody says, once he is done.
fn tail(mut source: impl Read) -> String {
    let (mut kept, mut buffer) = (Vec::new(), [0; 1_024]);
    while let Ok(read @ 1..) = source.read(&mut buffer) {
        kept.extend(&buffer[..read]);
        kept.drain(..kept.len().saturating_sub(COMPLAINT));
    }
    String::from_utf8_lossy(&kept).into_owned()
}
