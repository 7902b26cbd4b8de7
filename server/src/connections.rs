//! The connections of both listeners: accepts them, bounds them, and serves one router over each.
//!
//! Every connection passes the same stages, each with a limit of its own: admission (in total and by address), TLS handshake, first
//! request, further requests, end. [`ConnectionLimits`] holds the numbers; `registry` admits and evicts, `drive` enforces the times of
//! one connection, `stream` those of its socket, `answer` those of a single answer, `received` counts the bytes of request bodies.
//!
//! A connection is *recognized* once one of its requests proved a session or a key. Until then the caller is a stranger: when there is
//! no room for another connection, that of a stranger is closed: first those that wait for nothing from this server or leave its
//! answers unread, then the oldest.
//!
//! To add a limit: a field of [`ConnectionLimits`], a label in `metrics::Limit`, a test here with a small number, a row in the table of
//! `OPERATION.md`.

mod accept;
mod answer;
mod budget;
mod drive;
mod network;
pub(crate) mod open_files;
mod received;
mod registry;
mod state;
mod stream;
#[cfg(test)]
mod tests;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

pub(crate) use self::budget::{ByteBudget, ByteCharge};
#[cfg(test)]
pub(crate) use self::drive::serve_stream;
pub(crate) use self::network::network_of;
pub(crate) use self::state::ConnectionHandle;

use self::accept::accept_until;
use self::drive::Driver;
use self::registry::ConnectionRegistry;
use crate::config::ConnectionConfig;
use crate::metrics::Metrics;

/// Longest time of a TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Longest time from a connection to the head of its first request. The preface of HTTP/2 lies within it.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// Longest time between two requests of a connection. Over HTTP/1 the head of the second arrives within it: a shorter time for the head
/// alone would close idle connections too, before the proxies that keep them do.
pub(crate) const IDLE: Duration = Duration::from_secs(75);
/// Longest life of a connection whose caller was never recognized. What is under way then gets [`CLOSING`] to end.
pub(crate) const STRANGER_AGE: Duration = Duration::from_mins(5);
/// Longest time that a client leaves an answer unread.
pub(crate) const UNREAD: Duration = Duration::from_mins(1);
/// Time that requests under way get when a connection is closed in good order.
pub(crate) const CLOSING: Duration = Duration::from_secs(10);
/// Time between two questions whether the other end of an HTTP/2 connection lives, and time for the reply.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);
/// Most requests at a time over one HTTP/2 connection.
pub(crate) const MOST_STREAMS: u32 = 100;
/// Most bytes of the header fields of a request over HTTP/2.
pub(crate) const LARGEST_HEAD: u32 = 32 << 10;
/// Most bytes of the head of a request over HTTP/1.
pub(crate) const LARGEST_BUFFER: usize = 64 << 10;
/// Most bytes of request bodies of strangers that are under way: in total, and from one address.
pub(crate) const STRANGER_BYTES: (usize, usize) = (64 << 20, 8 << 20);
/// Most bytes of request bodies of recognized callers that are under way: in total, and from one address.
pub(crate) const RECOGNIZED_BYTES: (usize, usize) = (128 << 20, 64 << 20);

/// The limits of one listener's connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// Most connections at a time.
    pub(crate) total: usize,
    /// Most of them from one address; `None` behind a proxy, where all have the proxy's.
    pub(crate) by_address: Option<usize>,
    /// See [`HANDSHAKE`].
    pub(crate) handshake: Duration,
    /// See [`FIRST_REQUEST`].
    pub(crate) first_request: Duration,
    /// See [`IDLE`].
    pub(crate) idle: Duration,
    /// See [`STRANGER_AGE`].
    pub(crate) stranger_age: Duration,
    /// See [`UNREAD`].
    pub(crate) unread: Duration,
    /// See [`CLOSING`].
    pub(crate) closing: Duration,
    /// Total and by address, of strangers; see [`STRANGER_BYTES`].
    pub(crate) stranger_bytes: (usize, usize),
    /// Total and by address, of recognized callers; see [`RECOGNIZED_BYTES`].
    pub(crate) recognized_bytes: (usize, usize),
    /// Whether HTTP/1 is refused: gRPC has HTTP/2 only.
    pub(crate) is_http2_only: bool,
}

impl ConnectionLimits {
    /// Returns the limits of a listener under this configuration.
    pub(crate) fn new(config: ConnectionConfig, behind_proxy: bool, is_http2_only: bool) -> Self {
        // Behind a proxy all have one address, so what is for an address is for all.
        let by_key = |(total, of_address)| (total, if behind_proxy { total } else { of_address });
        Self {
            total: open_files::bounded_total(config.most as usize),
            by_address: (!behind_proxy).then_some(config.by_address as usize),
            handshake: HANDSHAKE,
            first_request: FIRST_REQUEST,
            idle: IDLE,
            stranger_age: STRANGER_AGE,
            unread: UNREAD,
            closing: CLOSING,
            stranger_bytes: by_key(STRANGER_BYTES),
            recognized_bytes: by_key(RECOGNIZED_BYTES),
            is_http2_only,
        }
    }
}

/// One listener with the router that it serves.
pub(crate) struct ServedListener {
    /// The name in the log: `http` or `grpc`.
    pub(crate) name: &'static str,
    /// Where connections arrive.
    pub(crate) listener: TcpListener,
    /// How handshakes are done; `None` where something before the server does TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// What is served.
    pub(crate) router: Router,
    /// The limits of the connections.
    pub(crate) limits: ConnectionLimits,
}

impl ServedListener {
    /// Serves until `shutdown` is cancelled; requests under way then get `grace` to end.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub(crate) async fn serve(self, metrics: Metrics, shutdown: CancellationToken, grace: Duration) -> io::Result<()> {
        let Self { name, listener, tls, router, limits } = self;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let registry = Arc::new(ConnectionRegistry::new(name, limits, metrics.clone()));
        let driver = Driver::new(name, limits, tls, router, metrics, shutdown);
        accept_until(&listener, &registry, &driver, grace).await;
        Ok(())
    }
}
