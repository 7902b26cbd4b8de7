//! `undertone-demo`: a consortium with its workers on this machine, from an empty folder to a report. `make demo` builds
//! and starts it; nothing of it is part of the server's program.
//!
//! The server runs in this process; the demo founds everything through the service layer, as people would in a browser.
//! Each organization has its own site under the demo's folder and a real `undertone-worker` process, which has enrolled
//! with a token and knows only its own folder. To change the demo: `recipe.rs` (the data of each party), `job.rs` (the
//! training job), `questions.rs` (the questions to annotators), `transcription.rs` (the recordings of a clinic),
//! `visits.rs` (the tables and their job) and `tour.rs` (the stops of the guided tour).

mod consortium;
mod data;
mod follow;
mod job;
mod process;
mod questions;
mod recipe;
mod table;
mod tour;
mod transcription;
mod visits;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use undertone_server::{build, stop_on_signal, telemetry};
use undertone_server_core::config::LogConfig;
use undertone_server_core::ctx::{Clock, Random};
use undertone_server_core::error::Error;
use undertone_server_core::{Config, Ctx, StartError};

use consortium::DemoConsortium;
use process::{WorkerError, WorkerProgram};
use recipe::DemoRecipe;
use transcription::LocalRecognizers;

/// A consortium with its workers on this machine.
#[derive(Parser)]
#[command(version, about)]
struct DemoOptions {
    /// Configuration file (TOML) of the server. Every key can also be set in the environment: `UNDERTONE_HTTP`, `UNDERTONE_TLS__MODE`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A LibriSpeech-style folder with labels in `alignments/*.jsonl`; a small corpus is synthesized without it.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// End with the job: print its table and return 0 when it succeeded.
    #[arg(long)]
    exit: bool,
    /// Also train on the private data in the clear, for comparison: the owners open their data.
    #[arg(long)]
    open: bool,
    /// Where everything is kept; a temporary folder, removed in the end, without it.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The port of the dashboard.
    #[arg(long, default_value_t = 8420)]
    port: u16,
}

