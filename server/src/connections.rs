//! The connections of both listeners: accepts them, bounds them, and serves one router over each.
//!
//! Every connection passes the same stages, each with its own limit: admission (in total and by address), TLS
//! handshake, first request, further requests, end. [`ConnectionLimits`] holds the numbers; `registry` admits and
//! evicts, `turn` orders the requests, `drive` enforces the times of one connection, `stream` those of its socket, `answer` those of a single
//! response, `received` counts the bytes of request bodies.
//!
//! A connection is *recognized* once one of its requests proved a session or a key. Until then the caller is a stranger: when there is
//! no room for another connection, that of a stranger is closed: first those that wait for nothing from this server or leave its
//! answers unread, then the oldest.
//!
//! To add a limit: a field of [`ConnectionLimits`], a label in `metrics::Limit`, a test here with a small number, a row
//! in the table of `OPERATION.md`.

mod accept;
mod answer;
mod drive;
pub(crate) mod open_files;
mod received;
mod registry;
mod state;
mod stream;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tls_tests;
pub(crate) mod turn;

use std::io;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use rustls::ServerConfig;
use tokio_util::sync::CancellationToken;

#[cfg(test)]
pub(crate) use self::drive::serve_stream;
pub(crate) use self::state::ConnectionHandle;

use self::accept::accept_until;
use self::drive::Driver;
use self::registry::ConnectionRegistry;
use undertone_server_core::config::ConnectionConfig;
use undertone_server_core::metrics::Metrics;

/// The longest time of a TLS handshake.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// The longest time from a connection to the head of its first request, including the preface of HTTP/2.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// The longest time between two requests of a connection. Over HTTP/1 it includes the head of the second request. A
/// shorter limit for heads alone would close idle connections before the proxies that keep them do.
pub(crate) const IDLE: Duration = Duration::from_secs(75);
/// The longest life of a connection whose caller is not recognized. Open requests then get [`CLOSING`] to finish.
pub(crate) const STRANGER_AGE: Duration = Duration::from_mins(5);
/// The longest time that a client may leave a response unread.
pub(crate) const UNREAD: Duration = Duration::from_mins(1);
/// The time that open requests get to finish when a connection is closed gracefully.
pub(crate) const CLOSING: Duration = Duration::from_secs(10);
/// The interval between HTTP/2 pings, and the timeout of their replies.
pub(crate) const KEEPALIVE: Duration = Duration::from_secs(20);
/// The highest number of concurrent requests over one HTTP/2 connection.
pub(crate) const MOST_STREAMS: u32 = 100;
/// The highest number of bytes of a request's header fields over HTTP/2.
pub(crate) const LARGEST_HEAD: u32 = 32 << 10;
/// The highest number of bytes of a request's head over HTTP/1.
pub(crate) const LARGEST_BUFFER: usize = 64 << 10;
/// The highest number of bytes of strangers' request bodies in memory: in total, and from one address.
pub(crate) const STRANGER_BYTES: (usize, usize) = (64 << 20, 8 << 20);
/// The highest number of bytes of recognized callers' request bodies in memory: in total, and from one address.
pub(crate) const RECOGNIZED_BYTES: (usize, usize) = (128 << 20, 64 << 20);

/// The limits of one listener's connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// The highest number of connections.
    pub(crate) total: usize,
    /// The highest number from one address; `None` behind a proxy, where all connections have the proxy's address.
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
    /// Whether HTTP/1 is refused: gRPC requires HTTP/2.
    pub(crate) is_http2_only: bool,
}

impl ConnectionLimits {
    /// Returns the limits of a listener under this configuration.
    pub(crate) fn new(config: ConnectionConfig, behind_proxy: bool, is_http2_only: bool) -> Self {
        // Behind a proxy all connections have one address, so the limit of an address is the total.
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

/// One listener with its router.
pub(crate) struct ServedListener {
    /// The name in the log: `http` or `grpc`.
    pub(crate) name: &'static str,
    /// The listening socket.
    pub(crate) listener: TcpListener,
    /// The TLS configuration; `None` if a proxy in front of the server terminates TLS.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// The served router.
    pub(crate) router: Router,
    /// The limits of the connections.
    pub(crate) limits: ConnectionLimits,
}

impl ServedListener {
    /// Serves until `shutdown` is cancelled; open requests then get `grace` to finish.
    ///
    /// # Errors
    /// If the listener cannot be used.
    pub(crate) async fn serve(self, metrics: Metrics, shutdown: CancellationToken, grace: Duration) -> io::Result<()> {
        let Self { name, listener, tls, router, limits } = self;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let registry = Arc::new(ConnectionRegistry::new(name, limits, metrics.clone()));
        let driver = Driver::new(name, limits, tls, router, metrics, shutdown);
        accept_until(&listener, &registry, &driver, grace).await;
        Ok(())
    }
}
