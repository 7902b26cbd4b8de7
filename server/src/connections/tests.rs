//! The limits of connections over real sockets, with small numbers.

#![expect(clippy::unwrap_used, reason = "what a test sets up is there, or the test fails")]

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::{get, post};
use futures::StreamExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::accept::{ConnectionSource, accept_until};
use super::drive::Driver;
use super::registry::ConnectionRegistry;
use super::{ConnectionHandle, ConnectionLimits, LARGEST_BUFFER, RequestLane, ServedListener, listen};
use undertone_server_core::fairness::WorkOwner;
use undertone_server_core::metrics::{Limit, Metrics, Transactions};

const SHORT: Duration = Duration::from_millis(300);
const LONG: Duration = Duration::from_secs(30);
const GET: &[u8] = b"GET /fast HTTP/1.1\r\nhost: test\r\n\r\n";

/// Returns limits that no test reaches by accident; each test lowers the limits under test.
pub(super) fn small_limits() -> ConnectionLimits {
    ConnectionLimits {
        total: 100,
        by_address: Some(100),
        handshake: LONG,
        first_request: LONG,
        idle: LONG,
        stranger_age: LONG,
        unread: LONG,
        closing: LONG,
        stranger_bytes: (1 << 20, 1 << 20),
        recognized_bytes: (1 << 20, 1 << 20),
        turns: 100,
        longest_turn: LONG * 4,
        waiting: (100, 100),
        is_http2_only: false,
    }
}

/// A server on loopback, with handlers that are fast, slow, large, or recognize their caller.
struct TestListener {
    address: SocketAddr,
    metrics: Metrics,
    shutdown: CancellationToken,
    served: JoinHandle<()>,
    /// A permit for each request of `/hold` that has begun.
    held: Arc<Semaphore>,
}

impl TestListener {
    async fn new(limits: ConnectionLimits) -> Self {
        Self::with_grace(limits, SHORT).await
    }

    async fn with_grace(limits: ConnectionLimits, grace: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Metrics::new(Transactions::default());
        let shutdown = CancellationToken::new();
        let registry = Arc::new(ConnectionRegistry::new("test", limits, metrics.clone()));
        let held = Arc::new(Semaphore::new(0));
        let router = router(Arc::clone(&held));
        let driver = Driver::new("test", limits, None, router, metrics.clone(), shutdown.clone());
        let served =
            tokio::spawn(async move { accept_until(&listener, &registry, &driver, &Handle::current(), grace).await });
        Self { address, metrics, shutdown, served, held }
    }

