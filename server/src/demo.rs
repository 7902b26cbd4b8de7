//! `undertone-server demo`: a consortium with its workers on this machine, from an empty folder to a report.
//!
//! The server runs in this process; the demo founds everything through the service layer, as people would in a browser.
//! Each organization has its own site under the demo's folder and a real `undertone-worker` process, which has enrolled
//! with a token and knows only its own folder. To change the demo: `demo/recipe.rs` (the data of each party),
//! `demo/job.rs` (the training job) and `demo/questions.rs` (the questions to annotators).

mod data;
mod follow;
mod found;
mod job;
mod process;
mod questions;
mod recipe;
mod table;

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use self::found::Consortium;
use self::process::{Program, WorkerError};
use self::recipe::Recipe;
use crate::build;
use undertone_server_core::config::LogConfig;
use undertone_server_core::ctx::{Clock, Ctx, Random};
use undertone_server_core::error::Error;
use undertone_server_core::{Config, StartError};

/// How to run the demo.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// A LibriSpeech-style folder with labels in `alignments/*.jsonl`; a small corpus is synthesized without it.
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// End with the job: print its table and return 0 when it succeeded.
    #[arg(long)]
    exit: bool,
    /// Where everything is kept; a temporary folder, removed in the end, without it.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The port of the dashboard.
    #[arg(long, default_value_t = 8420)]
    port: u16,
}

/// A reason why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
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

/// Returns the default configuration of a demo: the demo prints its own progress, so the log contains only warnings and
/// errors.
pub fn built_in() -> Config {
    Config { log: LogConfig { filter: "warn".to_owned(), ..LogConfig::default() }, ..Config::default() }
}

/// Returns a function that adds the operation to a refusal.
fn rule(what: &'static str) -> impl FnOnce(Error) -> DemoError {
    move |error| DemoError::Rule { what, reason: error.into_problem().detail }
}

/// Runs the demo. `stop` is called with the server's context as soon as it exists, to connect signals to its shutdown.
///
/// # Errors
/// [`DemoError`] names the failure; with `--exit` also if the job did not succeed.
pub async fn run(options: Options, config: Config, stop: impl FnOnce(Ctx)) -> Result<(), DemoError> {
    let temporary = TemporaryFolder::unless(options.dir.as_ref())?;
    let dir = options.dir.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&dir)?;
    let dir = dir.canonicalize()?;
    let program = Program::beside_this_one()?;
    let began = Instant::now();
    let config = Config {
        http: (config.http.ip(), options.port).into(),
        grpc: (config.grpc.ip(), 0).into(),
        data_dir: dir.join("server"),
        ..config
    };
    let app = build(config, Clock::system(), Random::system()).await?;
    let ctx = app.ctx.clone();
    stop(ctx.clone());
    let serving = tokio::spawn(app.serve());
    let played = tokio::select! {
        played = play(&ctx, &options, &dir, &program, began) => played,
        () = ctx.shutdown.cancelled() => Err(DemoError::Stopped),
    };
    ctx.shutdown.cancel();
    match serving.await {
        Ok(served) => served?,
        Err(error) => return Err(DemoError::Job(format!("'s server failed: {error}"))),
    }
    match played {
        // A demo that serves until it is interrupted ends normally by interruption.
        Err(DemoError::Stopped) if !options.exit => Ok(()),
        played => played,
    }
}

async fn play(
    ctx: &Ctx,
    options: &Options,
    dir: &std::path::Path,
    program: &Program,
    began: Instant,
) -> Result<(), DemoError> {
    let recipe = Recipe::of(options.data.as_deref())?;
    let consortium = Consortium::found(ctx, &recipe).await?;
    consortium.print(ctx, dir);
    // The worker processes end when this value is dropped, however the demo ends.
    let _workers = data::bring_up(ctx, dir, program, &recipe, &consortium).await?;
    let job = job::launch(ctx, &recipe, &consortium).await?;
    println!(
        "[{:>4} s] the job is proposed and approved: {}/c/{}/jobs/{job}",
        began.elapsed().as_secs(),
        ctx.addresses.http,
        consortium.id
    );
    let asking = questions::launch(ctx, &consortium).await?;
    let ended = {
        let followed = follow::to_the_end(ctx, &consortium, job, began);
        let told = questions::tell(ctx, &consortium, asking, began);
        let (mut followed, mut told) = (std::pin::pin!(followed), std::pin::pin!(told));
        tokio::select! {
            ended = &mut followed => {
                if !options.exit {
                    told.await;
                }
                ended
            }
            () = &mut told => followed.await,
        }
    };
    if let Ok(finished) = &ended {
        println!("\n{}", table::report(finished));
    }
    if options.exit {
        return ended.map(|_| ());
    }
    if let Err(error) = ended {
        println!("{error}");
    }
    stand_out(&format!("Undertone keeps serving at {} until you press Ctrl-C.", ctx.addresses.http));
    ctx.shutdown.cancelled().await;
    Err(DemoError::Stopped)
}

/// Prints a line that stands out from the others.
fn stand_out(line: &str) {
    let rule = "━".repeat(line.chars().count() + 2);
    println!("\n  {rule}\n   {line}\n  {rule}\n");
}

/// A folder that is removed when the demo ends.
struct TemporaryFolder(Option<PathBuf>);

impl TemporaryFolder {
    fn unless(given: Option<&PathBuf>) -> io::Result<Self> {
        if given.is_some() {
            return Ok(Self(None));
        }
        let name = format!("undertone-demo-{}", hex::encode(Random::system().bytes::<8>()));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(Some(path)))
    }

    fn path(&self) -> &std::path::Path {
        self.0.as_deref().unwrap_or(std::path::Path::new("."))
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
