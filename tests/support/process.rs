//! A program under test: started, read, killed. None of its processes outlives the test.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Reasons why an expected event of a program did not happen, with its output until then.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The program ended first.
    #[error("{name} ended before it said {wanted:?}; it said:\n{said}")]
    Ended {
        /// The program.
        name: String,
        /// The expected output.
        wanted: String,
        /// The whole output.
        said: String,
    },
    /// The time limit was exceeded.
    #[error("{name} did not say {wanted:?} within {} s; it said:\n{said}", within.as_secs())]
    Late {
        /// The program.
        name: String,
        /// The expected output.
        wanted: String,
        /// The time limit.
        within: Duration,
        /// The whole output.
        said: String,
    },
    /// The program could not be started or signalled.
    #[error("{name} could not be started or signalled")]
    System {
        /// The program.
        name: String,
        /// The error.
        source: io::Error,
    },
}

/// A running program. Dropping it kills it and its child processes.
#[derive(Debug)]
pub struct TestProcess {
    name: String,
    child: Child,
    output: Arc<ProcessOutput>,
}

impl TestProcess {
    /// Starts `command` as `name`, in a process group of its own, and reads both of its outputs.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Result<Self, ProcessError> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|source| ProcessError::System { name: name.to_owned(), source })?;
        let output = Arc::new(ProcessOutput::default());
        if let Some(stdout) = child.stdout.take() {
            output.listen(stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            output.listen(stderr);
        }
        Ok(Self { name: name.to_owned(), child, output })
    }

    /// Returns the first line that contains `wanted`, from earlier output or within `within` from now.
    ///
    /// # Errors
    /// If the program or the time ends before such a line.
    pub fn wait_for(&self, wanted: &str, within: Duration) -> Result<String, ProcessError> {
        self.wait_for_any(&[wanted], within)
    }

    /// The first line, said already or within `within` from now, that contains one of `wanted`.
    ///
    /// # Errors
    /// If the program ends, or the time, before such a line.
    pub fn wait_for_any(&self, wanted: &[&str], within: Duration) -> Result<String, ProcessError> {
        let deadline = Instant::now() + within;
        let mut buffer = self.output.lock();
        loop {
            if let Some(line) = buffer.lines.iter().find(|line| wanted.iter().any(|wanted| line.contains(wanted))) {
                return Ok(line.clone());
            }
            let (name, wanted) = (self.name.clone(), wanted.join(" or "));
            if buffer.open == 0 {
                return Err(ProcessError::Ended { name, wanted, said: buffer.lines.join("\n") });
            }
            let remaining = deadline.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Err(ProcessError::Late { name, wanted, within, said: buffer.lines.join("\n") });
            }
            buffer = self.output.changed.wait_timeout(buffer, remaining).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the program ends by itself.
    ///
    /// # Errors
    /// If it does not end within `within`.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus, ProcessError> {
        let buffer = self.output.lock();
        let waiting = self.output.changed.wait_timeout_while(buffer, within, |buffer| buffer.open > 0);
        let (buffer, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            let (name, wanted) = (self.name.clone(), "its last word".to_owned());
            return Err(ProcessError::Late { name, wanted, within, said: buffer.lines.join("\n") });
        }
        drop(buffer);
        self.child.wait().map_err(|source| ProcessError::System { name: self.name.clone(), source })
    }

    /// Returns the output so far, both streams together, in order of arrival.
    pub fn output(&self) -> String {
        self.output.lock().lines.join("\n")
    }

    /// Returns the process id, which is also the id of the group.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Requests the end of the program (SIGTERM).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn terminate(&self) -> Result<(), ProcessError> {
        self.signal("TERM", &self.id().to_string())
    }

    /// Kills the program and its child processes (SIGKILL), as in a power failure, and waits until it has ended.
    pub fn kill(&mut self) {
        // The group may have ended already.
        let _ = self.signal("KILL", &format!("-{}", self.id()));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: &str, target: &str) -> Result<(), ProcessError> {
        // The shell's command instead of the system call, which is unsafe to call from Rust.
        let status = Command::new("kill").args(["-s", signal, "--", target]).stderr(Stdio::null()).status();
        status.map(drop).map_err(|source| ProcessError::System { name: self.name.clone(), source })
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The output of a program, and whether it may still grow.
#[derive(Debug, Default)]
struct ProcessOutput {
    said: Mutex<OutputLines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct OutputLines {
    lines: Vec<String>,
    /// The number of open output streams.
    open: usize,
}

impl ProcessOutput {
    fn lock(&self) -> MutexGuard<'_, OutputLines> {
        // A test that panicked while it held the lock has left the lines intact.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Collects the output of `pipe` until it closes.
    fn listen(self: &Arc<Self>, pipe: impl Read + Send + 'static) {
        self.lock().open += 1;
        let output = Arc::clone(self);
        thread::spawn(move || {
            for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                output.lock().lines.push(String::from_utf8_lossy(&line).into_owned());
                output.changed.notify_all();
            }
            output.lock().open -= 1;
            output.changed.notify_all();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn shell(script: &str) -> TestProcess {
        TestProcess::start("sh", Command::new("sh").args(["-c", script])).expect("a shell")
    }

    #[test]
    fn a_line_on_either_output_is_heard() {
        let process = shell("echo one; echo two >&2; sleep 100");
        assert_eq!(process.wait_for("one", SOON).expect("on stdout"), "one");
        assert_eq!(process.wait_for("two", SOON).expect("on stderr"), "two");
    }

    #[test]
    fn ended_program_is_distinguished_from_a_late_one() {
        let ended = shell("echo last words").wait_for("never", SOON).expect_err("it ends");
        assert!(matches!(&ended, ProcessError::Ended { said, .. } if said == "last words"), "{ended}");
        let late = shell("sleep 100").wait_for("never", Duration::from_millis(10)).expect_err("it sleeps");
        assert!(matches!(late, ProcessError::Late { .. }), "{late}");
    }

    #[test]
    fn an_exit_status_is_passed_on() {
        assert_eq!(shell("exit 7").wait(SOON).expect("it ends").code(), Some(7));
    }

    #[test]
    fn killing_a_program_kills_what_it_started() {
        let mut process = shell("sleep 100 & echo child $!; wait");
        process.wait_for("child", SOON).expect("the child has started");
        process.kill();
        // The child has the outputs open too, so they close only when it has ended as well.
        process.wait(SOON).expect("nobody is left to speak");
    }
}
