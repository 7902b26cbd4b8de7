//! A voice converter that is a program of its own: WAV on its input, WAV on its output, once for each piece.
//!
//! It may hang, crash or talk without end, and costs no more than the piece then. No shell stands in between, and no file:
//! speech is never on a disk for it.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{MOST_BYTES, OneVoice, VoiceError, fitted};
use crate::speech::transcribe::wav;

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    executable: String,
    arguments: Vec<String>,
    limit: Duration,
}

impl Program {
    /// The program that `command` begins with, with the rest as its arguments and `limit` for a piece.
    ///
    /// # Errors
    /// [`VoiceError::NoCommand`] when nothing is named.
    pub fn new(command: &[String], limit: Duration) -> Result<Self, VoiceError> {
        match command {
            [program, arguments @ ..] if !program.is_empty() => {
                Ok(Self { executable: program.clone(), arguments: arguments.to_vec(), limit })
            }
            _ => Err(VoiceError::NoCommand),
        }
    }
}

impl OneVoice for Program {
    fn name(&self) -> String {
        format!("converter {}", self.executable)
    }

    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        let refused = |source| VoiceError::Program { program: self.executable.clone(), source };
        let missing = || refused(std::io::Error::other("a pipe was not made"));
        let mut command = Command::new(&self.executable);
        command.args(&self.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(refused)?;
        let mut input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let file = wav::write(samples);
        let (said, converted) = channel();
        // Threads of their own, as either pipe may block for as long as the program likes. Both end when it is killed. A program
        // need not read all of its input, so a pipe that closes early is no error.
        thread::spawn(move || drop(input.write_all(&file)));
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(MOST_BYTES as u64).read_to_end(&mut bytes);
            drop(said.send(read.map(|_| bytes)));
        });
        let converted = converted.recv_timeout(self.limit);
        // It has said everything, or has had its time. It may have ended by itself.
        drop(child.kill());
        drop(child.wait());
        let bytes = converted.map_err(|_| VoiceError::Late(self.limit.as_secs()))?.map_err(refused)?;
        fitted(wav::read(&bytes)?, samples.len())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::time::Duration;

    use super::{OneVoice as _, Program, VoiceError};

    fn program(command: &[&str], limit: Duration) -> Program {
        let command: Vec<String> = command.iter().map(|&part| part.to_owned()).collect();
        Program::new(&command, limit).unwrap()
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn a_program_converts_what_it_reads() {
        let sound: Vec<f32> = (0..40_000).map(|n| (n as f32 * 0.05).sin() * 0.5).collect();
        let same = program(&["cat"], LIMIT).convert(&sound).unwrap();
        assert_eq!(same.len(), sound.len());
        assert!(same.iter().zip(&sound).all(|(one, other)| (one - other).abs() < 1e-4));
    }

    #[test]
    fn a_program_that_hangs_costs_its_time_and_no_more() {
        let error = program(&["tail", "-f", "/dev/null"], Duration::from_millis(50)).convert(&[0.1; 100]).unwrap_err();
        assert!(matches!(error, VoiceError::Late(_)), "{error}");
    }

    #[test]
    fn what_a_program_says_is_not_believed() {
        assert!(matches!(program(&["true"], LIMIT).convert(&vec![0.1; 100_000]), Err(VoiceError::Sound(_))));
        assert!(matches!(program(&["echo", "hello"], LIMIT).convert(&[0.1; 100]), Err(VoiceError::Sound(_))));
        // Cut in the middle: the header promises more.
        assert!(matches!(
            program(&["head", "-c", "1000"], LIMIT).convert(&vec![0.1; 9_000]),
            Err(VoiceError::Sound(_))
        ));
        let error = program(&["no-such-converter"], LIMIT).convert(&[0.1; 100]).unwrap_err();
        assert!(matches!(&error, VoiceError::Program { program, .. } if program == "no-such-converter"), "{error}");
        assert!(matches!(Program::new(&[], LIMIT), Err(VoiceError::NoCommand)));
    }
}
