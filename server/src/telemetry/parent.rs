//! Traces that callers began: the header `traceparent` (W3C Trace Context, level 1) of a request or call, with its `tracestate`, makes
//! the span of it a part of theirs. What cannot be read is ignored, as the recommendation says, and so is everything where no traces
//! are made. Nothing here names a caller: the header holds two random numbers and a flag.

use http::{HeaderMap, HeaderName};
use opentelemetry::Context;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::TraceContextExt as _;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Where a caller names its span.
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

/// Makes a span that has not been entered yet a part of the trace that these headers name, if they name one.
pub(crate) fn follow(span: &Span, headers: &HeaderMap) {
    // Said twice it says nothing.
    if headers.get_all(PARENT).iter().count() != 1 {
        return;
    }
    let context = TraceContextPropagator::new().extract_with_context(&Context::new(), &Headers(headers));
    if context.span().span_context().is_valid() {
        // Where nothing is traced there is nobody to tell.
        let _ = span.set_parent(context);
    }
}
