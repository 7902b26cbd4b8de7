//! Limits of callers without a session, over a real connection.

use std::net::SocketAddr;
use std::time::Duration;

use h2::SendStream;
use h2::client::{ResponseFuture, SendRequest};
use hyper::body::Bytes;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::Code as GrpcCode;
use undertone_proto::{retry_delay, v1};

use super::connect;
use crate::connections::ConnectionLimits;
use crate::grpc::LARGEST_OF_STRANGER;
use crate::grpc::message_limits::MessageLimits;
use crate::testing::TestApp;
use undertone_server_core::ctx::Ctx;
use undertone_server_core::metrics::Limit;

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(30);

/// Serves with these limits of messages until the server stops.
fn listen_with(ctx: &Ctx, messages: MessageLimits) -> SocketAddr {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let limits = ConnectionLimits::new(ctx.config.connections, false, true);
    let ctx = ctx.clone();
    tokio::spawn(async move { crate::grpc::serve_with(&ctx, listener, limits, messages).await });
    address
}

async fn open(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

/// Begins a call whose message announces some bytes, of which some are sent.
fn begin(
    sender: &mut SendRequest<Bytes>,
    method: &str,
    announced: usize,
    sent: usize,
) -> (ResponseFuture, SendStream<Bytes>) {
    let uri = format!("http://test/undertone.v1.{method}");
    let request = http::Request::post(uri).header("content-type", "application/grpc").body(()).unwrap();
    let (answer, mut body) = sender.send_request(request, false).unwrap();
    let mut bytes = vec![0];
    bytes.extend((announced as u32).to_be_bytes());
    bytes.resize(5 + sent, 0);
    let written = body.send_data(bytes.into(), false);
    // The server may have refused a call without a part of its message, and closed its stream, already.
    if sent > 0 {
        written.unwrap();
    }
    (answer, body)
}

async fn status(answer: ResponseFuture) -> GrpcCode {
    let answer = timeout(LONG, answer).await.expect("an answer").unwrap();
    let code = answer.headers()["grpc-status"].to_str().unwrap().parse::<i32>().unwrap();
    GrpcCode::from_i32(code)
}

async fn enrolled(address: SocketAddr, characters: usize) -> tonic::Status {
    let message = v1::EnrollRequest { secret: "x".repeat(characters), ..v1::EnrollRequest::default() };
    connect(address).await.enroll(message).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stranger_sends_64_kib_and_not_one_byte_more() {
    let app = TestApp::sqlite().await;
    let address = listen_with(&app.ctx, MessageLimits::default());
    // A tag, three bytes of length, the text.
    let most = LARGEST_OF_STRANGER - 4;
    assert_ne!(enrolled(address, most).await.code(), GrpcCode::OutOfRange);
    assert_eq!(enrolled(address, most + 1).await.code(), GrpcCode::OutOfRange);
    assert_eq!(app.ctx.metrics.reached(Limit::MessageSize), 1);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn call_that_needs_a_proof_is_refused_before_its_body() {
    let app = TestApp::sqlite().await;
    let mut sender = open(listen_with(&app.ctx, MessageLimits::default())).await;
    for method in ["Control/WhoAmI", "Control/ImportAnswers", "WorkerGateway/Finish", "WorkerGateway/Submit"] {
        let (answer, _body) = begin(&mut sender, method, 15 << 20, 0);
        assert_eq!(status(answer).await, GrpcCode::Unauthenticated, "{method}");
    }
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_sent_message_is_given_up_in_time() {
    let app = TestApp::sqlite().await;
    let limits = MessageLimits { time: SHORT, ..MessageLimits::default() };
    let mut sender = open(listen_with(&app.ctx, limits)).await;
    let (answer, _body) = begin(&mut sender, "WorkerGateway/Enroll", 100, 50);
    assert_eq!(status(answer).await, GrpcCode::DeadlineExceeded);
    assert_eq!(app.ctx.metrics.reached(Limit::MessageTime), 1);
    app.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_of_half_sent_messages_are_bounded_and_free_again() {
    let app = TestApp::sqlite().await;
    // Long enough for a slow machine: what is given up in between would be free.
    let limits = MessageLimits { stranger_bytes: (1000, 1000), time: 10 * LONG, ..MessageLimits::default() };
    let address = listen_with(&app.ctx, limits);
    let mut sender = open(address).await;
    let (answer, body) = begin(&mut sender, "WorkerGateway/Enroll", 1000, 900);
    // Before those have arrived, the second call may be accepted.
    let refusal = async {
        loop {
            let status = enrolled(address, 300).await;
            if status.code() == GrpcCode::Unavailable {
                break status;
            }
        }
    };
    let refused = timeout(4 * LONG, refusal).await.expect("the bytes are bounded");
    assert!(retry_delay(&refused).is_some(), "it is told when to come again");
    // A stream is reset with the last of its handles.
    drop((answer, body, sender));
    let freed = async { while enrolled(address, 300).await.code() == GrpcCode::Unavailable {} };
    timeout(4 * LONG, freed).await.expect("what is given up is free again");
    app.close().await;
}