    /// Begins a request that holds its turn until its connection is closed.
    async fn hold_turn(&self) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(b"GET /hold HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
        timeout(LONG, self.held.acquire()).await.expect("it begins").unwrap().forget();
        stream
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Waits until a limit was reached.
    async fn reach(&self, limit: Limit) {
        let began = Instant::now();
        while self.metrics.reached(limit) == 0 {
            assert!(began.elapsed() < LONG, "{limit:?} was not reached");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// `held` gets a permit for each request of `/hold` that has begun.
fn router(held: Arc<Semaphore>) -> Router {
    let large = || async {
        let piece = Bytes::from(vec![0; 64 << 10]);
        Body::from_stream(futures::stream::repeat(piece).map(Ok::<_, io::Error>))
    };
    let recognize = |request: Request| async move {
        ConnectionHandle::recognize_in(request.extensions(), RequestLane::Caller(WorkOwner::System));
    };
    let slow = || async { tokio::time::sleep(SHORT * 2).await };
    let hold = || async move {
        held.add_permits(1);
        std::future::pending::<()>().await;
    };
    let length = |body: Bytes| async move { body.len().to_string() };
    Router::new()
        .route("/fast", get(|| async { "fast" }))
        .route("/known", get(recognize))
        .route("/slow", get(slow))
        .route("/hold", get(hold))
        .route("/large", get(large))
        .route("/length", post(length))
}

/// Returns the next bytes; an empty text after the connection was closed.
async fn receive(stream: &mut TcpStream) -> String {
    let mut bytes = vec![0; 4 << 10];
    let read = timeout(LONG, stream.read(&mut bytes)).await.expect("an answer, or an end");
    String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]).into_owned()
}

async fn ask(stream: &mut TcpStream, request: &[u8]) -> String {
    stream.write_all(request).await.unwrap();
    receive(stream).await
}

async fn ask_path(stream: &mut TcpStream, path: &str) -> String {
    ask(stream, format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").as_bytes()).await
}

#[tokio::test]
async fn silent_connection_is_closed_in_time() {
    let server = TestListener::new(ConnectionLimits { first_request: SHORT, ..small_limits() }).await;
    for opening in ["", "GET / HT", "PRI * HTTP/2.0\r\n\r\nSM", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0"]
    {
        let mut stream = server.connect().await;
        let began = Instant::now();
        stream.write_all(opening.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        let _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("it is closed");
        assert!(began.elapsed() < LONG / 2, "{opening:?}");
    }
    assert_eq!(server.metrics.reached(Limit::FirstRequest), 4);
}

#[tokio::test]
async fn slow_head_of_a_later_request_is_closed_in_time() {
    let server = TestListener::new(ConnectionLimits { idle: SHORT, ..small_limits() }).await;
    let mut stream = server.connect().await;
    assert!(ask(&mut stream, GET).await.contains("200 OK"));
    let began = Instant::now();
    stream.write_all(b"GET /fast HTTP/1.1\r\nhost: te").await.unwrap();
    let mut rest = Vec::new();
    let _ = timeout(LONG, stream.read_to_end(&mut rest)).await.expect("it is closed");
    assert!(began.elapsed() >= SHORT / 2);
}

#[tokio::test]
async fn idle_connection_is_closed_in_time() {
    let server = TestListener::new(ConnectionLimits { idle: SHORT, ..small_limits() }).await;
    let mut stream = server.connect().await;
    assert!(ask(&mut stream, GET).await.contains("fast"));
    assert_eq!(receive(&mut stream).await, "");
    server.reach(Limit::Idle).await;
    let mut stream = server.connect().await;
    assert!(ask_path(&mut stream, "/slow").await.contains("200 OK"), "a request under way is not idle");
}

#[tokio::test]
async fn stranger_is_closed_at_its_age_and_a_known_caller_is_not() {
    let server = TestListener::new(ConnectionLimits { stranger_age: SHORT * 5, ..small_limits() }).await;
    let mut stranger = server.connect().await;
    let mut member = server.connect().await;
    assert!(ask(&mut stranger, GET).await.contains("200 OK"));
    assert!(ask_path(&mut member, "/known").await.contains("200 OK"));
    assert_eq!(receive(&mut stranger).await, "");
    server.reach(Limit::StrangerAge).await;
    tokio::time::sleep(SHORT).await;
    assert!(ask(&mut member, GET).await.contains("200 OK"));
}

#[tokio::test]
async fn flood_of_idle_connections_leaves_room_for_a_request() {
    let server = TestListener::new(ConnectionLimits { total: 8, ..small_limits() }).await;
    let mut member = server.connect().await;
    assert!(ask_path(&mut member, "/known").await.contains("200 OK"));
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(server.connect().await);
        assert!(ask(&mut server.connect().await, GET).await.contains("200 OK"));
    }
    assert!(ask(&mut member, GET).await.contains("200 OK"), "a known caller outlives the flood");
    assert!(server.metrics.reached(Limit::Connections) >= 30);
}

#[tokio::test]
async fn address_has_its_number_of_connections_and_no_more() {
    let server = TestListener::new(ConnectionLimits { by_address: Some(3), ..small_limits() }).await;
    let mut members = Vec::new();
    for _ in 0..3 {
        let mut stream = server.connect().await;
        assert!(ask_path(&mut stream, "/known").await.contains("200 OK"));
        members.push(stream);
    }
    let mut fourth = server.connect().await;
    let _ = fourth.write_all(GET).await;
    assert_eq!(receive(&mut fourth).await, "", "it was refused");
    assert_eq!(server.metrics.reached(Limit::ConnectionsOfAddress), 1);
    drop(members.pop());
    for _ in 0..100 {
        let mut next = server.connect().await;
        let _ = next.write_all(GET).await;
        if receive(&mut next).await.contains("200 OK") {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("one that ended makes room");
}

#[tokio::test]
async fn bytes_over_the_budget_are_refused_and_then_free_again() {
    let limits = ConnectionLimits { stranger_bytes: (1000, 1000), ..small_limits() };
    let server = TestListener::new(limits).await;
    let head = |length: usize| format!("POST /length HTTP/1.1\r\nhost: test\r\ncontent-length: {length}\r\n\r\n");
    let mut first = server.connect().await;
    first.write_all(head(900).as_bytes()).await.unwrap();
    first.write_all(&[b'x'; 800]).await.unwrap();
    // The first has 800 bytes once the second is refused; before that, the second may still be accepted.
    let answer = async || {
        let mut stream = server.connect().await;
        stream.write_all(head(300).as_bytes()).await.unwrap();
        let _ = stream.write_all(&[b'x'; 300]).await;
        receive(&mut stream).await
    };
    let refused = loop {
        let answer = answer().await;
        if !answer.contains("200 OK") {
            break answer;
        }
    };
    assert!(refused.contains("503") && refused.to_lowercase().contains("retry-after"), "{refused}");
    assert!(ask(&mut first, &[b'x'; 100]).await.contains("900"));
    drop(first);
    let mut next = answer().await;
    for _ in 0..100 {
        if next.contains("200 OK") {
            break;
        }
        next = answer().await;
    }
    assert!(next.contains("200 OK"), "{next}");
}

#[tokio::test]
async fn answer_that_is_not_read_is_cut_off_over_http1() {
    let server = TestListener::new(ConnectionLimits { unread: SHORT, ..small_limits() }).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET /large HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    server.reach(Limit::UnreadAnswer).await;
}

#[tokio::test]
async fn head_over_its_size_is_refused_and_counted() {
    let server = TestListener::new(small_limits()).await;
    let mut stream = server.connect().await;
    let head = format!("GET /fast HTTP/1.1\r\nhost: test\r\nx-large: {}\r\n\r\n", "x".repeat(LARGEST_BUFFER));
    // The server may close before all is sent.
    let _ = stream.write_all(head.as_bytes()).await;
    server.reach(Limit::HeaderSize).await;
    assert!(ask(&mut server.connect().await, GET).await.contains("200 OK"));
}

#[tokio::test]
async fn body_that_does_not_arrive_occupies_no_turn() {
    let server = TestListener::new(ConnectionLimits { turns: 1, ..small_limits() }).await;
    let mut slow = server.connect().await;
    slow.write_all(b"POST /length HTTP/1.1\r\nhost: test\r\ncontent-length: 9\r\n\r\n").await.unwrap();
    tokio::time::sleep(SHORT).await;
    assert!(ask(&mut server.connect().await, GET).await.contains("200 OK"), "the only turn is free");
    assert!(ask(&mut slow, b"123456789").await.contains("200 OK"));
}

/// Sends a request over two connections at a time when one may wait. Returns the refusal, the connection that was refused, and the one
/// that waits.
async fn refuse_one(server: &TestListener, request: &[u8]) -> (String, TcpStream, TcpStream) {
    let mut first = server.connect().await;
    let mut second = server.connect().await;
    first.write_all(request).await.unwrap();
    second.write_all(request).await.unwrap();
    let is_first = tokio::select! {
        ready = first.readable() => ready.map(|()| true),
        ready = second.readable() => ready.map(|()| false),
    };
    let (mut refused, waiting) = if is_first.unwrap() { (first, second) } else { (second, first) };
    (receive(&mut refused).await, refused, waiting)
}

#[tokio::test]
async fn request_beyond_the_waiting_ones_is_refused_and_its_connection_goes_on() {
    let server = TestListener::new(ConnectionLimits { turns: 1, waiting: (8, 1), ..small_limits() }).await;
    let running = server.hold_turn().await;
    let (refusal, mut refused, mut waiting) = refuse_one(&server, GET).await;
    assert!(refusal.contains("429") && refusal.to_lowercase().contains("retry-after: 1"), "{refusal}");
    drop(running);
    assert!(receive(&mut waiting).await.contains("200 OK"));
    assert!(ask(&mut refused, GET).await.contains("200 OK"));
}

#[tokio::test]
async fn callers_behind_a_proxy_wait_in_their_own_lanes() {
    let limits = ConnectionLimits { by_address: None, turns: 1, waiting: (8, 1), ..small_limits() };
    let server = TestListener::new(limits).await;
    let from = |last: u8| format!("GET /fast HTTP/1.1\r\nhost: test\r\nx-forwarded-for: 192.0.2.{last}\r\n\r\n");
    let running = server.hold_turn().await;
    let mut waiting = Vec::new();
    for last in [1, 2] {
        let (refusal, _, other) = refuse_one(&server, from(last).as_bytes()).await;
        assert!(refusal.contains("429"), "{refusal}");
        waiting.push(other);
    }
    drop(running);
    for mut stream in waiting {
        assert!(receive(&mut stream).await.contains("200 OK"), "each caller has its lane");
    }
}

/// Begins a request over HTTP/2 whose client never opens its window.
async fn closed_window(
    address: SocketAddr,
    path: &str,
) -> (h2::client::SendRequest<Bytes>, h2::client::ResponseFuture) {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0);
    let (sender, connection) = builder.handshake::<_, Bytes>(stream).await.unwrap();
    tokio::spawn(connection);
    let mut sender = sender.ready().await.unwrap();
    let request = http::Request::get(format!("http://test{path}")).body(()).unwrap();
    let (response, _) = sender.send_request(request, true).unwrap();
    (sender, response)
}

#[tokio::test]
async fn closed_window_resets_its_stream_and_no_other() {
    let server = TestListener::new(ConnectionLimits { unread: SHORT, ..small_limits() }).await;
    let (sender, response) = closed_window(server.address, "/large").await;
    let mut body = timeout(LONG, response).await.expect("the head").unwrap().into_body();
    let ended = timeout(LONG, body.data()).await.expect("it is reset");
    assert!(ended.is_none_or(|data| data.is_err()));
    assert!(server.metrics.reached(Limit::UnreadAnswer) >= 1);
    let mut sender = sender.ready().await.expect("the connection goes on");
    let request = http::Request::get("http://test/known").body(()).unwrap();
    let (response, _) = sender.send_request(request, true).unwrap();
    assert_eq!(timeout(LONG, response).await.expect("an answer").unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn unread_answers_of_strangers_make_room_for_others() {
    let server = TestListener::new(ConnectionLimits { total: 4, ..small_limits() }).await;
    let mut member = server.connect().await;
    assert!(ask_path(&mut member, "/known").await.contains("200 OK"));
    let mut unread = Vec::new();
    for _ in 0..8 {
        let (sender, response) = closed_window(server.address, "/fast").await;
        let head = timeout(LONG, response).await.expect("the head").unwrap();
        unread.push((sender, head));
        assert!(ask(&mut server.connect().await, GET).await.contains("200 OK"), "a newcomer is served");
    }
    assert!(ask(&mut member, GET).await.contains("200 OK"), "a quiet member outlives them");
    assert_eq!(server.metrics.reached(Limit::UnreadAnswer), 0, "nobody waited for that");
}

#[tokio::test]
async fn shutdown_lets_a_request_end_and_cuts_off_the_rest() {
    let server = TestListener::with_grace(small_limits(), SHORT * 10).await;
    let mut busy = server.connect().await;
    let mut idle = server.connect().await;
    busy.write_all(b"GET /slow HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    assert!(ask(&mut idle, GET).await.contains("200 OK"));
    server.shutdown.cancel();
    assert!(receive(&mut busy).await.contains("200 OK"));
    assert_eq!(receive(&mut idle).await, "");
    timeout(LONG, server.served).await.expect("it ends").unwrap();

    let server = TestListener::with_grace(small_limits(), Duration::from_millis(1)).await;
    let mut endless = server.connect().await;
    endless.write_all(b"GET /large HTTP/1.1\r\nhost: test\r\n\r\n").await.unwrap();
    assert!(receive(&mut endless).await.contains("200 OK"));
    server.shutdown.cancel();
    timeout(LONG, server.served).await.expect("it ends all the same").unwrap();
}

#[tokio::test]
async fn dropped_server_closes_its_listener() {
    let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let router = router(Arc::new(Semaphore::new(0)));
    let served = ServedListener { name: "test", listener, tls: None, router, limits: small_limits() };
    let metrics = Metrics::new(Transactions::default());
    let serving = tokio::spawn(served.serve(metrics, CancellationToken::new(), SHORT));
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut stream, GET).await.contains("200 OK"));
    drop(stream);
    serving.abort();
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, closed).await.expect("nobody accepts connections");
}

/// A listener that is out of file descriptors at first.
struct ExhaustedListener(TcpListener, AtomicBool);

impl ConnectionSource for ExhaustedListener {
    async fn next(&self) -> io::Result<(std::net::TcpStream, SocketAddr)> {
        if self.1.swap(false, Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error()));
        }
        self.0.next().await
    }
}

#[tokio::test]
async fn exhausted_files_close_a_quiet_connection_and_serving_goes_on() {
    let metrics = Metrics::new(Transactions::default());
    let shutdown = CancellationToken::new();
    let registry = Arc::new(ConnectionRegistry::new("test", small_limits(), metrics.clone()));
    let quiet = registry.admit([192, 0, 2, 1].into()).unwrap();
    let driver = Driver::new(
        "test",
        small_limits(),
        None,
        router(Arc::new(Semaphore::new(0))),
        metrics.clone(),
        shutdown.clone(),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let source = ExhaustedListener(listener, AtomicBool::new(true));
    let serving =
        tokio::spawn(async move { accept_until(&source, &registry, &driver, &Handle::current(), SHORT).await });
    let mut stream = TcpStream::connect(address).await.unwrap();
    assert!(ask(&mut stream, GET).await.contains("200 OK"));
    assert_eq!(metrics.reached(Limit::OpenFiles), 1);
    assert!(quiet.state.evicted.is_cancelled());
    shutdown.cancel();
    timeout(LONG, serving).await.expect("it ends").unwrap();
}
