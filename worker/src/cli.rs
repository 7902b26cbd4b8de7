//! The command line of a site. It turns arguments into calls and results into text; the rules are in `site` and
//! `daemon`.
//!
//! Exit codes: 0 done; 1 failed, with the reason and the remedy in the message; 2 wrong arguments; 3 `ledger verify`
//! found an invalid ledger, or `certificate` a failed check. 4: the ledger is valid, but an alarm about the server's log is open. `doctor` has its own
//! codes. To add a command: a variant of `WorkerCommand`, its file, its line in `run_command`.

mod approval_keys;
mod backup;
mod certificate;
mod config;
pub mod data;
mod doctor;
mod enroll;
mod evaluate;
mod export;
mod jobs;
mod ledger;
mod lineage;
mod output;
mod peers;
mod personalize;
mod policy;
mod predict;
mod received;
mod recognize;
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
use ed25519_dalek::VerifyingKey;
use undertone_api::signed::public_key;

use crate::site::clock;
use crate::site::folder::Folder;

pub use enroll::{EnrollError, enroll};

/// The worker of an Undertone site. It keeps the site's data, ledger and policy, and runs jobs on the data. Only
/// differentially private results leave the site.
#[derive(Debug, Parser)]
#[command(name = "undertone-worker", version)]
struct CommandLine {
    /// The site's folder: key, policy, ledger and datasets.
    #[arg(long, env = "UNDERTONE_SITE", default_value = "./undertone-site", value_name = "FOLDER", global = true)]
    site: PathBuf,
    #[command(subcommand)]
    command: WorkerCommand,
}

