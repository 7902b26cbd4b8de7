//! Rotation of the server's keys while workers run a job: the server reads the new keys, the sites follow them, and
//! neither is restarted.

use std::fs;
use std::time::Duration;

use support::scene;
use support::stage::{PATIENCE, TestConsortium, TestDatabase, TestResult, TestSite, wait_until_so};
use undertone_api::signed::{KeyPurpose, TrustedServer};

const JOB: Duration = Duration::from_secs(400);
/// With the period below the job takes longer than the minute after which the new keys are in force.
const ROUNDS: u32 = 18;
/// The period of the release clock of one site, which each round waits for: seconds.
const PERIOD: &str = "dp_sgd = 6.0";

/// The holder of the root, on a machine without a network.
struct RootHolder {
    folder: tempfile::TempDir,
    root: String,
}

impl RootHolder {
    /// Makes a root key.
    fn new(stage: &TestConsortium) -> TestResult<Self> {
        let mut holder = Self { folder: tempfile::tempdir()?, root: String::new() };
        fs::write(holder.path("passphrase"), "a passphrase of a test\n")?;
        let (root_file, passphrase) = (holder.path("root.age"), holder.path("passphrase"));
        let printed = run_keys(stage, &["create-root", "--root-file", &root_file, "--passphrase-file", &passphrase])?;
        let words = printed.split_whitespace().map(|word| word.trim_end_matches('.'));
        holder.root = words.filter(|word| word.len() == 64).collect();
        Ok(holder)
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_string_lossy().into_owned()
    }

    /// Certifies new keys of the server, which are in force after so many minutes.
    fn certify(&self, stage: &TestConsortium, minutes: &str) -> TestResult<()> {
        let (request, grant) = (self.path("request.json"), self.path("grant.json"));
        let (root_file, passphrase) = (self.path("root.age"), self.path("passphrase"));
        run_keys(stage, &["request", &request, "--root", &self.root])?;
        let sign = ["sign", &request, &grant, "--root-file", &root_file, "--passphrase-file", &passphrase];
        run_keys(stage, &[&sign[..], &["--after", minutes]].concat())?;
        run_keys(stage, &["install", &grant])?;
        Ok(())
    }
}

/// Runs a command of the server about keys, as at its terminal.
fn run_keys(stage: &TestConsortium, arguments: &[&str]) -> TestResult<String> {
    let output = stage.server_command()?.arg("keys").args(arguments).output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    Err(format!("keys {arguments:?}: {printed}{}", String::from_utf8_lossy(&output.stderr)).into())
}

/// Returns the serial of the newest certificate that a site has seen for a purpose, if the site follows this root.
fn serial_at(site: &TestSite, root: &str, purpose: KeyPurpose) -> Option<u64> {
    let text = fs::read_to_string(site.folder().join("server-keys.json")).ok()?;
    let trusted: TrustedServer = serde_json::from_str(&text).ok()?;
    trusted.newest(purpose).filter(|_| trusted.root() == Some(root)).map(|seen| seen.serial)
}

#[tokio::test(flavor = "multi_thread")]
async fn running_job_survives_a_rotation_of_the_servers_keys() -> TestResult<()> {
    let mut stage = scene::set(TestDatabase::Sqlite).await?;
    stage.sites[1].edit_policy("dp_sgd = 0.05", PERIOD)?;
    // The sites enrolled under the first key. The first certificates begin while the server does not run.
    stage.stop_server(PATIENCE)?;
    let holder = RootHolder::new(&stage)?;
    holder.certify(&stage, "0")?;
    stage.start_server()?;
    stage.open().await?;
    scene::set_budgets(&stage, 60.0).await?;

    let job = scene::start_small_job(&stage, ROUNDS).await?;
    stage.wait_until(job, JOB, |job| job.summary.rounds_done >= 1).await?;
    for site in &stage.sites {
        assert_eq!(serial_at(site, &holder.root, KeyPurpose::Job), Some(1), "{} follows the root", site.name);
    }
    holder.certify(&stage, "1")?;
    for kind in ["token", "factor"] {
        run_keys(&stage, &["rotate", kind, "--after", "0"])?;
    }
    for site in scene::private_sites(&stage.sites) {
        wait_until_so(&format!("{} follows the next keys", site.name), || {
            serial_at(site, &holder.root, KeyPurpose::Log) == Some(2)
        })
        .await?;
    }
    let running = stage.operator.job(job).await?;
    assert!(!running.summary.state.is_over(), "the keys changed while the job ran: {:?}", running.summary);
    stage.finish(job, JOB).await?;

    scene::wait_for_proofs(&stage, ROUNDS).await?;
    for site in &stage.sites {
        let alarms = site.command(&["ledger", "alarm", "show"])?;
        assert!(!alarms.contains("Open: nothing leaves"), "{}: {alarms}", site.name);
    }
    let printed = stage.server()?.output();
    for file in ["token.key", "factor.key"] {
        let is_read = |line: &str| line.contains("keys were read again") && line.contains(file);
        assert!(printed.lines().any(is_read), "the running server has not read {file} again:\n{printed}");
    }
    let verified = stage.server_command()?.arg("verify").output()?;
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    // Keys that are in force at once sign the next job, and the heads of its charges.
    holder.certify(&stage, "0")?;
    scene::run_small_job(&stage, 1).await?;
    scene::wait_for_proofs(&stage, ROUNDS + 1).await?;
    for site in &stage.sites {
        assert_eq!(serial_at(site, &holder.root, KeyPurpose::Job), Some(3), "{}", site.name);
        let alarms = site.command(&["ledger", "alarm", "show"])?;
        assert!(!alarms.contains("Open: nothing leaves"), "{}: {alarms}", site.name);
    }
    Ok(())
}
