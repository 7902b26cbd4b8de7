//! A program under test: started, listened to, killed. Nothing it starts outlives the test.

use std::{
    io::{self, BufRead, BufReader, Read},
    os::unix::process::CommandExt,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// Why a program did not do what was waited for. Both carry what it had said until then.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It ended first.
    #[error("{name} ended before it said {wanted:?}; it said:\n{said}")]
    Ended {
        /// The program.
        name: String,
        /// What was waited for.
        wanted: String,
        /// All it wrote.
        said: String,
    },
    /// It took too long.
    #[error("{name} did not say {wanted:?} within {} s; it said:\n{said}", within.as_secs())]
    Late {
        /// The program.
        name: String,
        /// What was waited for.
        wanted: String,
        /// How long.
        within: Duration,
        /// All it wrote.
        said: String,
    },
    /// It could not be started or signalled.
    #[error("{name} could not be started or signalled")]
    System {
        /// The program.
        name: String,
        /// Why.
        source: io::Error,
    },
}

/// A running program. Dropping it kills it and everything it started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Output>,
}

impl Process {
    /// Starts `command` as `name`, in a process group of its own, and listens to both of its outputs.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(name: &str, command: &mut Command) -> Result<Self, ProcessError> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|source| ProcessError::System { name: name.to_owned(), source })?;
        let output = Arc::new(Output::default());
        if let Some(stdout) = child.stdout.take() {
            output.listen(stdout);
        }
        if let Some(stderr) = child.stderr.take() {
            output.listen(stderr);
        }
        Ok(Self { name: name.to_owned(), child, output })
    }

    /// The first line, said already or within `within` from now, that contains `wanted`.
    ///
    /// # Errors
    /// If the program ends, or the time, before such a line.
    pub fn wait_for(&self, wanted: &str, within: Duration) -> Result<String, ProcessError> {
        self.wait_for_any(&[wanted], within)
    }

    /// The first line, said already or within `within` from now, that contains one of `wanted`.
    ///
    /// # Errors
    /// If the program ends, or the time, before such a line.
    pub fn wait_for_any(&self, wanted: &[&str], within: Duration) -> Result<String, ProcessError> {
        let deadline = Instant::now() + within;
        let mut said = self.output.lock();
        loop {
            if let Some(line) = said.lines.iter().find(|line| wanted.iter().any(|wanted| line.contains(wanted))) {
                return Ok(line.clone());
            }
            let (name, wanted) = (self.name.clone(), wanted.join(" or "));
            if said.open == 0 {
                return Err(ProcessError::Ended { name, wanted, said: said.lines.join("\n") });
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ProcessError::Late { name, wanted, within, said: said.lines.join("\n") });
            }
            said = self.output.changed.wait_timeout(said, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until the program has ended by itself.
    ///
    /// # Errors
    /// If it has not within `within`.
    pub fn wait(&mut self, within: Duration) -> Result<ExitStatus, ProcessError> {
        let said = self.output.lock();
        let waiting = self.output.changed.wait_timeout_while(said, within, |said| said.open > 0);
        let (said, timeout) = waiting.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            let (name, wanted) = (self.name.clone(), "its last word".to_owned());
            return Err(ProcessError::Late { name, wanted, within, said: said.lines.join("\n") });
        }
        drop(said);
        self.child.wait().map_err(|source| ProcessError::System { name: self.name.clone(), source })
    }

    /// Everything it has said so far, both outputs together, in order of arrival.
    pub fn said(&self) -> String {
        self.output.lock().lines.join("\n")
    }

    /// Its process id, which is the id of its group too.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end, as an administrator does (SIGTERM).
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn terminate(&self) -> Result<(), ProcessError> {
        self.signal("TERM", &self.id().to_string())
    }

    /// Kills it and everything it started, as a power cut does (SIGKILL), and waits until it is gone.
    pub fn kill(&mut self) {
        // The group may be gone already.
        let _ = self.signal("KILL", &format!("-{}", self.id()));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn signal(&self, signal: &str, target: &str) -> Result<(), ProcessError> {
        // The command of the shell rather than the system call, which is unsafe to call from Rust.
        let sent = Command::new("kill").args(["-s", signal, "--", target]).stderr(Stdio::null()).status();
        sent.map(drop).map_err(|source| ProcessError::System { name: self.name.clone(), source })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a program has written, and whether it may still write.
#[derive(Debug, Default)]
struct Output {
    said: Mutex<Said>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Said {
    lines: Vec<String>,
    /// How many of its outputs are open.
    open: usize,
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Said> {
        // A test that panicked while it looked has left the lines whole.
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Collects what comes out of `pipe` until it closes.
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

    fn shell(script: &str) -> Process {
        Process::start("sh", Command::new("sh").args(["-c", script])).expect("a shell")
    }

    #[test]
    fn a_line_on_either_output_is_heard() {
        let process = shell("echo one; echo two >&2; sleep 100");
        assert_eq!(process.wait_for("one", SOON).expect("on stdout"), "one");
        assert_eq!(process.wait_for("two", SOON).expect("on stderr"), "two");
    }

    #[test]
    fn a_program_that_ends_without_the_line_is_told_from_one_that_is_late() {
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
        // The child holds the outputs too, so they close only when it is gone as well.
        process.wait(SOON).expect("nobody is left to speak");
    }
}
