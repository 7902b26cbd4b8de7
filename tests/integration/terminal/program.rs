//! Runs of the program, with a configuration folder of their own.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use support::stage::TestResult;
use support::workspace;

/// The variables by which the program can be configured.
const VARIABLES: [&str; 4] = ["UNDERTONE_URL", "UNDERTONE_KEY", "UNDERTONE_CA", "UNDERTONE_CONSORTIUM"];

/// The program of a researcher with a home of their own.
pub(super) struct TestProgram {
    home: tempfile::TempDir,
}

/// The result of a run.
#[derive(Debug)]
pub(super) struct ProgramRun {
    pub(super) code: Option<i32>,
    pub(super) output: String,
    pub(super) errors: String,
}

impl TestProgram {
    pub(super) fn new() -> TestResult<Self> {
        Ok(Self { home: tempfile::tempdir()? })
    }

    /// Returns the folder in which commands run.
    pub(super) fn folder(&self) -> &Path {
        self.home.path()
    }

    /// Returns a command in the home, with the folder of the program first in `PATH`.
    pub(super) fn command(&self, name: &str) -> TestResult<Command> {
        let program = workspace::program("undertone")?;
        let folder = program.parent().ok_or("the program lies in a folder")?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(name);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        command
            .current_dir(self.folder())
            .env("HOME", self.folder())
            .env("XDG_CONFIG_HOME", self.folder().join("config"))
            .env("PATH", format!("{}:{path}", folder.display()));
        Ok(command)
    }

    /// Runs the program with a standard input.
    pub(super) fn run(&self, arguments: &[&str], input: &str) -> TestResult<ProgramRun> {
        let mut command = self.command(&workspace::program("undertone")?.to_string_lossy())?;
        command.args(arguments);
        run_with_input(&mut command, input)
    }

    /// Runs the program, which must succeed; returns its output.
    pub(super) fn succeed(&self, arguments: &[&str], input: &str) -> TestResult<String> {
        let run = self.run(arguments, input)?;
        if run.code == Some(0) { Ok(run.output) } else { Err(format!("undertone {arguments:?}: {run:?}").into()) }
    }

    /// Starts the program.
    pub(super) fn start(&self, arguments: &[&str]) -> TestResult<Child> {
        let mut command = self.command(&workspace::program("undertone")?.to_string_lossy())?;
        Ok(command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).spawn()?)
    }
}

/// Runs a command with a standard input.
pub(super) fn run_with_input(command: &mut Command, input: &str) -> TestResult<ProgramRun> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    // A program that reads no input may have closed it.
    let _ = child.stdin.take().ok_or("a pipe")?.write_all(input.as_bytes());
    let result = child.wait_with_output()?;
    Ok(ProgramRun {
        code: result.status.code(),
        output: String::from_utf8(result.stdout)?,
        errors: String::from_utf8(result.stderr)?,
    })
}
