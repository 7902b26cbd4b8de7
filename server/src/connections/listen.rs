//! Opens listening sockets whose queues of new connections outlast a flood.

use std::io;
use std::net::{SocketAddr, TcpListener};

use tokio::net::TcpSocket;

use super::limits::{BACKLOG, QUEUES};

/// A listening address with several queues of new connections. The system spreads newcomers over the queues by their address and
/// port (`SO_REUSEPORT` of Linux). Elsewhere there is one queue.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    queues: Vec<TcpListener>,
}

impl ListeningSocket {
    /// Opens a listening address with [`QUEUES`] queues. One queue overflows in a flood: the system bounds it to 4,096 connections,
    /// and a newcomer whose first packet is lost tries again only after a second.
    ///
    /// # Errors
    /// If the address is in use, does not belong to this machine, or may not be used.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let count = if cfg!(target_os = "linux") { QUEUES } else { 1 };
        if address.port() != 0 {
            // Queues of another process of the same user would share the address without an error.
            drop(bind(address, false)?);
        }
        let first = bind(address, count > 1)?.listen(BACKLOG)?.into_std()?;
        let bound = first.local_addr()?;
        let mut queues = vec![first];
        for _ in 1..count {
            queues.push(bind(bound, true)?.listen(BACKLOG)?.into_std()?);
        }
        Ok(Self { queues })
    }

    /// Returns the address, with the port that the system chose where port 0 was asked for.
    ///
    /// # Errors
    /// If the system does not name it.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.queues.first().ok_or(io::ErrorKind::NotConnected)?.local_addr()
    }

    /// Returns the queues.
    pub(super) fn into_queues(self) -> Vec<TcpListener> {
        self.queues
    }
}

/// Opens a listener with one queue.
///
/// # Errors
/// If the address is in use, does not belong to this machine, or may not be used.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address, false)?.listen(BACKLOG)?.into_std()
}

/// Binds a socket; if `is_shared`, others of this process may have the same address.
fn bind(address: SocketAddr, is_shared: bool) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server uses its address again, although the system still remembers connections of the previous process. Elsewhere
    // than on Unix the option would let two processes listen at one address.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    #[cfg(target_os = "linux")]
    socket.set_reuseport(is_shared)?;
    #[cfg(not(target_os = "linux"))]
    let _ = is_shared;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::{ListeningSocket, listen};

    /// More than the standard library's queue.
    const NEWCOMERS: usize = 300;
    /// Less than the time after which a lost first packet is sent again.
    const PATIENCE: Duration = Duration::from_millis(900);

    #[tokio::test]
    async fn newcomers_of_a_flood_are_connected_before_any_is_accepted() {
        let socket =
            ListeningSocket::open(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback has a free port");
        let address = socket.local_addr().expect("it is bound");
        let newcomers = (0..NEWCOMERS).map(|_| timeout(PATIENCE, TcpStream::connect(address)));
        let connected = join_all(newcomers).await;
        assert_eq!(connected.iter().filter(|result| matches!(result, Ok(Ok(_)))).count(), NEWCOMERS);
        let waiting = |queue: &std::net::TcpListener| {
            queue.set_nonblocking(true).expect("it is open");
            std::iter::from_fn(|| queue.accept().ok()).count()
        };
        let by_queue = socket.into_queues().iter().map(waiting).collect::<Vec<_>>();
        assert_eq!(by_queue.iter().sum::<usize>(), NEWCOMERS);
        assert!(by_queue.iter().all(|count| *count < NEWCOMERS || by_queue.len() == 1), "{by_queue:?}");
    }

    #[tokio::test]
    async fn address_in_use_is_an_error() {
        let first =
            ListeningSocket::open(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))).expect("loopback has a free port");
        let address = first.local_addr().expect("it is bound");
        let errors = [ListeningSocket::open(address).map(|_| ()), listen(address).map(|_| ())];
        for error in errors {
            assert_eq!(error.expect_err("the address is in use").kind(), std::io::ErrorKind::AddrInUse);
        }
    }
}