#[derive(Debug, Subcommand)]
enum WorkerCommand {
    /// Join a consortium: creates this site's key and binds it to your organization, with a token from the dashboard.
    ///
    /// The key is created here and never leaves. The worker trusts the server whose certificate the token names, and
    /// no other. The command writes a strict policy.toml; read it before you run the worker.
    Enroll {
        /// The token, which begins with `ute1.`. It works once, for a limited time.
        token: String,
        /// The proxy through which the worker reaches the server, http or https; config.toml stores it.
        #[arg(long, value_name = "http://HOST:PORT")]
        proxy: Option<String>,
        /// The certificates (PEM) that authenticate an https proxy, instead of the system's; config.toml stores the path.
        #[arg(long, value_name = "FILE", requires = "proxy")]
        proxy_ca: Option<PathBuf>,
    },
    /// Run the worker until it is interrupted.
    Run(serve::RunCommand),
    /// Create datasets from recordings or query logs, and list them.
    Data(data::DataCommand),
    /// Choose a job's clip, rate, batch and other settings by rehearsing it on public data. Costs no privacy budget.
    Tune(Box<tune::TuneCommand>),
    /// Evaluate a model on a dataset of this site, for this terminal alone: accuracy by class, confusions, calibration.
    Evaluate(evaluate::EvaluateCommand),
    /// Predict a column of the rows of files with a model of rows, for this machine alone.
    Predict(predict::PredictCommand),
    /// Export a model as an ONNX graph, which other programs run.
    Export(export::ExportCommand),
    /// Fine-tune a model on a dataset of this site, without noise and without a charge, for this site alone.
    Personalize(personalize::PersonalizeCommand),
    /// Recognize recordings with a model, for this terminal alone: words with times and confidence.
    Recognize(Box<recognize::RecognizeCommand>),
    /// Show what each recognizer of a finished transcription could count, and play sounds as it received them.
    Received(received::ReceivedCommand),
    /// Check the worker's own configuration.
    #[command(subcommand)]
    Config(config::ConfigAction),
    /// Check everything that this worker needs, and print a remedy for each problem.
    ///
    /// Exit codes: 0 every check passes, 1 a check warns, 2 a check fails.
    Doctor(doctor::DoctorCommand),
    /// Write ledger, key, policy, configuration and dataset descriptions (not the data) to a file. The worker may be running.
    Backup(backup::BackupCommand),
    /// Restore a site from a backup. Nothing leaves until the worker has compared the ledger with the server's receipts.
    Restore(backup::RestoreCommand),
    /// Replace this site's key; the present key signs the new one. The worker must not be running, and no job unfinished here.
    RotateKey,
    /// Show which sampling rates and thresholds give which guarantee. Reads no data.
    Thresholds(thresholds::ThresholdsCommand),
    /// Verify the certificate of a job, offline.
    Certificate(Box<certificate::CertificateCommand>),
    /// Show, verify and export the expenses of this site.
    #[command(subcommand)]
    Ledger(ledger::LedgerAction),
    /// Show which datasets share lifetime accounts, and exchange lineages between the workers of an organization.
    #[command(subcommand)]
    Lineage(lineage::LineageAction),
    /// Show this site's policy.
    #[command(subcommand)]
    Policy(policy::PolicyAction),
    /// Manage the keys with which stewards approve jobs at this site.
    #[command(subcommand)]
    ApprovalKeys(approval_keys::ApprovalKeyAction),
    /// Manage the keys of other sites, which a group of secure aggregation needs.
    #[command(subcommand)]
    Peers(peers::PeerAction),
    /// Create a steward's key file, and approve jobs with it. Needs no site and no network.
    #[command(subcommand)]
    StewardKey(steward_key::StewardKeyAction),
    /// Show the jobs proposed to this site, with their decisions and outcomes; or show one job in full.
    Jobs {
        /// The job's id, or a unique prefix: shows its manifest, its charge and the judgement of this site.
        job: Option<String>,
    },
    /// Approve a proposed job, for exactly the manifest that `jobs` shows.
    Approve {
        /// The job's id, or a unique prefix.
        job: String,
        /// This site's answer to a term that the proposal leaves to it: `noise_multiplier=2`, `rounds=20`. Repeat it for
        /// each term; an omitted one keeps the proposal's value.
        #[arg(long = "term", value_name = "NAME=VALUE")]
        terms: Vec<String>,
    },
    /// Hold a job: this site stops its part, and the deadlines of every participant stop.
    Hold {
        /// The job's id, or a unique prefix.
        job: String,
        /// The reason, which the other participants can read.
        #[arg(long)]
        reason: String,
    },
    /// Leave a job for good: this site stops its part, and its unpaid reservation returns. The job continues without it
    /// while its quorum allows.
    Leave {
        /// The job's id, or a unique prefix.
        job: String,
        /// The reason, which the other participants can read.
        #[arg(long)]
        reason: String,
    },
    /// Release a job that this site holds.
    Release {
        /// The job's id, or a unique prefix.
        job: String,
    },
    /// Refuse a proposed job, or end a running one.
    Refuse {
        /// The job's id, or a unique prefix.
        job: String,
        /// The reason, which the proposer can read.
        #[arg(long)]
        reason: String,
    },
}

/// Any error with its exit code.
struct CommandFailure {
    code: u8,
    error: Box<dyn Error + Send + Sync>,
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for CommandFailure {
    fn from(error: E) -> Self {
        Self { code: 1, error: error.into() }
    }
}

/// Parses a public key of the command line.
fn parse_key(text: &str) -> Result<VerifyingKey, String> {
    public_key(text).map_err(|_| "not an Ed25519 public key (64 hex digits)".to_owned())
}

/// Returns the folder of a dataset of this site, for the option `--dataset`.
fn find_dataset(folder: &Folder, name: &str) -> Result<PathBuf, CommandFailure> {
    let path = folder.dataset(name)?;
    if path.is_dir() {
        return Ok(path);
    }
    Err(format!("--dataset: this site has no dataset `{name}`; `undertone-worker data list` shows its datasets").into())
}

/// Runs the command in `args` (the first is the program's name); prints to standard output and standard error.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match CommandLine::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(early_exit) => {
            // Help and version are not errors. A closed standard output has no reader for an error message.
            drop(early_exit.print());
            return ExitCode::from(u8::try_from(early_exit.exit_code()).unwrap_or(2));
        }
    };
    // Confinement comes before the first program starts. Commands that need the configuration report its errors.
    let folder = Folder::new(&arguments.site);
    let programs = crate::config::Config::load(&folder).map(|config| config.programs).unwrap_or_default();
    crate::speech::sandbox::confine(folder.root(), programs);
    match run_command(&arguments, &mut output::PipeOutput::new(std::io::stdout())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {}", format_error(&*failure.error));
            ExitCode::from(failure.code)
        }
    }
}

