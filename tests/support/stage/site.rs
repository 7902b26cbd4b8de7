//! One organization's site: its folder, its worker, and the people who act for it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use ed25519_dalek::SigningKey;
use sha2::{Digest as _, Sha256};
use undertone_api::id::OrganizationId;

use super::{PATIENCE, SpeechCorpus, TestResult};
use crate::client::TestClient;
use crate::line::LineProxy;
use crate::process::TestProcess;
use crate::workspace;

/// A dataset that a site prepares.
#[derive(Debug, Clone)]
pub struct SiteDataset {
    /// Its name.
    pub name: String,
    /// `private`, `open` or `public`.
    pub visibility: &'static str,
    /// Further arguments of `data prepare`: the subset, the speakers, the amount.
    pub choice: Vec<String>,
}

impl SiteDataset {
    /// Makes the description of a dataset of one subset of a corpus.
    pub fn new(name: &str, visibility: &'static str, choice: &[&str]) -> Self {
        Self { name: name.to_owned(), visibility, choice: choice.iter().map(|word| (*word).to_owned()).collect() }
    }
}

/// An organization's site.
#[derive(Debug)]
pub struct TestSite {
    /// The organization's name.
    pub name: String,
    /// Its id.
    pub organization: OrganizationId,
    /// The client of its admin, steward and researcher: one person with three roles.
    pub client: TestClient,
    /// The prepared datasets.
    pub holdings: Vec<SiteDataset>,
    folder: PathBuf,
    worker: Option<TestProcess>,
}

impl TestSite {
    pub(super) fn enrol(
        name: &str,
        organization: OrganizationId,
        client: TestClient,
        folder: PathBuf,
        token: &str,
    ) -> TestResult<Self> {
        // Each steward has a key of their own, and each site pins its steward's key.
        let seed: [u8; 32] = Sha256::digest(format!("approval key of {name}")).into();
        let client = client.with_approval_key(SigningKey::from_bytes(&seed));
        let site = Self { name: name.to_owned(), organization, client, holdings: Vec::new(), folder, worker: None };
        site.command(&["enroll", token])?;
        site.pin_approval_key()?;
        // Most jobs of the tests protect records. A limit for speakers, which a new site has, would refuse them.
        site.edit_policy("[budget.speaker]", "[budget.record]")?;
        // A short period of the release clock, so that scenarios do not wait for one that covers the longest private
        // unit.
        site.edit_policy(
            "# release_period_seconds = { dp_sgd = 2.0, active_learning = 60.0, transcription = 3600.0 }",
            "release_period_seconds = { dp_sgd = 0.05, active_learning = 0.05, transcription = 0.05 }",
        )?;
        Ok(site)
    }

    /// Pins the steward's key, as the site's operator does at its terminal.
    fn pin_approval_key(&self) -> TestResult<()> {
        let key = self.client.approval_key().ok_or("the steward has a key")?;
        let (line, fingerprint) = (key.to_line(), key.fingerprint().to_string());
        self.command(&["approval-keys", "add", &line, "--fingerprint", &fingerprint, "--label", &self.name])?;
        Ok(())
    }

    /// Returns the site's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs one command of the worker to its end and returns its output.
    ///
    /// # Errors
    /// When it fails, with its whole output.
    pub fn command(&self, arguments: &[&str]) -> TestResult<String> {
        let output = Command::new(workspace::program("undertone-worker")?)
            .arg("--site")
            .arg(&self.folder)
            .args(arguments)
            .output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        Err(format!("undertone-worker {arguments:?} at {}: {printed}{complaint}", self.name).into())
    }

    /// Prepares a dataset from `corpus`.
    ///
    /// # Errors
    /// When `data prepare` fails.
    pub fn prepare(&mut self, corpus: &SpeechCorpus, holding: SiteDataset) -> TestResult<()> {
        let (input, alignments) = (corpus.folder().to_string_lossy(), corpus.alignments().to_string_lossy());
        let mut arguments = vec!["data", "prepare", "--input", &input, "--alignments", &alignments];
        arguments.extend(["--name", &holding.name, "--visibility", holding.visibility]);
        arguments.extend(holding.choice.iter().map(String::as_str));
        self.command(&arguments)?;
        self.holdings.push(holding);
        Ok(())
    }

    /// Prepares a dataset from a query log, CSV.
    ///
    /// # Errors
    /// When `data prepare` fails.
    pub fn prepare_queries(&mut self, csv: &str, holding: SiteDataset) -> TestResult<()> {
        let path = self.folder.join(format!("{}.csv", holding.name));
        fs::write(&path, csv)?;
        let input = path.to_string_lossy();
        let mut arguments = vec!["data", "prepare", "--queries", &input, "--text-column", "query"];
        arguments.extend(["--name", &holding.name, "--visibility", holding.visibility]);
        arguments.extend(holding.choice.iter().map(String::as_str));
        self.command(&arguments)?;
        self.holdings.push(holding);
        Ok(())
    }

    /// Replaces a text in the site's policy.
    ///
    /// # Errors
    /// When the file does not exist or does not contain `from`.
    pub fn edit_policy(&self, from: &str, to: &str) -> TestResult<()> {
        let path = self.folder.join("policy.toml");
        let text = fs::read_to_string(&path)?;
        if !text.contains(from) {
            return Err(format!("the policy of {} does not say `{from}`", self.name).into());
        }
        Ok(fs::write(&path, text.replace(from, to))?)
    }

    /// Connects the worker to its server over a line, from its next start on.
    ///
    /// # Errors
    /// When its configuration is not in the form that enrolment wrote.
    pub fn connect_over(&self, line: &LineProxy) -> TestResult<()> {
        self.connect_to(line.address)
    }

    /// Connects the worker to its server at another address, from its next start on.
    ///
    /// # Errors
    /// When its configuration is not in the form that enrolment wrote.
    pub fn connect_to(&self, address: SocketAddr) -> TestResult<()> {
        let path = self.folder.join("config.toml");
        let text = fs::read_to_string(&path)?;
        let server = text.lines().find(|text| text.starts_with("server = ")).ok_or("no server in config.toml")?;
        let scheme = if server.contains("https://") { "https" } else { "http" };
        Ok(fs::write(&path, text.replace(server, &format!("server = \"{scheme}://{address}\"")))?)
    }

    /// Starts the worker, with `environment` added.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, environment: &[(&str, &str)]) -> TestResult<()> {
        let mut command = Command::new(workspace::program("undertone-worker")?);
        command.arg("--site").arg(&self.folder).arg("run").envs(environment.iter().copied());
        self.worker = Some(TestProcess::start(&format!("worker of {}", self.name), &mut command)?);
        Ok(())
    }

    /// Kills the worker as in a power failure.
    pub fn kill(&mut self) {
        self.worker = None;
    }

    /// Waits until the worker has ended by itself (by a fault that the test ordered).
    ///
    /// # Errors
    /// When it has not ended after `within`.
    pub fn wait_for_end(&mut self, within: Duration) -> TestResult<()> {
        if let Some(worker) = &mut self.worker {
            worker.wait(within)?;
        }
        self.worker = None;
        Ok(())
    }

    /// Stops the worker with SIGTERM.
    ///
    /// # Errors
    /// When it does not stop.
    pub fn stop(&mut self) -> TestResult<()> {
        if let Some(worker) = &self.worker {
            worker.terminate()?;
        }
        self.wait_for_end(PATIENCE)
    }

    /// Returns the worker's output since its start.
    pub fn output(&self) -> String {
        format!("-- {}\n{}", self.name, self.worker.as_ref().map(TestProcess::output).unwrap_or_default())
    }
}
