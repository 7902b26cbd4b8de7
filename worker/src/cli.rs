//! The command line of a site. It turns arguments into calls and results into text; the rules are in `site` and
//! `daemon`.
//!
//! Exit codes: 0 done; 1 failed, with the reason and the remedy in the message; 2 wrong arguments; 3 `ledger verify`
//! found an invalid ledger. 4: the ledger is valid, but an alarm about the server's log is open. `doctor` has its own
//! codes. To add a command: a variant of `Command`, its file, its line in `act`.

mod approval_keys;
mod backup;
mod config;
pub mod data;
mod doctor;
mod enroll;
mod jobs;
mod ledger;
mod lineage;
mod output;
mod policy;
mod rotate;
mod serve;
mod steward_key;
mod table;
mod thresholds;
mod tune;

#[cfg(test)]
pub(crate) use backup::SHORTEST as SHORTEST_PASSPHRASE;

use std::error::Error;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::site::clock;
use crate::site::folder::Folder;

pub use enroll::{EnrollError, enroll};

/// A worker of Undertone: it keeps this site's data, privacy ledger and rules, and runs jobs beside the data. Only
/// differentially private results leave.
#[derive(Debug, Parser)]
#[command(name = "undertone-worker", version)]
struct Cli {
    /// The site's folder: key, policy, ledger and datasets.
    #[arg(long, env = "UNDERTONE_SITE", default_value = "./undertone-site", value_name = "FOLDER", global = true)]
    site: PathBuf,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Join a consortium: makes this site's key and binds it to your organization, with a token from the dashboard.
    ///
    /// The key is made here and never leaves. The worker will trust the server whose certificate the token names, and
    /// no other. A careful policy.toml is written; read it before you run the worker.
    Enroll {
        /// The token, from `ute1.` on. It works once, and not for long.
        token: String,
        /// A proxy by which the worker reaches the server, http or https; config.toml keeps it.
        #[arg(long, value_name = "http://HOST:PORT")]
        proxy: Option<String>,
        /// The certificates (PEM) that an https proxy is recognized by, instead of the system's; config.toml keeps the path.
        #[arg(long, value_name = "FILE", requires = "proxy")]
        proxy_ca: Option<PathBuf>,
    },
    /// Run the worker until it is interrupted.
    Run(serve::Run),
    /// Make datasets from recordings or query logs, and list them.
    Data(data::DataCommand),
    /// Choose a job's clip, rate, batch and more by rehearsing it on public data, before it is proposed. Costs time only.
    Tune(Box<tune::Tune>),
    /// The worker's own configuration.
    #[command(subcommand)]
    Config(config::Action),
    /// Look at everything that has to be right for this worker to work, and say what to do where it is not.
    ///
    /// Exit codes: 0 all is well, 1 something should be looked at, 2 something is wrong.
    Doctor(doctor::Doctor),
    /// Write ledger, key, policy, configuration and the descriptions of datasets (not the data) to a file. The worker may run.
    Backup(backup::Backup),
    /// Put a backup in place. Nothing leaves until the worker has compared the ledger with what the server has.
    Restore(backup::Restore),
    /// Give this site another key, signed by the present one. The worker must not be running, and no job half done here.
    RotateKey,
    /// Show which sampling rates and thresholds keep which promise. Reads nothing.
    Thresholds(thresholds::Thresholds),
    /// What was spent, and the proof of it.
    #[command(subcommand)]
    Ledger(ledger::Action),
    /// Which datasets share accounts for life, and how an organization's workers recognize the same data.
    #[command(subcommand)]
    Lineage(lineage::Action),
    /// This site's own rules.
    #[command(subcommand)]
    Policy(policy::Action),
    /// The keys with which stewards approve jobs, as this site pins them.
    #[command(subcommand)]
    ApprovalKeys(approval_keys::Action),
    /// A steward's own key file: make one, and approve jobs with it. Needs no site and no network.
    #[command(subcommand)]
    StewardKey(steward_key::Action),
    /// Show the jobs that were proposed to this site, what was decided, and how they ended; or one of them in full.
    Jobs {
        /// The job's id, or enough of its beginning: its manifest, what it would charge, and what this site says to it.
        job: Option<String>,
    },
    /// Approve a proposed job, for exactly the manifest that `jobs` shows.
    Approve {
        /// The job's id, or enough of its beginning.
        job: String,
    },
    /// Hold a job: nothing of it goes on at this site, whatever the server says, and everybody's deadlines stop.
    Hold {
        /// The job's id, or enough of its beginning.
        job: String,
        /// Why, for the others to read.
        #[arg(long)]
        reason: String,
    },
    /// Let a job go on that this site holds.
    Release {
        /// The job's id, or enough of its beginning.
        job: String,
    },
    /// Refuse a proposed job, or end one that runs.
    Refuse {
        /// The job's id, or enough of its beginning.
        job: String,
        /// Why, for the proposer to read.
        #[arg(long)]
        reason: String,
    },
}

