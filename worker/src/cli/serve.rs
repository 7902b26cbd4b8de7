//! `run`: the daemon, with its log and its signals.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _};

use super::Failure;
use crate::config::Config;
use crate::daemon;
use crate::dp::device::{Compute, Processor};
use crate::site::folder::Folder;
use crate::telemetry::Traces;

/// Run the worker until it is interrupted.
#[derive(Debug, Args)]
pub(super) struct Run {
    /// How the log is written.
    #[arg(long, value_enum, default_value_t = Format::Text, env = "UNDERTONE_LOG_FORMAT")]
    log_format: Format,
    /// What is logged: `info`, `debug`, or `undertone_worker=debug,info`.
    #[arg(long, default_value = "info", env = "UNDERTONE_LOG", value_name = "FILTER")]
    log: String,
    /// What computes: `cpu`, `cuda[:n]` or `wgpu[:n]`; otherwise what `config.toml` says under `[compute]`.
    #[arg(long, env = "UNDERTONE_DEVICE", value_name = "DEVICE")]
    device: Option<Processor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line for people.
    Text,
    /// One JSON object a line.
    Json,
}

pub(super) fn run(folder: &Folder, run: &Run) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(&run.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let traces = {
        let _within = runtime.enter();
        Traces::begin()?
    };
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match run.log_format {
        Format::Json => log.json().boxed(),
        Format::Text => log.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    tracing_subscriber::registry().with(log.with_filter(filter)).with(traces.layer()).init();
    let configured = Config::load(folder)?.compute;
    let compute = Compute { device: run.device.unwrap_or(configured.device), ..configured };
    tracing::info!(compute = compute.choose()?, "computing is ready");
    let ended = runtime.block_on(async {
        let stop = CancellationToken::new();
        let interrupted = stop.clone();
        tokio::spawn(async move {
            signal().await;
            tracing::info!("stopping; runs go on from their checkpoints when the worker is started again");
            interrupted.cancel();
        });
        daemon::run(folder.root(), stop).await
    });
    drop(traces);
    // A run that did not stop in time is as safe as after a crash.
    runtime.shutdown_background();
    Ok(ended?)
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(_) => drop(tokio::signal::ctrl_c().await),
    }
}

#[cfg(not(unix))]
async fn signal() {
    drop(tokio::signal::ctrl_c().await);
}
