//! The program of the workers, as child processes that end with the demo.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

/// A reason why a worker's program failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum WorkerError {
    /// The program does not exist.
    #[error("{0} is not there: build it with `cargo build -p undertone-worker`")]
    Missing(PathBuf),
    /// The program cannot be started, or its output cannot be stored.
    #[error("`undertone-worker {what}` cannot be run")]
    Start {
        /// The subcommand.
        what: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The program failed.
    #[error("`undertone-worker {what}` failed:\n{output}")]
    Failed {
        /// The subcommand.
        what: String,
        /// The output.
        output: String,
    },
}

/// The program.
#[derive(Debug, Clone)]
pub(super) struct WorkerProgram(PathBuf);

/// A worker daemon; killed when dropped.
pub(super) struct WorkerDaemon {
    child: Child,
    log: PathBuf,
}

impl WorkerProgram {
    /// Finds the program in the folder of the current one.
    pub(super) fn find_sibling() -> Result<Self, WorkerError> {
        let own =
            std::env::current_exe().map_err(|source| WorkerError::Start { what: "--version".to_owned(), source })?;
        let path = own.with_file_name(format!("undertone-worker{}", std::env::consts::EXE_SUFFIX));
        if path.is_file() { Ok(Self(path)) } else { Err(WorkerError::Missing(path)) }
    }

    /// Runs a subcommand at a site to its end; its output is reported only if it fails.
    pub(super) async fn run(&self, site: &Path, arguments: &[String]) -> Result<(), WorkerError> {
        let what = arguments.iter().take_while(|word| !word.starts_with('-')).take(2).cloned().collect::<Vec<_>>();
        // A token must not appear, not even in an error.
        let what = what
            .first()
            .map_or_else(String::new, |first| if first == "enroll" { first.clone() } else { what.join(" ") });
        let output = self
            .command(site, arguments)
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(|source| WorkerError::Start { what: what.clone(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let text = [output.stdout, output.stderr].concat();
        Err(WorkerError::Failed { what, output: String::from_utf8_lossy(&text).trim().to_owned() })
    }

    /// Starts the daemon of a site with its output in `log`.
    pub(super) fn start(&self, site: &Path, log: &Path) -> Result<WorkerDaemon, WorkerError> {
        let failed = |source| WorkerError::Start { what: "run".to_owned(), source };
        let file = std::fs::File::create(log).map_err(failed)?;
        let errors = file.try_clone().map_err(failed)?;
        let child = self
            .command(site, &["run".to_owned()])
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn()
            .map_err(failed)?;
        Ok(WorkerDaemon { child, log: log.to_owned() })
    }

    fn command(&self, site: &Path, arguments: &[String]) -> Command {
        let mut command = Command::new(&self.0);
        command.arg("--site").arg(site).args(arguments).kill_on_drop(true);
        command
    }
}

impl WorkerDaemon {
    /// Checks that the daemon is running.
    ///
    /// # Errors
    /// [`WorkerError::Failed`] with the end of its log if it is not.
    pub(super) fn check(&mut self) -> Result<(), WorkerError> {
        if matches!(self.child.try_wait(), Ok(None)) {
            return Ok(());
        }
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let output = lines[lines.len().saturating_sub(20)..].join("\n");
        Err(WorkerError::Failed { what: "run".to_owned(), output })
    }
}
