//! Logs and traces: a sentence plus dotted fields; never tokens, e-mail, audio, transcripts or queries.
//!
//! Logs go to the standard error, as text or as JSON lines. Traces go by OTLP (gRPC) to the collector in the
//! environment variable `OTEL_EXPORTER_OTLP_ENDPOINT`; without it there are none. The other variables of OpenTelemetry
//! apply too (`OTEL_SERVICE_NAME`, `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`). To
//! trace one more thing: a span.

mod parent;
#[cfg(test)]
mod tests;

use std::io::IsTerminal as _;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::Subscriber;
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer};

use undertone_server_core::config::LogConfig;

pub(crate) use parent::follow;

/// The default service name in traces, unless the environment sets another.
const NAME: &str = "undertone-server";
/// The variables that name a collector.
const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// A reason why logs or traces cannot start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter cannot be read.
    #[error("cannot parse log.filter: {0}")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// The collector's address cannot be used.
    #[error("cannot use OTEL_EXPORTER_OTLP_ENDPOINT: {0}")]
    Collector(#[from] opentelemetry_otlp::ExporterBuildError),
}

/// The running trace exporter; dropping it sends the remaining traces.
#[derive(Debug, Default)]
#[must_use = "dropped, it ends the traces"]
pub struct TraceExporter(Option<SdkTracerProvider>);

impl Drop for TraceExporter {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take()
            && let Err(error) = provider.shutdown()
        {
            eprintln!("cannot send the last traces: {error}");
        }
    }
}

/// Starts logging, and traces if the environment names a collector. Only `main` calls this, once, within the runtime; a
/// second call changes nothing.
///
/// # Errors
/// [`TelemetryError`].
pub fn start(config: &LogConfig) -> Result<TraceExporter, TelemetryError> {
    let filter = EnvFilter::try_new(&config.filter)?;
    let provider = if is_collector_configured(|name| std::env::var(name).ok()) { Some(provider(None)?) } else { None };
    let logs = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let logs = if config.json {
        logs.json().flatten_event(true).boxed()
    } else {
        // Colours are for terminals: in a file or a journal they prevent searching.
        logs.with_ansi(std::io::stderr().is_terminal()).boxed()
    };
    let all = tracing_subscriber::registry().with(logs.with_filter(filter)).with(provider.as_ref().map(layer));
    // An existing logger (of a test harness) stays installed.
    let _ = all.try_init();
    Ok(TraceExporter(provider))
}

/// Returns whether the environment names a collector.
fn is_collector_configured(read: impl Fn(&str) -> Option<String>) -> bool {
    let off = read("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !off && COLLECTOR.into_iter().any(|name| read(name).is_some_and(|value| !value.is_empty()))
}

/// Makes the provider that sends spans to a collector, or to the environment's.
fn provider(collector: Option<&str>) -> Result<SdkTracerProvider, TelemetryError> {
    let mut exporter = SpanExporter::builder().with_tonic();
    if let Some(address) = collector {
        exporter = exporter.with_endpoint(address);
    }
    let mut resource = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
        resource = resource.with_service_name(NAME);
    }
    Ok(SdkTracerProvider::builder().with_batch_exporter(exporter.build()?).with_resource(resource.build()).build())
}

/// Returns the layer that exports this program's spans: requests, calls, transactions. Spans of libraries are excluded.
fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let spans: OpenTelemetryLayer<S, SdkTracer> = tracing_opentelemetry::layer().with_tracer(provider.tracer(NAME));
    spans.with_filter(Targets::new().with_target("undertone_server", LevelFilter::DEBUG))
}
