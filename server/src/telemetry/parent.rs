//! Traces of callers: the header `traceparent` (W3C Trace Context, level 1) of a request or call, with its
//! `tracestate`, makes the request's span a child of the caller's. An invalid header is ignored, as the recommendation
//! requires, and so are all headers if traces are disabled. The header does not identify a caller: it contains two
//! random numbers and a flag.

use http::{HeaderMap, HeaderName};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The header with the caller's span.
const PARENT: &str = "traceparent";

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(HeaderName::as_str).collect()
    }
}

/// Makes a span that has not been entered yet a child of the trace in these headers, if any.
pub(crate) fn follow(span: &Span, headers: &HeaderMap) {
    // A repeated header is invalid.
    if headers.get_all(PARENT).iter().count() != 1 {
        return;
    }
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
    if context.span().span_context().is_valid() {
        // Without a trace exporter the parent has no effect.
        let _ = span.set_parent(context);
    }
}
