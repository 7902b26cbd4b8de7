//! Standard output, which a reader such as `head` may close before a command ends.

use std::io::{self, Write};

/// Writes until the reader closes the pipe; later output is dropped, and the command continues. An enrolment with lost
/// output is complete.
#[derive(Debug)]
pub(super) struct PipeOutput<W> {
    output: W,
    is_closed: bool,
}

impl<W: Write> PipeOutput<W> {
    pub(super) const fn new(output: W) -> Self {
        Self { output, is_closed: false }
    }

    fn write_unless_closed<T>(&mut self, fallback: T, write: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.is_closed {
            return Ok(fallback);
        }
        match write(&mut self.output) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(fallback)
            }
            result => result,
        }
    }
}

impl<W: Write> Write for PipeOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_unless_closed(bytes.len(), |output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write_unless_closed((), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::PipeOutput;

    /// Accepts one line and then fails.
    struct ShortReader {
        accepted: usize,
        failure: io::ErrorKind,
    }

    impl Write for ShortReader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.accepted > 0 {
                return Err(self.failure.into());
            }
            self.accepted += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn closed_pipe_does_not_fail_the_command() {
        let mut output = PipeOutput::new(ShortReader { accepted: 0, failure: io::ErrorKind::BrokenPipe });
        for line in 0..3 {
            writeln!(output, "line {line}").expect("the rest is dropped");
        }
        output.flush().expect("nothing is left to write");
    }

    #[test]
    fn full_disk_behind_the_output_is_an_error() {
        let mut output = PipeOutput::new(ShortReader { accepted: 0, failure: io::ErrorKind::StorageFull });
        output.write_all(b"one").expect("the first is taken");
        assert_eq!(output.write_all(b"two").expect_err("no room").kind(), io::ErrorKind::StorageFull);
    }
}
