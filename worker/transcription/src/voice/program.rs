//! A voice converter that is a program: WAV on its input, WAV on its output, started once for each piece.
//!
//! If it hangs, crashes or never stops, only the piece fails. No shell and no file is involved: speech is not written to disk for
//! it.

use std::io::{Read as _, Write as _};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use super::{MOST_BYTES, OneVoice, VoiceError, fit_length};
use crate::wav;
use undertone_worker_speech::sandbox::Start;

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramConverter {
    executable: String,
    arguments: Vec<String>,
    limit: Duration,
}

impl ProgramConverter {
    /// Creates a converter from `command`, a program followed by its arguments, with `limit` for each piece.
    ///
    /// # Errors
    /// [`VoiceError::NoCommand`] when `command` is empty.
    pub fn new(command: &[String], limit: Duration) -> Result<Self, VoiceError> {
        match command {
            [program, arguments @ ..] if !program.is_empty() => {
                Ok(Self { executable: program.clone(), arguments: arguments.to_vec(), limit })
            }
            _ => Err(VoiceError::NoCommand),
        }
    }
}

impl OneVoice for ProgramConverter {
    fn name(&self) -> String {
        format!("converter {}", self.executable)
    }

    fn convert(&self, samples: &[f32]) -> Result<Vec<f32>, VoiceError> {
        let refused = |source| VoiceError::Program { program: self.executable.clone(), source };
        let missing = || refused(std::io::Error::other("a pipe was not made"));
        let program = Start::new(&self.executable).args(&self.arguments);
        let mut child = program.spawn(Stdio::piped(), Stdio::piped(), Stdio::null()).map_err(refused)?;
        let mut input = child.take_input().ok_or_else(missing)?;
        let output = child.take_output().ok_or_else(missing)?;
        let file = wav::write(samples);
        let (sender, receiver) = channel();
        // Separate threads, because either pipe may block for as long as the program likes. Both end when it is killed. A program
        // need not read all of its input, so a pipe that closes early is no error.
        thread::spawn(move || drop(input.write_all(&file)));
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = output.take(MOST_BYTES as u64).read_to_end(&mut bytes);
            drop(sender.send(read.map(|_| bytes)));
        });
        let converted = receiver.recv_timeout(self.limit);
        // The program has written everything, or its time is over. It may have ended by itself.
        child.end();
        let bytes = converted.map_err(|_| VoiceError::Late(self.limit.as_secs()))?.map_err(refused)?;
        fit_length(wav::read(&bytes)?, samples.len())
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::time::Duration;

    use super::{OneVoice as _, ProgramConverter, VoiceError};

    fn program(command: &[&str], limit: Duration) -> ProgramConverter {
        let command: Vec<String> = command.iter().map(|&part| part.to_owned()).collect();
        ProgramConverter::new(&command, limit).unwrap()
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn program_converts_its_input() {
        let sound: Vec<f32> = (0..40_000).map(|n| (n as f32 * 0.05).sin() * 0.5).collect();
        let same = program(&["cat"], LIMIT).convert(&sound).unwrap();
        assert_eq!(same.len(), sound.len());
        assert!(same.iter().zip(&sound).all(|(one, other)| (one - other).abs() < 1e-4));
    }

    #[test]
    fn hanging_program_is_stopped_at_its_limit() {
        let error = program(&["tail", "-f", "/dev/null"], Duration::from_millis(50)).convert(&[0.1; 100]).unwrap_err();
        assert!(matches!(error, VoiceError::Late(_)), "{error}");
    }

    #[test]
    fn invalid_output_is_refused() {
        assert!(matches!(program(&["true"], LIMIT).convert(&vec![0.1; 100_000]), Err(VoiceError::Sound(_))));
        assert!(matches!(program(&["echo", "hello"], LIMIT).convert(&[0.1; 100]), Err(VoiceError::Sound(_))));
        // Truncated in the middle: the header states a larger length.
        assert!(matches!(
            program(&["head", "-c", "1000"], LIMIT).convert(&vec![0.1; 9_000]),
            Err(VoiceError::Sound(_))
        ));
        let error = program(&["no-such-converter"], LIMIT).convert(&[0.1; 100]).unwrap_err();
        assert!(matches!(&error, VoiceError::Program { program, .. } if program == "no-such-converter"), "{error}");
        assert!(matches!(ProgramConverter::new(&[], LIMIT), Err(VoiceError::NoCommand)));
    }
}
