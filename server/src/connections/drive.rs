//! Drives one connection from its handshake to its end.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::response::IntoResponse as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use undertone_api::problem::Code;

use super::answer::{AnswerBody, StreamExecutor};
use super::limits::{ConnectionLimits, KEEPALIVE, LARGEST_BUFFER, LARGEST_HEAD, MOST_STREAMS};
use super::received::ReceivedBytes;
use super::state::{ConnectionHandle, ConnectionState};
use super::stream::DeadlineStream;
use super::turn::{RequestLane, RequestQueue};
use crate::caller_address::client_address;
use crate::rest::problem::Rejection;
use undertone_server_core::metrics::{Limit, Metrics};
use undertone_server_core::network::network_of;

/// Serves the connections of one listener.
#[derive(Clone)]
pub(super) struct Driver {
    /// The name in the log.
    pub(super) name: &'static str,
    limits: ConnectionLimits,
    tls: Option<TlsAcceptor>,
    router: Router,
    received: ReceivedBytes,
    turns: RequestQueue,
    pub(super) metrics: Metrics,
    /// Cancelled at shutdown.
    pub(super) shutdown: CancellationToken,
}

/// The decision about a connection.
enum Verdict {
    /// The connection continues until it is checked again at the given time.
    Keep(Instant),
    /// No further request is accepted, and open requests finish.
    CloseGently,
    /// It is closed at once.
    Close,
}

impl Driver {
    pub(super) fn new(
        name: &'static str,
        limits: ConnectionLimits,
        tls: Option<Arc<ServerConfig>>,
        router: Router,
        metrics: Metrics,
        shutdown: CancellationToken,
    ) -> Self {
        let received = ReceivedBytes::new(&limits, metrics.clone());
        let turns = RequestQueue::new(name, &limits, metrics.queues());
        Self { name, limits, tls: tls.map(TlsAcceptor::from), router, received, turns, metrics, shutdown }
    }

