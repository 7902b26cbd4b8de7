//! The command line of researchers. It asks a server over REST as any other client does: it has no rules of its own.
//! Certificates are verified on this machine, by the code of `undertone_certificate`.
//!
//! Exit statuses: 0 done; 1 failed, with the reason and the remedy in the message; 2 wrong arguments; 3 the answer is
//! negative: a plan that does not fit, a job without a result, a certificate that does not hold.
//!
//! To add a command: a variant of `CliCommand`, its file below `command`, its line in `run_command`, and its
//! document in `schema`.

mod client;
mod command;
mod output;
mod prompt;
mod reference;
mod schema;
mod store;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use undertone_api::id::JobId;
use undertone_api::problem::Problem;

use client::ClientError;
use output::CommandOutput;

/// The exit status of a negative answer.
const NEGATIVE: u8 = 3;

/// Plan, propose and follow jobs of an Undertone consortium, download their files, and verify their certificates.
#[derive(Debug, Parser)]
#[command(name = "undertone", version, max_term_width = 100)]
struct CommandLine {
    /// Print one JSON document; `undertone schema` shows its schema.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: CliCommand,
}

/// The consortium of a command.
#[derive(Debug, clap::Args)]
struct ConsortiumOption {
    /// The name or the id of the consortium; it may be omitted by members of one consortium.
    #[arg(long, env = "UNDERTONE_CONSORTIUM", value_name = "CONSORTIUM")]
    consortium: Option<String>,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Sign in to a server, and keep the session in a file that other users cannot read.
    ///
    /// Asks for the password, and for a code if the account has a second factor. If the standard input is no terminal, each
    /// is a line of it. `UNDERTONE_URL` and `UNDERTONE_KEY` together replace a sign-in. `UNDERTONE_CA` then names the file of
    /// the certificates (PEM) by which the server is recognized instead of the system's.
    SignIn(command::sign_in::SignInOptions),
    /// End the session at the server, and delete it here.
    SignOut,
    /// List your consortia.
    Consortia,
    /// List the datasets of a consortium with their budgets.
    Datasets {
        #[command(flatten)]
        consortium: ConsortiumOption,
    },
    /// Show the price of a job, its expected errors, and the nearest plans that fit. Proposes nothing.
    ///
    /// The exit status is 3 if the budgets do not admit the plan.
    Plan(command::plan::PlanOptions),
    /// Propose a job to the owners of its datasets.
    Propose(command::propose::ProposeOptions),
    /// List the jobs of a consortium, newest first.
    Jobs(command::jobs::JobsOptions),
    /// Show the progress of a job until it ends.
    ///
    /// The exit status is 0 if the job finished, and 3 if it was refused, was cancelled or failed.
    Watch {
        /// The id of the job.
        job: JobId,
    },
    /// Download the files of a job, and compare their SHA-256 with the server's record.
    Fetch(command::fetch::FetchOptions),
    /// Verify a certificate on this machine: signatures, receipts, counts and every figure.
    ///
    /// The exit status is 3 if a check fails.
    Verify(command::verify::VerifyOptions),
    /// Show the JSON Schema of the document that a command prints with `--json`.
    Schema {
        /// The command; `problem` is the document of a refusal.
        #[arg(value_parser = schema::NAMES)]
        command: String,
    },
    /// Print the completions of a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, and the reference in Markdown, to a folder.
    Manual {
        /// The folder, which must exist.
        folder: std::path::PathBuf,
    },
}

/// The answer of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CommandAnswer {
    /// The command did its work.
    Positive,
    /// The plan does not fit, the job has no result, or the certificate does not hold.
    Negative,
}

impl CommandAnswer {
    /// Returns [`Self::Positive`] if a condition holds.
    const fn from_condition(holds: bool) -> Self {
        if holds { Self::Positive } else { Self::Negative }
    }
}

/// The result of a command.
type CommandResult = Result<CommandAnswer, Box<dyn Error + Send + Sync>>;

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
    let is_json = arguments.json;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run_command(arguments)),
        Err(error) => Err(error.into()),
    };
    match result {
        Ok(CommandAnswer::Positive) => ExitCode::SUCCESS,
        Ok(CommandAnswer::Negative) => ExitCode::from(NEGATIVE),
        // The reader of the output left early, as `head` does. Commands with a negative answer return it all the same.
        Err(error) if output::is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            let message = match find_problem(&*error) {
                Some(problem) if is_json => output::format_json(problem).unwrap_or_default(),
                Some(problem) => output::format_problem(problem),
                None => format_error(&*error),
            };
            let prefix = if is_json && find_problem(&*error).is_some() { "" } else { "error: " };
            eprintln!("{prefix}{}", output::escape_controls(message.trim_end()));
            ExitCode::FAILURE
        }
    }
}

async fn run_command(arguments: CommandLine) -> CommandResult {
    let out = &mut CommandOutput::new(std::io::stdout(), arguments.json);
    match arguments.command {
        CliCommand::SignIn(options) => command::sign_in::run(&options, out).await,
        CliCommand::SignOut => command::sign_out::run(out).await,
        CliCommand::Consortia => command::consortia::run(out).await,
        CliCommand::Datasets { consortium } => command::datasets::run(&consortium, out).await,
        CliCommand::Plan(options) => command::plan::run(&options, out).await,
        CliCommand::Propose(options) => command::propose::run(&options, out).await,
        CliCommand::Jobs(options) => command::jobs::run(&options, out).await,
        CliCommand::Watch { job } => command::watch::run(job, out).await,
        CliCommand::Fetch(options) => command::fetch::run(&options, out).await,
        CliCommand::Verify(options) => command::verify::run(&options, out).await,
        CliCommand::Schema { command } => {
            out.print_json(&schema::describe(&command))?;
            Ok(CommandAnswer::Positive)
        }
        CliCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut CommandLine::command(), "undertone", &mut script);
            out.print_text(&String::from_utf8(script)?)?;
            Ok(CommandAnswer::Positive)
        }
        CliCommand::Manual { folder } => {
            reference::write_manual(&CommandLine::command(), &folder)?;
            Ok(CommandAnswer::Positive)
        }
    }
}

/// Returns the result of printing the last output of a command. The answer does not depend on a reader that left early.
///
/// # Errors
/// When the output cannot be written for another reason.
fn ignore_closed_pipe(printing: io::Result<()>) -> io::Result<()> {
    match printing {
        Err(error) if output::is_closed_pipe(&error) => Ok(()),
        printing => printing,
    }
}

/// Prints a note to the standard error. A closed standard error has no reader for it.
fn print_note(text: &str) {
    let _ = writeln!(io::stderr(), "{}", output::escape_controls(text.trim_end()));
}

/// Returns the server's problem behind an error.
fn find_problem<'a>(error: &'a (dyn Error + Send + Sync + 'static)) -> Option<&'a Problem> {
    error.downcast_ref::<ClientError>().and_then(ClientError::problem)
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
mod tests {
    use std::io;

    use super::ignore_closed_pipe;

    #[test]
    fn full_disk_behind_the_output_is_an_error() {
        assert!(ignore_closed_pipe(Err(io::ErrorKind::BrokenPipe.into())).is_ok());
        assert!(ignore_closed_pipe(Err(io::ErrorKind::StorageFull.into())).is_err());
    }
}
