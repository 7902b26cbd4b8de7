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

use super::CommandFailure;
use crate::config::Config;
use crate::daemon;
use crate::dp::device::{Compute, Processor};
use crate::site::folder::Folder;
use crate::telemetry::TraceExporter;

/// Run the worker until it is interrupted.
#[derive(Debug, Args)]
pub(super) struct RunCommand {
    /// The format of the log.
    #[arg(long, value_enum, default_value_t = LogLineFormat::Text, env = "UNDERTONE_LOG_FORMAT")]
    log_format: LogLineFormat,
    /// The log filter: `info`, `debug`, or `undertone_worker=debug,info`.
    #[arg(long, default_value = "info", env = "UNDERTONE_LOG", value_name = "FILTER")]
    log: String,
    /// The compute device: `cpu`, `cuda[:n]` or `wgpu[:n]`; by default the device in `[compute]` of `config.toml`.
    #[arg(long, env = "UNDERTONE_DEVICE", value_name = "DEVICE")]
    device: Option<Processor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogLineFormat {
    /// One line of text an event.
    Text,
    /// One JSON object an event.
    Json,
}

pub(super) fn run(folder: &Folder, options: &RunCommand) -> Result<(), CommandFailure> {
    let filter = build_filter(&options.log)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let traces = {
        let _within = runtime.enter();
        TraceExporter::begin()?
    };
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match options.log_format {
        LogLineFormat::Json => log.json().boxed(),
        LogLineFormat::Text => log.with_ansi(std::io::stderr().is_terminal()).boxed(),
    };
    tracing_subscriber::registry().with(log.with_filter(filter)).with(traces.layer()).init();
    for wall in crate::speech::sandbox::missing_walls() {
        tracing::warn!(remedy = wall.remedy, "{}", wall.problem);
    }
    let configured = Config::load(folder)?.compute;
    let compute = Compute { device: options.device.unwrap_or(configured.device), ..configured };
    tracing::info!(compute = compute.choose()?, "the compute device is ready");
    let result = runtime.block_on(async {
        let stop = CancellationToken::new();
        let interrupted = stop.clone();
        tokio::spawn(async move {
            wait_for_signal().await;
            tracing::info!("the worker stops; its runs continue from their checkpoints after the next start");
            interrupted.cancel();
        });
        daemon::run(folder.root(), stop).await
    });
    drop(traces);
    // A run that did not stop in time is as safe as after a crash.
    runtime.shutdown_background();
    Ok(result?)
}

/// Returns the log filter: the requested one, but without the content of websockets. At `trace` the websocket library
/// logs every message, and these contain recordings and words.
fn build_filter<S: Subscriber>(directives: &str) -> Result<impl Filter<S> + use<S>, ParseError> {
    let silent = filter_fn(|metadata| !metadata.target().starts_with("tungstenite"));
    Ok(EnvFilter::try_new(directives)?.and(silent.with_max_level_hint(LevelFilter::TRACE)))
}

#[cfg(unix)]
async fn wait_for_signal() {
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
async fn wait_for_signal() {
    drop(tokio::signal::ctrl_c().await);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may fail")]

    use std::fs::File;
    use std::sync::Arc;

    use super::*;

    #[test]
    fn log_at_trace_level_omits_websocket_messages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let file = Arc::new(File::create(&path).unwrap());
        let log = tracing_subscriber::fmt::layer().with_writer(file);
        let filter = build_filter("trace,tungstenite=trace,tungstenite::protocol=trace").unwrap();
        let subscriber = tracing_subscriber::registry().with(log.with_filter(filter));
        tracing::subscriber::with_default(subscriber, || {
            tracing::trace!(target: "tungstenite::protocol", "Received message: the secret");
            tracing::error!(target: "tungstenite", "the secret");
            tracing::trace!("ours");
        });
        let log = std::fs::read_to_string(&path).unwrap();
        assert!(log.contains("ours") && !log.contains("secret"), "{log}");
    }
}
