//! Starts every program other than this worker: speech engines, recognizers, aligners and voice converters.
//!
//! Such a program receives the audio of recordings and must not receive more. It runs with four environment variables,
//! in a process group that ends as a whole and with the worker, behind Landlock and a filter of system calls. It reads
//! the system's programs and libraries, its own files and those that its arguments name. It writes to a folder of its
//! own, opens no connection, and cannot access the site's key, ledger or data. [`missing_walls`] lists each layer that
//! the kernel lacks or that a filter of system calls around the worker refuses.
//!
//! Start every additional program with [`Start`]; no other file of the worker uses `std::process::Command`.

mod confinement;
mod files;
mod walls;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use self::confinement::ProgramConfinement;
use self::files::{FileRequest, ScratchFolder};

pub use self::confinement::{Programs, confine};
pub use self::walls::{MissingWall, missing_walls};

/// A program with its arguments and permissions.
#[derive(Debug)]
pub struct Start<'a> {
    program: &'a OsStr,
    request: FileRequest,
}

impl<'a> Start<'a> {
    /// Returns a start of `program`, which is found as in a shell.
    pub fn new(program: &'a (impl AsRef<OsStr> + ?Sized)) -> Self {
        Self { program: program.as_ref(), request: FileRequest::default() }
    }

    /// Adds arguments; the program may read files and folders that they name.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.request.arguments.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Permits reading of files or folders that no argument names.
    #[must_use]
    pub fn read(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.request.readable.extend(paths);
        self
    }

    /// Permits writing to a file, or to any file of a folder.
    #[must_use]
    pub fn write(mut self, path: &Path) -> Self {
        self.request.writable.push(path.to_owned());
        self
    }

    /// Starts the program with these streams as its input, output and error output.
    ///
    /// # Errors
    /// If the program does not exist or cannot be confined.
    pub fn spawn(self, input: Stdio, output: Stdio, complaints: Stdio) -> io::Result<RunningProgram> {
        self.spawn_in(&ProgramConfinement::current(), input, output, complaints)
    }

    fn spawn_in(
        self,
        confinement: &ProgramConfinement,
        input: Stdio,
        output: Stdio,
        complaints: Stdio,
    ) -> io::Result<RunningProgram> {
        let program = files::find(self.program)?;
        let scratch = ScratchFolder::make()?;
        let access = files::access(&program, &self.request, confinement, scratch.path());
        let mut command = Command::new(&program);
        command.args(&self.request.arguments).stdin(input).stdout(output).stderr(complaints);
        command.env_clear().envs(environment(scratch.path(), &confinement.programs.variables));
        command.process_group(0);
        walls::raise(&mut command, access, confinement.programs.network)?;
        Ok(RunningProgram { child: Some(launch(command)?), _scratch: scratch })
    }

    /// Runs the program to its end without input.
    ///
    /// # Errors
    /// The errors of [`Start::spawn`], or an error of reading its output.
    pub fn output(self) -> io::Result<Output> {
        self.spawn(Stdio::null(), Stdio::piped(), Stdio::piped())?.output()
    }
}

/// Returns PATH and LANG of the worker, a temporary folder for all files that the program writes, and the configured
/// variables.
fn environment(scratch: &Path, named: &[String]) -> Vec<(OsString, OsString)> {
    let variable = |name: &str| std::env::var_os(name);
    let language = variable("LANG").unwrap_or_else(|| "C.UTF-8".into());
    let mut all = vec![
        ("PATH".into(), files::search_path()),
        ("LANG".into(), language),
        ("TMPDIR".into(), scratch.into()),
        ("HOME".into(), scratch.into()),
    ];
    all.extend(named.iter().filter_map(|name| Some((name.into(), variable(name)?))));
    all
}

/// The interval of looks at a program that ends.
const PACE: Duration = Duration::from_millis(5);

type Launch = (Command, Sender<io::Result<Child>>);

/// The thread that starts all programs. A program ends with the thread that started it (`PR_SET_PDEATHSIG`). This
/// thread lives as long as the process; threads of a pool do not.
static LAUNCHER: LazyLock<Sender<Launch>> = LazyLock::new(|| {
    let (sender, launches) = channel::<Launch>();
    thread::spawn(move || {
        for (mut command, reply) in launches {
            drop(reply.send(command.spawn()));
        }
    });
    sender
});

fn launch(command: Command) -> io::Result<Child> {
    let (reply, started) = channel();
    let ended = || io::Error::other("the thread that starts programs has ended");
    LAUNCHER.send((command, reply)).map_err(|_| ended())?;
    started.recv().map_err(|_| ended())?
}

/// A running program. It ends, with all processes that it started, on drop.
#[derive(Debug)]
pub struct RunningProgram {
    /// Present until the program was waited for.
    child: Option<Child>,
    _scratch: ScratchFolder,
}

impl RunningProgram {
    /// Takes its input stream.
    pub fn take_input(&mut self) -> Option<ChildStdin> {
        self.child.as_mut()?.stdin.take()
    }

    /// Takes its output stream.
    pub fn take_output(&mut self) -> Option<ChildStdout> {
        self.child.as_mut()?.stdout.take()
    }

    /// Takes its error stream.
    pub fn take_complaints(&mut self) -> Option<ChildStderr> {
        self.child.as_mut()?.stderr.take()
    }

    /// Ends the program if it still runs.
    pub fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            walls::kill_group(&child);
            drop(child.wait());
        }
    }

    /// Waits until the program has ended by itself, at most `grace`, and ends it otherwise. Returns how it ended by
    /// itself: "exit status: 3", or "signal: 9 (SIGKILL)".
    pub fn end_within(&mut self, grace: Duration) -> Option<String> {
        let deadline = Instant::now() + grace;
        loop {
            let status = self.child.as_mut()?.try_wait();
            if let Ok(Some(status)) = status {
                // Processes that it started may still run.
                self.end();
                return Some(status.to_string());
            }
            if status.is_err() || Instant::now() >= deadline {
                self.end();
                return None;
            }
            thread::sleep(PACE);
        }
    }

    fn output(mut self) -> io::Result<Output> {
        let Some(child) = self.child.take() else { return Err(io::Error::other("the program was waited for")) };
        let group = walls::group_of(&child);
        let output = child.wait_with_output();
        walls::kill(group);
        output
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests;
