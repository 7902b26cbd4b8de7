//! Traces of a site's rounds, for the site's own operator: by OTLP (gRPC) to the collector in
//! `OTEL_EXPORTER_OTLP_ENDPOINT`, and nowhere without it. A round is one span (its job, series and number). Its calls
//! send the span to the server in `traceparent` (W3C Trace Context), and the server's spans are then part of the same
//! trace. Both contain only ids and times.
//!
//! Only spans that are made here are sent, no log lines: those may contain confidential facts of the site. To trace one
//! more thing: a function that makes its span.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;
use undertone_api::id::JobId;

/// The worker's name in traces of several programs, unless the environment sets another.
const NAME: &str = "undertone-worker";
/// The variables that name a collector.
const COLLECTOR: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
/// The target of the exported spans, and of nothing else.
const TARGET: &str = "undertone_worker::trace";

/// The active tracing; pending spans are sent when it is dropped.
#[derive(Debug, Default)]
#[must_use = "dropping it ends the export"]
pub struct TraceExporter(Option<SdkTracerProvider>);

impl TraceExporter {
    /// Begins tracing, if the environment names a collector. Call it within the runtime that sends the spans.
    ///
    /// # Errors
    /// When the collector's address cannot be used.
    pub fn begin() -> Result<Self, ExporterBuildError> {
        if !is_configured(|name| std::env::var(name).ok()) {
            return Ok(Self::default());
        }
        let exporter = SpanExporter::builder().with_tonic().build()?;
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name(NAME);
        }
        let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.build());
        Ok(Self(Some(provider.build())))
    }

    /// Returns the layer that exports the spans; `None` without a collector.
    pub fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        self.0.as_ref().map(layer::<S>)
    }
}

impl Drop for TraceExporter {
    fn drop(&mut self) {
        if let Some(provider) = self.0.take()
            && let Err(error) = provider.shutdown()
        {
            eprintln!("cannot send the last traces: {error}");
        }
    }
}

/// Makes the span of a round.
pub(crate) fn round_span(job: JobId, series: &str, round: u32) -> Span {
    tracing::info_span!(target: TARGET, parent: None, "round", job.id = %job, series, round)
}

/// Returns the headers that make a call part of the present span's trace; none without a trace.
pub(crate) fn trace_headers() -> HashMap<String, String> {
    let mut headers = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut headers);
    // An empty trace state is not sent.
    headers.retain(|_, value| !value.is_empty());
    headers
}

/// Returns whether the environment names a collector.
fn is_configured(read: impl Fn(&str) -> Option<String>) -> bool {
    let off = read("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
    !off && COLLECTOR.into_iter().any(|name| read(name).is_some_and(|value| !value.is_empty()))
}

fn layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + use<S>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let spans: OpenTelemetryLayer<S, SdkTracer> = tracing_opentelemetry::layer().with_tracer(provider.tracer(NAME));
    spans.with_filter(filter_fn(|metadata| metadata.is_span() && metadata.target() == TARGET))
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::trace::SdkTracerProvider;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::{is_configured, layer, round_span, trace_headers};
    use crate::fixture::JOB;

    #[test]
    fn traces_need_a_collector_in_the_environment() {
        let environment = |pairs: &'static [(&str, &str)]| {
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        assert!(!is_configured(environment(&[])));
        assert!(!is_configured(environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])));
        assert!(is_configured(environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")])));
        let off = &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"), ("OTEL_SDK_DISABLED", "true")];
        assert!(!is_configured(environment(off)));
    }

    #[test]
    fn calls_of_a_round_have_the_trace_of_the_round() {
        let provider = SdkTracerProvider::builder().build();
        let subscriber = tracing_subscriber::registry().with(layer(&provider));
        let (first, again, other, outside) = tracing::subscriber::with_default(subscriber, || {
            let one = round_span(JOB, "private", 1);
            let two = round_span(JOB, "private", 2);
            (one.in_scope(trace_headers), one.in_scope(trace_headers), two.in_scope(trace_headers), trace_headers())
        });
        let parent = &first["traceparent"];
        let parts: Vec<&str> = parent.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [2, 32, 16, 2], "{parent}");
        assert!(first.len() == 1 && parts[0] == "00", "{first:?}");
        assert_eq!(first, again);
        assert!(!other["traceparent"].contains(parts[1]), "each round has a trace of its own");
        assert!(outside.is_empty(), "{outside:?}");
    }

    #[test]
    fn calls_without_a_collector_have_no_trace_headers() {
        let subscriber = tracing_subscriber::registry();
        let headers =
            tracing::subscriber::with_default(subscriber, || round_span(JOB, "private", 1).in_scope(trace_headers));
        assert!(headers.is_empty(), "{headers:?}");
    }
}
