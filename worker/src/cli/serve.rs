//! `run`: starts the daemon, with its log and its signals.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use tokio_util::sync::CancellationToken;
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::{FilterExt as _, ParseError, filter_fn};
use tracing_subscriber::layer::{Filter, SubscriberExt as _};
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
    let filter = filter(&run.log)?;
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
    for wall in crate::speech::sandbox::missing_walls() {
        tracing::warn!(remedy = wall.remedy, "{}", wall.problem);
    }
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

/// Returns the log filter: the requested one, but without the content of websockets. At `trace` the websocket library
/// logs every message, and these contain recordings and words.
fn filter<S: Subscriber>(asked: &str) -> Result<impl Filter<S> + use<S>, ParseError> {
    let silent = filter_fn(|metadata| !metadata.target().starts_with("tungstenite"));
    Ok(EnvFilter::try_new(asked)?.and(silent.with_max_level_hint(LevelFilter::TRACE)))
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::fs::File;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_log_of_everything_has_nothing_of_what_goes_over_a_websocket() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let written = Arc::new(File::create(&path).unwrap());
        let log = tracing_subscriber::fmt::layer().with_writer(written);
        let asked = filter("trace,tungstenite=trace,tungstenite::protocol=trace").unwrap();
        let subscriber = tracing_subscriber::registry().with(log.with_filter(asked));
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: "tungstenite::protocol", "Received message: the secret");
            tracing::error!(target: "tungstenite", "the secret");
            tracing::trace!("ours");
        });
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(log.contains("ours") && !log.contains("secret"), "{log}");
    }
}