/// Any error with its exit code.
struct Failure {
    code: u8,
    error: Box<dyn Error + Send + Sync>,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: 1, error: error.into() }
    }
}

/// Runs the command in `args` (the first is the program's name); prints to standard output and standard error.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(asked) => {
            // Help and version are not errors. A closed standard output has no reader for an error message.
            drop(asked.print());
            return ExitCode::from(u8::try_from(asked.exit_code()).unwrap_or(2));
        }
    };
    // Confinement comes before the first program starts. Commands that need the configuration report its errors.
    let folder = Folder::new(&cli.site);
    let programs = crate::config::Config::load(&folder).map(|config| config.programs).unwrap_or_default();
    crate::speech::sandbox::confine(folder.root(), programs);
    match act(&cli, &mut output::PipeOutput::new(std::io::stdout())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", chain(&*failure.error));
            ExitCode::from(failure.code)
        }
    }
}

fn act(cli: &Cli, out: &mut dyn Write) -> Result<(), Failure> {
    let folder = Folder::new(&cli.site);
    let clock = clock::system();
    match &cli.command {
        Command::Enroll { token, proxy, proxy_ca } => {
            Ok(enroll::run(&folder, token, proxy.as_deref(), proxy_ca.as_deref(), out)?)
        }
        Command::Run(run) => serve::run(&folder, run),
        Command::Data(data) => Ok(data.run(&folder, clock(), out)?),
        Command::Tune(tune) => tune.run(&folder, out),
        Command::Config(config::Action::Check { config }) => config::check(&folder, config.as_deref(), out),
        Command::Doctor(doctor) => doctor.run(&folder, &clock, out),
        Command::Backup(backup) => backup.run(&folder, clock(), out),
        Command::Restore(restore) => restore.run(&folder, clock(), out),
        Command::RotateKey => rotate::run(&folder, clock(), out),
        Command::Thresholds(thresholds) => thresholds.show(out),
        Command::Ledger(action) => ledger::run(&folder, action, clock(), out),
        Command::Lineage(action) => lineage::run(&folder, action, clock(), out),
        Command::Policy(policy::Action::Show) => policy::show(&folder, out),
        Command::ApprovalKeys(action) => approval_keys::run(&folder, action, clock(), out),
        Command::StewardKey(action) => steward_key::run(action, out),
        Command::Jobs { job: None } => jobs::show(&folder, out),
        Command::Jobs { job: Some(job) } => jobs::whole(&folder, job, out),
        Command::Hold { job, reason } => jobs::hold(&folder, job, Some(reason), clock(), out),
        Command::Release { job } => jobs::hold(&folder, job, None, clock(), out),
        Command::Approve { job } => jobs::decide(&folder, job, None, clock(), out),
        Command::Refuse { job, reason } => jobs::decide(&folder, job, Some(reason), clock(), out),
    }
}

/// Returns an error with its causes, each once.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}\n  because: {said}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
