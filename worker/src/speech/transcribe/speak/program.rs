//! An engine that is a program: it may hang, crash or talk without end, and costs no more than its text then.
//!
//! No shell stands in between, and no file: what is said, and what says it, is never on a disk. A voice to imitate is a file that
//! [`References`](super::reference::References) made, and only its path is an argument.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{MOST_BYTES, REFERENCE, SpeakError, USUAL_RATE};
use crate::speech::transcribe::wav;

/// A program with its arguments.
pub(super) struct Program {
    executable: String,
    arguments: Vec<String>,
    limit: Duration,
}

impl Program {
    pub(super) fn new(command: &[&str], limit: Duration) -> Result<Self, SpeakError> {
        match command {
            [program, arguments @ ..] if !program.is_empty() => {
                let arguments = arguments.iter().map(|argument| (*argument).to_owned()).collect();
                Ok(Self { executable: (*program).to_owned(), arguments, limit })
            }
            _ => Err(SpeakError::Setting { field: "command", reason: "name a program that writes WAV on its output" }),
        }
    }

    pub(super) fn name(&self) -> String {
        std::iter::once(&self.executable).chain(&self.arguments).map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Whether it speaks in the voice of a reference.
    pub(super) fn clones(&self) -> bool {
        self.arguments.iter().any(|argument| argument.contains(REFERENCE))
    }

    pub(super) fn speak(&self, text: &str, rate: f64, reference: Option<&Path>) -> Result<Vec<f32>, SpeakError> {
        if self.clones() && reference.is_none() {
            let reason = "`{reference}` is among its arguments, and there is no voice to imitate";
            return Err(SpeakError::Setting { field: "command", reason });
        }
        let refused = |source| SpeakError::Program { program: self.executable.clone(), source };
        let missing = || refused(std::io::Error::other("a pipe was not made"));
        let (whole, stretch) = (format!("{rate:.0}"), format!("{:.3}", USUAL_RATE / rate));
        // The text last: what it says is not looked at again.
        let fill = |argument: &String| {
            let mut filled = OsString::new();
            for (place, part) in argument.split(REFERENCE).enumerate() {
                if let Some(reference) = reference.filter(|_| place > 0) {
                    filled.push(reference);
                }
                filled.push(part.replace("{rate}", &whole).replace("{stretch}", &stretch).replace("{text}", text));
            }
            filled
        };
        let by_input = !self.arguments.iter().any(|argument| argument.contains("{text}"));
        let mut command = Command::new(&self.executable);
        command.args(self.arguments.iter().map(fill)).stderr(Stdio::null()).stdout(Stdio::piped());
        command.stdin(if by_input { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn().map_err(refused)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        if let Some(mut input) = child.stdin.take() {
            let said = format!("{text}\n");
            // It need not read; then nobody minds.
            thread::spawn(move || drop(input.write_all(said.as_bytes())));
        }
        let (says, said) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(MOST_BYTES as u64).read_to_end(&mut bytes);
            drop(says.send(read.map(|_| bytes)));
        });
        let said = said.recv_timeout(self.limit);
        // It has said everything, or has had its time. It may have ended by itself.
        drop(child.kill());
        drop(child.wait());
        let mut bytes = said.map_err(|_| SpeakError::Late(self.limit.as_secs()))?.map_err(refused)?;
        whole_header(&mut bytes);
        Ok(wav::read(&bytes)?)
    }
}

/// Who writes to a pipe cannot know how much will come and writes a number beyond it into the header: it becomes what came.
/// A header that promises less, or is none, is left as it is.
pub(super) fn whole_header(file: &mut [u8]) {
    let length = |file: &[u8], at: usize| {
        file.get(at..at + 4).and_then(|four| four.try_into().ok()).map(|four| u32::from_le_bytes(four) as usize)
    };
    if !file.starts_with(b"RIFF") {
        return;
    }
    let mut at = 12;
    while let Some(size) = length(file, at + 4) {
        let rest = file.len() - (at + 8);
        if file[at..].starts_with(b"data") {
            if size > rest {
                // Whole samples of 16 bits.
                let (data, riff) = ((rest & !1) as u32, (file.len() - 8) as u32);
                file[at + 4..at + 8].copy_from_slice(&data.to_le_bytes());
                file[4..8].copy_from_slice(&riff.to_le_bytes());
            }
            return;
        }
        if size > rest {
            return;
        }
        at += 8 + size + size % 2;
    }
}
