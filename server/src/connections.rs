//! The connections of both listeners: accepts them, bounds them, and serves one router over each.
//!
//! Every connection passes the same stages, each with its own limit: admission (in total and by address), TLS
//! handshake, first request, further requests, end. [`ConnectionLimits`] holds the numbers; `registry` admits and
//! evicts, `turn` orders the requests, `drive` enforces the times of one connection, `stream` those of its socket,
//! `answer` those of a single response, `received` counts the bytes of request bodies.
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
mod limits;
mod listen;
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
#[cfg(test)]
pub(crate) use self::limits::{
    BACKLOG, FIRST_REQUEST, HANDSHAKE, IDLE, KEEPALIVE, LARGEST_BUFFER, LARGEST_HEAD, LONGEST_TURN, MOST_STREAMS,
    MOST_WAITING, RECOGNIZED_BYTES, STRANGER_AGE, STRANGER_BYTES, TURNS_OF_PROCESSOR, UNREAD,
};
pub(crate) use self::limits::{ConnectionLimits, SHUTDOWN_GRACE};
pub(crate) use self::listen::listen;
pub(crate) use self::state::ConnectionHandle;
pub(crate) use self::turn::RequestLane;

use self::accept::accept_on_thread;
use self::drive::Driver;
use self::registry::ConnectionRegistry;
use undertone_server_core::metrics::Metrics;

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
    /// If the listener cannot be used, or the thread that accepts its connections cannot be started.
    pub(crate) async fn serve(self, metrics: Metrics, shutdown: CancellationToken, grace: Duration) -> io::Result<()> {
        let Self { name, listener, tls, router, limits } = self;
        // The thread stops accepting when this future is dropped, too.
        let shutdown = shutdown.child_token();
        let _until_dropped = shutdown.clone().drop_guard();
        let registry = Arc::new(ConnectionRegistry::new(name, limits, metrics.clone()));
        let driver = Driver::new(name, limits, tls, router, metrics, shutdown);
        accept_on_thread(listener, registry, driver, grace).await
    }
}
