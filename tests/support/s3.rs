//! An S3-compatible store on loopback: OpenStack Swift with its S3 interface, installed by `.ci/s3.sh`.

use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::TestProcess;
use crate::stage::TestResult;
use crate::{port, workspace};

/// The time limit for starting four servers.
const START: Duration = Duration::from_mins(2);
const KEY_ID: &str = "test:tester";
const KEY: &str = "testing";

/// A running store with an empty bucket `undertone`.
#[derive(Debug)]
pub struct TestObjectStore {
    port: u16,
    _process: TestProcess,
    folder: TempDir,
}

impl TestObjectStore {
    /// Starts a store; returns `None` where `UNDERTONE_S3` names no Python with Swift.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start() -> TestResult<Option<Self>> {
        let Some(python) = env::var_os("UNDERTONE_S3") else { return Ok(None) };
        let (folder, port) = (TempDir::with_prefix("undertone-s3-")?, port::free()?);
        let mut command = Command::new(PathBuf::from(python));
        command.arg(workspace::root().join(".ci/s3/serve.py")).arg(folder.path()).arg(port.to_string());
        command.args([KEY_ID, KEY]).env("PYTHONWARNINGS", "ignore");
        let process = TestProcess::start("swift", &mut command)?;
        process.wait_for("serving", START)?;
        Ok(Some(Self { port, _process: process, folder }))
    }

    /// Returns the environment of a server that keeps its objects here.
    pub fn environment(&self, prefix: &str) -> Vec<(&'static str, String)> {
        vec![
            ("UNDERTONE_STORE__URL", format!("s3://undertone/{prefix}")),
            ("UNDERTONE_STORE__ENDPOINT", format!("http://127.0.0.1:{}", self.port)),
            ("UNDERTONE_STORE__ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("UNDERTONE_STORE__SECRET_ACCESS_KEY", KEY.to_owned()),
        ]
    }

    /// Counts the object files on its disk.
    ///
    /// # Errors
    /// When its folder cannot be read.
    pub fn objects(&self) -> TestResult<usize> {
        fn count(folder: &std::path::Path) -> std::io::Result<usize> {
            let mut total = 0;
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                total += if path.is_dir() {
                    count(&path)?
                } else {
                    usize::from(path.extension().is_some_and(|end| end == "data"))
                };
            }
            Ok(total)
        }
        Ok(count(&self.folder.path().join("devices"))?)
    }
}
