//! The limits of a connection attempt, of a silent connection and of a message's size, each at its value and one
//! beyond.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use prost::Message as _;
use tokio::io::DuplexStream;
use tokio::time::Instant;
use tonic::codegen::Service;
use tonic::transport::Uri;
use undertone_proto::v1;
use undertone_proto::v1::worker_gateway_client::WorkerGatewayClient;

use super::gateway;
use crate::config::ServerEndpoint;
use crate::gateway::fake::start;
use crate::gateway::{CONNECT, KEEP_ALIVE, MESSAGE, build_endpoint};

/// A connector to a server in memory that opens after some time.
struct TestConnector {
    after: Duration,
    line: Option<DuplexStream>,
}

impl Service<Uri> for TestConnector {
    type Response = TokioIo<DuplexStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let after = self.after;
        let line = self.line.take();
        Box::pin(async move {
            tokio::time::sleep(after).await;
            line.map(TokioIo::new).ok_or_else(|| std::io::Error::other("the connector was used before"))
        })
    }
}

/// Starts a server that accepts everything and never answers, and returns its connector.
fn silent_connector(after: Duration) -> TestConnector {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { tokio::io::copy(&mut far, &mut tokio::io::sink()).await });
    TestConnector { after, line: Some(near) }
}

fn server() -> ServerEndpoint {
    ServerEndpoint::new("http://127.0.0.1:9", None).expect("it is on loopback")
}

#[tokio::test(start_paused = true)]
async fn connection_attempt_has_a_time_limit() {
    let instant = Duration::from_millis(1);
    for (after, is_in_time) in [(CONNECT.saturating_sub(instant), true), (CONNECT + 2 * instant, false)] {
        let connector = silent_connector(after);
        let start = Instant::now();
        let channel = build_endpoint(&server()).expect("the address is good").connect_with_connector(connector).await;
        assert_eq!(channel.is_ok(), is_in_time, "a connection after {after:?}");
        assert!(start.elapsed() <= CONNECT + instant, "{:?}", start.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_probed_and_given_up() {
    let connector = silent_connector(Duration::ZERO);
    let channel = build_endpoint(&server()).expect("the address is good").connect_with_connector(connector).await;
    let mut client = WorkerGatewayClient::new(channel.expect("the connection is open"));
    let start = Instant::now();
    let answer = client.renew(v1::RenewRequest { lease: "a lease".to_owned() }).await;
    assert!(answer.is_err(), "there is no answer");
    let duration = start.elapsed();
    let expected = 2 * KEEP_ALIVE;
    assert!((expected..expected + Duration::from_secs(1)).contains(&duration), "{duration:?}");
}

#[tokio::test]
async fn messages_above_the_size_limit_fail() {
    let server = start(false).await;
    let (_dir, gateway) = gateway(&server).await;
    // A text of this length is preceded by a tag of one byte and a length of four.
    let text = |bare: usize, bytes: usize| "a".repeat(bytes - bare - 5);
    for (bytes, passes) in [(MESSAGE, true), (MESSAGE + 1, false)] {
        let lease = text(0, bytes);
        assert_eq!(v1::RenewRequest { lease: lease.clone() }.encoded_len(), bytes);
        assert_eq!(gateway.renew(&lease).await.is_ok(), passes, "{bytes} bytes are sent");
    }
    let reply = |reason: String| v1::RenewReply { go_on: true, lease_seconds: 60, reason };
    let bare = reply(String::new()).encoded_len();
    for (bytes, passes) in [(MESSAGE, true), (MESSAGE + 1, false)] {
        let reason = text(bare, bytes);
        assert_eq!(reply(reason.clone()).encoded_len(), bytes);
        server.state.lock().expect("nobody panicked").reason = reason;
        assert_eq!(gateway.renew("a lease").await.is_ok(), passes, "{bytes} bytes come");
    }
}
