//! A speech engine that is a program. If it hangs, crashes or never stops, only its text fails.
//!
//! No shell and no file is involved: neither the text nor the speech is written to disk. A voice to imitate is a file that
//! [`ReferenceFolder`](super::reference::ReferenceFolder) made, and the program receives its path only.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{MOST_BYTES, REFERENCE, SpeakError, USUAL_RATE};
use crate::wav;
use undertone_worker_speech::sandbox::Start;

/// A program with its arguments.
pub(super) struct ProgramEngine {
    executable: String,
    arguments: Vec<String>,
    limit: Duration,
}

impl ProgramEngine {
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

    /// Returns whether the program speaks in the voice of a reference.
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
        let whole = format!("{rate:.0}");
        let stretch = format!("{:.3}", USUAL_RATE / rate);
        // The text is substituted last, so placeholders in the text are not replaced.
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
        let program = Start::new(&self.executable).args(self.arguments.iter().map(fill));
        let program = program.read(reference.map(Path::to_owned));
        let input = if by_input { Stdio::piped() } else { Stdio::null() };
        let mut child = program.spawn(input, Stdio::piped(), Stdio::null()).map_err(refused)?;
        let output = child.take_output().ok_or_else(missing)?;
        if let Some(mut input) = child.take_input() {
            let message = format!("{text}\n");
            // The program may ignore its input; a failed write is no error.
            thread::spawn(move || drop(input.write_all(message.as_bytes())));
        }
        let (sender, receiver) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(MOST_BYTES as u64).read_to_end(&mut bytes);
            drop(sender.send(read.map(|_| bytes)));
        });
        let answer = receiver.recv_timeout(self.limit);
        // The program has written everything, or its time is over. It may have ended by itself.
        child.end();
        let mut bytes = answer.map_err(|_| SpeakError::Late(self.limit.as_secs()))?.map_err(refused)?;
        whole_header(&mut bytes);
        Ok(wav::read(&bytes)?)
    }
}

/// Corrects the header of a WAV file from a pipe: the writer does not know the length in advance and writes too large a number,
/// which is replaced by the actual length. A header with a smaller length, or an invalid header, is not changed.
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
                let data = (rest & !1) as u32;
                let riff = (file.len() - 8) as u32;
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