fn run_command(arguments: &CommandLine, out: &mut dyn Write) -> Result<(), CommandFailure> {
    let folder = Folder::new(&arguments.site);
    let clock = clock::system();
    match &arguments.command {
        WorkerCommand::Enroll { token, proxy, proxy_ca } => {
            Ok(enroll::run(&folder, token, proxy.as_deref(), proxy_ca.as_deref(), out)?)
        }
        WorkerCommand::Run(options) => serve::run(&folder, options),
        WorkerCommand::Data(data) => Ok(data.run(&folder, clock(), out)?),
        WorkerCommand::Tune(tune) => tune.run(&folder, out),
        WorkerCommand::Evaluate(evaluate) => evaluate.run(&folder, out),
        WorkerCommand::Predict(predict) => predict.run(out),
        WorkerCommand::Export(export) => export.run(out),
        WorkerCommand::Personalize(personalize) => personalize.run(&folder, out),
        WorkerCommand::Recognize(recognize) => recognize.run(&folder, out),
        WorkerCommand::Received(received) => received.run(&folder, out),
        WorkerCommand::Config(config::ConfigAction::Check { config }) => config::check(&folder, config.as_deref(), out),
        WorkerCommand::Doctor(doctor) => doctor.run(&folder, &clock, out),
        WorkerCommand::Backup(backup) => backup.run(&folder, clock(), out),
        WorkerCommand::Restore(restore) => restore.run(&folder, clock(), out),
        WorkerCommand::RotateKey => rotate::run(&folder, clock(), out),
        WorkerCommand::Thresholds(thresholds) => thresholds.run(out),
        WorkerCommand::Certificate(certificate) => certificate.run(&folder, out),
        WorkerCommand::Ledger(action) => ledger::run(&folder, action, clock(), out),
        WorkerCommand::Lineage(action) => lineage::run(&folder, action, clock(), out),
        WorkerCommand::Policy(policy::PolicyAction::Show) => policy::show(&folder, out),
        WorkerCommand::ApprovalKeys(action) => approval_keys::run(&folder, action, clock(), out),
        WorkerCommand::Peers(action) => peers::run(&folder, action, clock(), out),
        WorkerCommand::StewardKey(action) => steward_key::run(action, out),
        WorkerCommand::Jobs { job: None } => jobs::list(&folder, out),
        WorkerCommand::Jobs { job: Some(job) } => jobs::show_job(&folder, job, out),
        WorkerCommand::Hold { job, reason } => jobs::hold(&folder, job, Some(reason), clock(), out),
        WorkerCommand::Leave { job, reason } => jobs::leave(&folder, job, reason, clock(), out),
        WorkerCommand::Release { job } => jobs::hold(&folder, job, None, clock(), out),
        WorkerCommand::Approve { job, terms } => {
            jobs::decide(&folder, job, &jobs::TerminalAnswer::Approve { terms }, clock(), out)
        }
        WorkerCommand::Refuse { job, reason } => {
            jobs::decide(&folder, job, &jobs::TerminalAnswer::Refuse { reason }, clock(), out)
        }
    }
}

/// Returns an error with its causes, each once.
fn format_error(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text = format!("{text}\n  because: {message}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
