//! Logs. A sentence plus dotted fields; never tokens, e-mail, audio, transcripts or queries.

use tracing_subscriber::EnvFilter;

use crate::config::LogConfig;

/// Starts logging to the standard error. Only `main` calls this, once; a second call changes nothing.
///
/// # Errors
/// When the filter cannot be read.
pub fn start(config: &LogConfig) -> Result<(), tracing_subscriber::filter::ParseError> {
    let filter = EnvFilter::try_new(&config.filter)?;
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A logger that is there already (a test harness) keeps its place.
    let _ = if config.json { logs.json().flatten_event(true).try_init() } else { logs.try_init() };
    Ok(())
}
