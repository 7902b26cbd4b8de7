use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{self, HeaderValue};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tower::{Layer as _, Service as _};
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{is_collector_configured, layer, provider};
use crate::metrics::CallLayer;
use crate::testing::TestApp;

/// A collector: OpenTelemetry's service, which stores the received requests.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// The trace of a caller, and its span.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

impl Collector {
    /// Serves on loopback until the test ends; returns its address.
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(self.clone()));
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        format!("http://{address}")
    }

    /// Returns the trace ids of the spans with this name, in order, each with the id of its parent span, hex.
    fn traces(&self, name: &str) -> Vec<(String, String)> {
        let came = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let scopes = came.iter().flat_map(|request| &request.resource_spans).flat_map(|resource| &resource.scope_spans);
        let mut spans: Vec<_> = scopes.flat_map(|scope| &scope.spans).filter(|span| span.name == name).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans.into_iter().map(|span| (hex::encode(&span.trace_id), hex::encode(&span.parent_span_id))).collect()
    }

    /// Returns the names of the received spans, each with its attributes as text.
    fn spans(&self) -> Vec<(String, String)> {
        let came = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let scopes = came.iter().flat_map(|request| &request.resource_spans).flat_map(|resource| &resource.scope_spans);
        scopes
            .flat_map(|scope| &scope.spans)
            .map(|span| (span.name.clone(), format!("{:?}", span.attributes)))
            .collect()
    }
}

#[test]
fn nothing_is_sent_unless_the_environment_names_a_collector() {
    let environment = |pairs: &'static [(&str, &str)]| {
        move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    assert!(!is_collector_configured(environment(&[])));
    assert!(!is_collector_configured(environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])));
    assert!(is_collector_configured(environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")])));
    let off = &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"), ("OTEL_SDK_DISABLED", "true")];
    assert!(!is_collector_configured(environment(off)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_of_a_request_reach_the_collector_without_secrets() {
    let collector = Collector::default();
    let address = collector.serve().await;

    let app = TestApp::sqlite().await;
    let provider = provider(Some(&address)).expect("an exporter");
    let subscriber = tracing_subscriber::registry().with(layer(&provider));
    let sign_in = async {
        app.operator().await;
        let credentials = serde_json::json!({ "email": "operator@example.org", "password": crate::testing::PASSWORD });
        app.server.post("/api/v1/session").json(&credentials).await.assert_status_ok();
    };
    sign_in.with_subscriber(subscriber).await;
    // The request's span ends with the body of its response, which the server may drop after the caller has it.
    let is_request =
        |(name, attributes): &(String, String)| name == "request" && attributes.contains("/api/v1/session");
    let delivery = async {
        while !collector.spans().iter().any(is_request) {
            let flushed = provider.clone();
            tokio::task::spawn_blocking(move || flushed.force_flush()).await.expect("no panic").expect("sent");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let delivery = tokio::time::timeout(std::time::Duration::from_mins(2), delivery).await;
    let ended = provider.clone();
    tokio::task::spawn_blocking(move || ended.shutdown()).await.expect("no panic").expect("sent");

    let spans = collector.spans();
    assert!(delivery.is_ok(), "{spans:?}");
    assert!(spans.iter().any(|(name, _)| name == "transaction"), "{spans:?}");
    let all = format!("{spans:?}");
    assert!(!all.contains("operator@example.org") && !all.contains(crate::testing::PASSWORD), "{all}");
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn valid_traceparent_is_continued_and_a_malformed_one_ignored() {
    let collector = Collector::default();
    let address = collector.serve().await;
    let app = TestApp::sqlite().await;
    let provider = provider(Some(&address)).expect("an exporter");
    let subscriber = tracing_subscriber::registry().with(layer(&provider));
    let good = format!("00-{TRACE}-{SPAN}-01");
    let odd = [
        String::new(),
        "nonsense".to_owned(),
        format!("00-{TRACE}-{SPAN}"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("00-{}-{SPAN}-01", "0".repeat(32)),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
    ];
    let headers: Vec<&String> = std::iter::once(&good).chain(&odd).collect();
    let requests = async {
        let answers = tower::service_fn(|_: http::Request<()>| async {
            Ok::<_, std::convert::Infallible>(http::Response::new(()))
        });
        let mut calls = CallLayer::new(app.ctx.metrics.clone(), BTreeSet::from(["/a.B/C".to_owned()])).layer(answers);
        for header in &headers {
            let value = HeaderValue::from_str(header).expect("visible characters");
            app.server.get("/api/v1/me").add_header("traceparent", value).await.assert_status_unauthorized();
            let call = http::Request::builder().uri("/a.B/C").header("traceparent", header.as_str());
            calls.call(call.body(()).expect("a request")).await.expect("it cannot fail");
        }
        let twice = http::Request::builder().uri("/a.B/C").header("traceparent", &good).header("traceparent", &good);
        calls.call(twice.body(()).expect("a request")).await.expect("it cannot fail");
    };
    requests.with_subscriber(subscriber).await;
    let ended = provider.clone();
    tokio::task::spawn_blocking(move || ended.shutdown()).await.expect("no panic").expect("sent");

    for (name, many) in [("request", headers.len()), ("call", headers.len() + 1)] {
        let traces = collector.traces(name);
        assert_eq!(traces.len(), many, "{name}");
        assert_eq!(traces[0], (TRACE.to_owned(), SPAN.to_owned()), "{name}");
        for (trace, parent) in &traces[1..] {
            assert!(trace != TRACE && trace.len() == 32 && parent.is_empty(), "{name}: {trace} {parent}");
        }
    }
    app.close().await;
}