/// A reason why the demo failed.
#[derive(Debug, thiserror::Error)]
enum DemoError {
    /// The server cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The service layer refused an operation.
    #[error("{what}: {reason}")]
    Rule {
        /// The operation.
        what: &'static str,
        /// The reason of the refusal.
        reason: String,
    },
    /// A worker's program failed.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// The data folder cannot be used.
    #[error("{path}: {reason}")]
    Data {
        /// The path.
        path: PathBuf,
        /// The problem and its remedy.
        reason: String,
    },
    /// A file of the demo cannot be written.
    #[error("the demo's folder cannot be used: {0}")]
    Folder(#[from] io::Error),
    /// The job ended without a result.
    #[error("the job {0}")]
    Job(String),
    /// The demo was interrupted.
    #[error("stopped")]
    Stopped,
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = DemoOptions::parse();
    match Box::pin(start(&options)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("undertone-demo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the configuration, starts the log, and runs the demo.
async fn start(options: &DemoOptions) -> Result<(), Box<dyn std::error::Error>> {
    let config = default_config().overlaid(options.config.as_deref())?;
    // Lives until the end, when the last traces are sent.
    let _traces = telemetry::start(&config.log)?;
    Ok(Box::pin(run(options, config)).await?)
}

/// Returns the default configuration of a demo: the demo prints its own progress, so the log contains only warnings and
/// errors.
fn default_config() -> Config {
    Config { log: LogConfig { filter: "warn".to_owned(), ..LogConfig::default() }, ..Config::default() }
}

/// Returns a function that adds the operation to a refusal.
fn explain_refusal(what: &'static str) -> impl FnOnce(Error) -> DemoError {
    move |error| DemoError::Rule { what, reason: error.into_problem().detail }
}

/// Runs the server and the demo until the demo ends or a signal arrives.
///
/// # Errors
/// [`DemoError`] names the failure; with `--exit` also if the job did not succeed.
async fn run(options: &DemoOptions, config: Config) -> Result<(), DemoError> {
    let temporary = TemporaryFolder::unless_given(options.dir.as_ref())?;
    let dir = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;
    let program = WorkerProgram::find_sibling()?;
    let began = Instant::now();
    let config = Config {
        http: (config.http.ip(), options.port).into(),
        grpc: (config.grpc.ip(), 0).into(),
        data_dir: dir.join("server"),
        ..config
    };
    let app = build(config, Clock::system(), Random::system()).await?;
    let ctx = app.ctx.clone();
    stop_on_signal(ctx.clone());
    let server = tokio::spawn(app.serve());
    let outcome = tokio::select! {
        outcome = play(&ctx, options, &dir, &program, began) => outcome,
        () = ctx.shutdown.cancelled() => Err(DemoError::Stopped),
    };
    ctx.shutdown.cancel();
    match server.await {
        Ok(end) => end?,
        Err(error) => return Err(DemoError::Job(format!("'s server failed: {error}"))),
    }
    match outcome {
        // A demo that serves until it is interrupted ends normally by interruption.
        Err(DemoError::Stopped) if !options.exit => Ok(()),
        outcome => outcome,
    }
}

/// Founds the consortium, starts the sites, launches the jobs and prints their progress.
async fn play(
    ctx: &Ctx,
    options: &DemoOptions,
    dir: &Path,
    program: &WorkerProgram,
    began: Instant,
) -> Result<(), DemoError> {
    let recipe = DemoRecipe::new(options.data.as_deref(), options.open)?;
    let consortium = DemoConsortium::establish(ctx, &recipe).await?;
    consortium.print(ctx, dir);
    consortium.offer_accounts(ctx);
    // The recognizers and the worker processes end when these values are dropped, however the demo ends.
    let recognizers = LocalRecognizers::start().await?;
    let _workers = data::start_sites(ctx, dir, program, &recipe, &consortium, recognizers.as_ref()).await?;
    let described = visits::launch(ctx, &consortium).await?;
    let job = job::launch(ctx, &recipe, &consortium).await?;
    println!(
        "[{:>4} s] the job is proposed and approved: {}/c/{}/jobs/{job}",
        began.elapsed().as_secs(),
        ctx.addresses.http,
        consortium.id
    );
    let asking = questions::launch(ctx, &consortium).await?;
    let transcription = match &recognizers {
        Some(_) => Some(transcription::launch(ctx, &consortium).await?),
        None => None,
    };
    tour::offer(consortium.id, &tour::DemoJobs { training: job, asking, described, transcription });
    let end = {
        let mut training = std::pin::pin!(follow::follow_job(ctx, &consortium, job, began));
        let mut announcement = std::pin::pin!(questions::announce(ctx, &consortium, asking, began));
        tokio::select! {
            end = &mut training => {
                if !options.exit {
                    announcement.await;
                }
                end
            }
            () = &mut announcement => training.await,
        }
    };
    if let Ok(job) = &end {
        println!("\n{}", table::report(job));
    }
    let transcribed = match transcription {
        Some(job) => transcription::follow(ctx, &consortium, job, began).await,
        None => Ok(()),
    };
    let described = visits::follow(ctx, &consortium, described, began).await;
    let end = end.map(|_| ()).and(transcribed).and(described);
    if options.exit {
        return end;
    }
    if let Err(error) = end {
        println!("{error}");
    }
    print_banner(&format!("Undertone keeps serving at {} until you press Ctrl-C.", ctx.addresses.http));
    ctx.shutdown.cancelled().await;
    Err(DemoError::Stopped)
}

/// Prints a line that stands out from the others.
fn print_banner(line: &str) {
    let rule = "━".repeat(line.chars().count() + 2);
    println!("\n  {rule}\n   {line}\n  {rule}\n");
}

/// A folder that is removed when the demo ends.
struct TemporaryFolder(Option<PathBuf>);

impl TemporaryFolder {
    fn unless_given(folder: Option<&PathBuf>) -> io::Result<Self> {
        if folder.is_some() {
            return Ok(Self(None));
        }
        let name = format!("undertone-demo-{}", hex::encode(Random::system().bytes::<8>()));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(Some(path)))
    }

    fn path(&self) -> &Path {
        self.0.as_deref().unwrap_or(Path::new("."))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // A folder that cannot be removed stays in the system's temporary folder.
            let _ = std::fs::remove_dir_all(path);
        }
    }
}
