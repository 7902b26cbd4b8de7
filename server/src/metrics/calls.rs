//! A layer around every gRPC call: the time until the response began, and a trace span.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::time::Instant;
use tower::{Layer, Service};
use tracing::Instrument as _;

use undertone_server_core::metrics::Metrics;

use crate::telemetry;

/// Counts and times the calls that pass it.
#[derive(Debug, Clone)]
pub struct CallLayer {
    metrics: Metrics,
    methods: Arc<BTreeSet<String>>,
}

impl CallLayer {
    /// Makes the layer for these methods, as `/package.Service/Method`; other methods are counted as `none`.
    pub fn new(metrics: Metrics, methods: BTreeSet<String>) -> Self {
        Self { metrics, methods: Arc::new(methods) }
    }
}

impl<S> Layer<S> for CallLayer {
    type Service = MeasuredService<S>;

    fn layer(&self, inner: S) -> MeasuredService<S> {
        MeasuredService { inner, layer: self.clone() }
    }
}

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub struct MeasuredService<S> {
    inner: S,
    layer: CallLayer,
}

impl<S, B, R> Service<Request<B>> for MeasuredService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Future: Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let method = if self.layer.methods.contains(path) { path.to_owned() } else { "none".to_owned() };
        let span = tracing::info_span!("call", rpc.method = method, rpc.code = tracing::field::Empty);
        telemetry::follow(&span, request.headers());
        let metrics = self.layer.metrics.clone();
        let began = Instant::now();
        let within = span.clone();
        let answer = self.inner.call(request);
        let response = async move {
            let answer = answer.await;
            let code = answer.as_ref().map_or("Unknown", |answer| code(answer.headers()));
            within.record("rpc.code", code);
            metrics.record_call(method, code, began.elapsed());
            answer
        };
        Box::pin(response.instrument(span))
    }
}

/// Returns the code of an immediate failure; a response that has begun counts as `Ok`, and may still fail.
fn code(headers: &http::HeaderMap) -> &'static str {
    const NAMES: [&str; 17] = [
        "Ok",
        "Cancelled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];
    let number =
        headers.get("grpc-status").and_then(|value| value.to_str().ok()).map_or(Some(0), |text| text.parse().ok());
    number.and_then(|number: usize| NAMES.get(number).copied()).unwrap_or("Unknown")
}
