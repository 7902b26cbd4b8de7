use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{layer, provider, wanted};
use crate::testing::TestApp;

/// A collector: the service as OpenTelemetry defines it, keeping what it gets.
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

impl Collector {
    /// The names of the spans that came, each with its attributes as text.
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
    assert!(!wanted(environment(&[])));
    assert!(!wanted(environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "")])));
    assert!(wanted(environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")])));
    let off = &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317"), ("OTEL_SDK_DISABLED", "true")];
    assert!(!wanted(environment(off)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_and_its_transactions_reach_the_collector_without_a_secret() {
    let collector = Collector::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let service = TraceServiceServer::new(collector.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let app = TestApp::sqlite().await;
    let provider = provider(Some(&format!("http://{address}"))).expect("an exporter");
    let subscriber = tracing_subscriber::registry().with(layer(&provider));
    let asked = async {
        app.operator().await;
        let credentials = serde_json::json!({ "email": "operator@example.org", "password": crate::testing::PASSWORD });
        app.server.post("/api/v1/session").json(&credentials).await.assert_status_ok();
    };
    asked.with_subscriber(subscriber).await;
    let ended = provider.clone();
    tokio::task::spawn_blocking(move || ended.shutdown()).await.expect("no panic").expect("sent");

    let spans = collector.spans();
    let request = spans.iter().find(|(name, attributes)| name == "request" && attributes.contains("/api/v1/session"));
    assert!(request.is_some(), "{spans:?}");
    assert!(spans.iter().any(|(name, _)| name == "transaction"), "{spans:?}");
    let all = format!("{spans:?}");
    assert!(!all.contains("operator@example.org") && !all.contains(crate::testing::PASSWORD), "{all}");
    app.close().await;
}
