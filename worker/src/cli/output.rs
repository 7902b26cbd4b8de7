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

    fn unless_closed<T>(&mut self, otherwise: T, write: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.is_closed {
            return Ok(otherwise);
        }
        match write(&mut self.output) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.is_closed = true;
                Ok(otherwise)
            }
            written => written,
        }
    }
}

impl<W: Write> Write for PipeOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |output| output.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::PipeOutput;

    /// Accepts one line and then fails.
    struct ShortReader {
        taken: usize,
        failure: io::ErrorKind,
    }

    impl Write for ShortReader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.taken > 0 {
                return Err(self.failure.into());
            }
            self.taken += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn reader_that_has_gone_ends_no_command() {
        let mut output = PipeOutput::new(ShortReader { taken: 0, failure: io::ErrorKind::BrokenPipe });
        for line in 0..3 {
            writeln!(output, "line {line}").expect("the rest is dropped");
        }
        output.flush().expect("nothing is left to write");
    }

    #[test]
    fn full_disk_behind_the_output_is_an_error() {
        let mut output = PipeOutput::new(ShortReader { taken: 0, failure: io::ErrorKind::StorageFull });
        output.write_all(b"one").expect("the first is taken");
        assert_eq!(output.write_all(b"two").expect_err("no room").kind(), io::ErrorKind::StorageFull);
    }
}
