//! Opens a listening socket whose queue of new connections outlasts a flood.

use std::io;
use std::net::{SocketAddr, TcpListener};

use tokio::net::TcpSocket;

use super::limits::BACKLOG;

/// Opens a listener. The standard library's queue of 128 connections overflows within milliseconds of a flood, and a newcomer whose
/// first packet is lost tries again only after a second.
///
/// # Errors
/// If the address is in use, does not belong to this machine, or may not be used.
///
/// # Panics
/// Outside a tokio runtime.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A restarted server uses its address again, although the system still remembers connections of the previous process. Elsewhere
    // than on Unix the option would let two processes listen at one address.
    #[cfg(unix)]
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::time::Duration;

    use futures::future::join_all;
    use tokio::net::TcpStream;
    use tokio::time::timeout;

    use super::listen;

    /// More than the standard library's queue.
    const NEWCOMERS: usize = 300;
    /// Less than the time after which a lost first packet is sent again.
    const PATIENCE: Duration = Duration::from_millis(900);

    #[tokio::test]
    async fn newcomers_of_a_flood_are_connected_before_any_is_accepted() {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let newcomers = (0..NEWCOMERS).map(|_| timeout(PATIENCE, TcpStream::connect(address)));
        let connected = join_all(newcomers).await;
        assert_eq!(connected.iter().filter(|result| matches!(result, Ok(Ok(_)))).count(), NEWCOMERS);
    }

    #[tokio::test]
    async fn address_in_use_is_an_error() {
        let first = listen(SocketAddr::from((Ipv6Addr::LOCALHOST, 0))).expect("loopback has a free port");
        let error = listen(first.local_addr().expect("it is bound")).expect_err("the address is in use");
        assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    }
}
