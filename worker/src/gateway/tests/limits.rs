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
use crate::config::Server;
use crate::gateway::fake::start;
use crate::gateway::{CONNECT, KEEP_ALIVE, MESSAGE, endpoint};

/// A connector to a server in memory that opens after some time.
struct Way {
    after: Duration,
    line: Option<DuplexStream>,
}

impl Service<Uri> for Way {
    type Response = TokioIo<DuplexStream>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (after, line) = (self.after, self.line.take());
        Box::pin(async move {
            tokio::time::sleep(after).await;
            line.map(TokioIo::new).ok_or_else(|| std::io::Error::other("the way was taken before"))
        })
    }
}

/// Starts a server that accepts everything and never answers, and returns its connector.
fn silent(after: Duration) -> Way {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    tokio::spawn(async move { tokio::io::copy(&mut far, &mut tokio::io::sink()).await });
    Way { after, line: Some(near) }
}

fn server() -> Server {
    Server::new("http://127.0.0.1:9", None).expect("it is on loopback")
}

#[tokio::test(start_paused = true)]
async fn a_connection_has_its_time_to_be_made_and_no_more() {
    let instant = Duration::from_millis(1);
    for (after, in_time) in [(CONNECT.saturating_sub(instant), true), (CONNECT + 2 * instant, false)] {
        let (way, began) = (silent(after), Instant::now());
        let made = endpoint(&server()).expect("the address is good").connect_with_connector(way).await;
        assert_eq!(made.is_ok(), in_time, "a connection after {after:?}");
        assert!(began.elapsed() <= CONNECT + instant, "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_silent_is_probed_and_given_up_after_as_long_again() {
    let way = silent(Duration::ZERO);
    let channel = endpoint(&server()).expect("the address is good").connect_with_connector(way).await;
    let mut client = WorkerGatewayClient::new(channel.expect("the way is open"));
    let began = Instant::now();
    let unanswered = client.renew(v1::RenewRequest { lease: "a lease".to_owned() }).await;
    assert!(unanswered.is_err(), "nobody said a word");
    let (given_up, expected) = (began.elapsed(), 2 * KEEP_ALIVE);
    assert!((expected..expected + Duration::from_secs(1)).contains(&given_up), "{given_up:?}");
}

#[tokio::test]
async fn a_message_of_the_largest_size_goes_and_comes_and_no_larger_one() {
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
