//! The limits of connections.

use std::time::Duration;

use undertone_server_core::config::ConnectionConfig;

use super::open_files::bounded_total;

/// The highest number of connections that the system has made and the server has not accepted yet. The system's own limit may be lower:
/// on Linux 4,096, or what `net.core.somaxconn` says.
pub(crate) const BACKLOG: u32 = 4096;
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
/// The time that open requests have to finish after shutdown begins.
pub(crate) const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);
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
/// The highest number of requests that begin at a time, for each processor.
pub(crate) const TURNS_OF_PROCESSOR: usize = 16;
/// The longest turn of a request that begins.
pub(crate) const LONGEST_TURN: Duration = Duration::from_millis(250);
/// The highest number of requests that wait for their turn: in total, and of one connection or network.
pub(crate) const MOST_WAITING: (usize, usize) = (8192, 1024);

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
    /// The highest number of requests that begin at a time; see [`TURNS_OF_PROCESSOR`].
    pub(crate) turns: usize,
    /// See [`LONGEST_TURN`].
    pub(crate) longest_turn: Duration,
    /// Total and by lane; see [`MOST_WAITING`].
    pub(crate) waiting: (usize, usize),
    /// Whether HTTP/1 is refused: gRPC requires HTTP/2.
    pub(crate) is_http2_only: bool,
}

impl ConnectionLimits {
    /// Returns the limits of a listener under this configuration.
    pub(crate) fn new(config: ConnectionConfig, behind_proxy: bool, is_http2_only: bool) -> Self {
        // Behind a proxy all connections have one address, so the limit of an address is the total.
        let by_key = |(total, of_address)| (total, if behind_proxy { total } else { of_address });
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            total: bounded_total(config.most as usize),
            by_address: (!behind_proxy).then_some(config.by_address as usize),
            handshake: HANDSHAKE,
            first_request: FIRST_REQUEST,
            idle: IDLE,
            stranger_age: STRANGER_AGE,
            unread: UNREAD,
            closing: CLOSING,
            stranger_bytes: by_key(STRANGER_BYTES),
            recognized_bytes: by_key(RECOGNIZED_BYTES),
            turns: TURNS_OF_PROCESSOR * processors,
            longest_turn: LONGEST_TURN,
            waiting: MOST_WAITING,
            is_http2_only,
        }
    }
}
