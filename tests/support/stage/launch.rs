//! How the server's program is started: which program, and by which command.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use super::TestResult;
use crate::workspace;

/// How the server's program is started.
#[derive(Debug, Clone, Default)]
pub struct ServerLaunch {
    /// The program; without one, that which was built beside the running test.
    pub program: Option<PathBuf>,
    /// A command with its arguments that becomes the program, which is its last argument: `prlimit --nofile=1024:1024`. It keeps its
    /// process id.
    pub wrapper: Vec<OsString>,
}

impl ServerLaunch {
    /// Returns the path of the program.
    ///
    /// # Errors
    /// When it was not built.
    pub fn path(&self) -> TestResult<PathBuf> {
        match &self.program {
            Some(program) => Ok(program.clone()),
            None => Ok(workspace::program("undertone-server")?),
        }
    }

    /// Returns the command to which the server's own arguments are added.
    ///
    /// # Errors
    /// When the program was not built.
    pub fn command(&self) -> TestResult<Command> {
        let program = self.path()?;
        let [first, rest @ ..] = &*self.wrapper else { return Ok(Command::new(program)) };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use super::ServerLaunch;

    #[test]
    fn wrapped_program_is_the_last_argument() {
        let launch = ServerLaunch { program: Some("/bin/echo".into()), wrapper: vec!["env".into(), "--".into()] };
        let output = launch.command().expect("a program").arg("served").output().expect("a command");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "served\n");
    }
}