    /// Serves a connection until it ends, is evicted, or `cut_off` is cancelled.
    pub(super) async fn drive(
        &self,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        state: &Arc<ConnectionState>,
        cut_off: &CancellationToken,
    ) {
        let stream = match TcpStream::from_std(stream) {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(listener = self.name, %error, "an accepted connection cannot be used");
                return;
            }
        };
        // Messages are small and clients wait for the responses.
        let _ = stream.set_nodelay(true);
        let stream = DeadlineStream::new(stream, self.limits.unread, self.metrics.clone());
        tokio::select! {
            () = state.evicted.cancelled() => {}
            () = cut_off.cancelled() => {}
            () = self.shake_and_serve(stream, peer, state) => {}
        }
    }

    async fn shake_and_serve(&self, stream: DeadlineStream<TcpStream>, peer: SocketAddr, state: &Arc<ConnectionState>) {
        let Some(acceptor) = &self.tls else { return self.serve(stream, peer, state).await };
        match timeout(self.limits.handshake, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => self.serve(stream, peer, state).await,
            Ok(Err(error)) => tracing::debug!(listener = self.name, %error, "a handshake failed"),
            Err(_) => {
                self.metrics.reach(Limit::Handshake);
                tracing::debug!(listener = self.name, "a handshake timed out");
            }
        }
    }

    /// Serves requests over a stream whose handshake is done.
    async fn serve<I>(&self, stream: I, peer: SocketAddr, state: &Arc<ConnectionState>)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let builder = self.builder();
        let driver = self.clone();
        let shared = Arc::clone(state);
        let service = service_fn(move |request| {
            let driver = driver.clone();
            let state = Arc::clone(&shared);
            async move { driver.answer(request, peer, state).await }
        });
        let connection = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(connection);
        let mut is_closing = false;
        let mut look_at = Instant::now();
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        self.count(&*error);
                        tracing::debug!(listener = self.name, error = &*error, "a connection ended");
                    }
                    return;
                }
                () = self.shutdown.cancelled(), if !is_closing => {
                    is_closing = true;
                    connection.as_mut().graceful_shutdown();
                    // The accept loop aborts a connection that takes too long.
                    look_at = Instant::now() + self.limits.closing * 2;
                }
                () = sleep_until(look_at) => match self.judge(state, is_closing) {
                    Verdict::Keep(next) => look_at = next,
                    Verdict::Close => return,
                    Verdict::CloseGently => {
                        is_closing = true;
                        connection.as_mut().graceful_shutdown();
                        look_at = Instant::now() + self.limits.closing;
                    }
                },
            }
        }
    }

    fn builder(&self) -> Builder<StreamExecutor> {
        let executor = StreamExecutor { patience: self.limits.unread, metrics: self.metrics.clone() };
        let mut builder = Builder::new(executor);
        if self.limits.is_http2_only {
            builder = builder.http2_only();
        }
        builder.http1().timer(TokioTimer::new()).header_read_timeout(self.limits.idle).max_buf_size(LARGEST_BUFFER);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEPALIVE)
            .keep_alive_timeout(KEEPALIVE)
            .max_concurrent_streams(MOST_STREAMS)
            .max_header_list_size(LARGEST_HEAD);
        builder
    }

    /// Counts the limit that the library kept by itself, where this is why a connection ended.
    fn count(&self, error: &(dyn std::error::Error + 'static)) {
        match error.downcast_ref::<hyper::Error>() {
            Some(error) if error.is_parse_too_large() => self.metrics.reach(Limit::HeaderSize),
            Some(error) if error.is_timeout() => self.metrics.reach(Limit::Idle),
            _ => {}
        }
    }

    /// Decides whether a connection continues.
    fn judge(&self, state: &ConnectionState, is_closing: bool) -> Verdict {
        if is_closing {
            return Verdict::Close;
        }
        let now = Instant::now();
        let activity = state.activity();
        if activity.begun == 0 {
            let due = state.opened + self.limits.first_request;
            if now < due {
                // The first request may begin meanwhile, and with it the other times.
                return Verdict::Keep(due.min(now + self.limits.idle.min(self.limits.stranger_age)));
            }
            self.metrics.reach(Limit::FirstRequest);
            return Verdict::Close;
        }
        let mut next = now + self.limits.idle;
        if activity.open == 0 {
            let due = activity.idle_since + self.limits.idle;
            if now >= due {
                self.metrics.reach(Limit::Idle);
                return Verdict::CloseGently;
            }
            next = next.min(due);
        }
        if !state.is_recognized() {
            let due = state.opened + self.limits.stranger_age;
            if now >= due {
                self.metrics.reach(Limit::StrangerAge);
                return Verdict::CloseGently;
            }
            next = next.min(due);
        }
        Verdict::Keep(next)
    }

    /// Returns the lane of a request. Behind a proxy, a connection carries the requests of many callers.
    fn lane(&self, request: &http::request::Parts, state: &ConnectionState) -> RequestLane {
        if self.limits.by_address.is_none() {
            return RequestLane::Network(network_of(client_address(true, &request.headers, &request.extensions)));
        }
        state.recognized_lane().unwrap_or(RequestLane::Network(state.network))
    }

    /// Passes a request to the router, when it has its turn.
    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
        state: Arc<ConnectionState>,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let guard = Arc::new(state.begin_request());
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(ConnectInfo(peer));
        let turn = match self.turns.acquire(self.lane(&parts, &state)).await {
            Ok(turn) => Arc::new(turn),
            Err(error) => {
                let refusal = Rejection::from(error).into_response();
                return Ok(refusal.map(|body| AnswerBody::new(body, guard)));
            }
        };
        parts.extensions.insert(ConnectionHandle::new(state, Some(Arc::clone(&turn))));
        let body = Body::new(self.received.receive(body, Arc::clone(&guard), Arc::clone(&turn)));
        let answer = turn.run(self.router.clone().oneshot(Request::from_parts(parts, body))).await;
        let mut answer = answer.unwrap_or_else(|never| match never {});
        if guard.is_over_budget() {
            let detail = "too many request bytes in transit: try again in a moment";
            answer = Rejection::new(Code::Unavailable, detail).into_response();
        }
        Ok(answer.map(|body| AnswerBody::new(body, guard)))
    }
}

/// Serves `router` over a stream without TLS, with the limits of a listener, until it ends: for tests without a socket.
#[cfg(test)]
pub(crate) async fn serve_stream<I>(router: Router, limits: ConnectionLimits, stream: I)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    let metrics = Metrics::new(undertone_server_core::metrics::Transactions::default());
    let driver = Driver::new("test", limits, None, router, metrics, CancellationToken::new());
    let state = Arc::new(ConnectionState::new(0, peer.ip()));
    driver.serve(stream, peer, &state).await;
}
