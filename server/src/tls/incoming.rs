//! Connections of the workers' gateway after their handshake. Handshakes are done beside one another, and one that takes too long
//! or fails costs nobody else anything.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

/// How long a handshake may take.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes that may be under way: more connections wait at the listener.
pub(crate) const UNDER_WAY: usize = 256;
/// How long to wait when the system gives no connection: it is out of files.
const BREATH: Duration = Duration::from_millis(100);

/// Connections that have done their handshake, until `shutdown`.
pub fn incoming(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    shutdown: CancellationToken,
) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    bounded(listener, config, shutdown, UNDER_WAY)
}

/// The same, with so many handshakes under way.
pub(super) fn bounded(
    listener: TcpListener,
    config: Arc<ServerConfig>,
    shutdown: CancellationToken,
    under_way: usize,
) -> impl Stream<Item = io::Result<TlsStream<TcpStream>>> {
    let (ready, connections) = mpsc::channel(under_way);
    let (acceptor, turns) = (TlsAcceptor::from(config), Arc::new(tokio::sync::Semaphore::new(under_way)));
    tokio::spawn(async move {
        loop {
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else { return };
            let accepted = tokio::select! {
                () = shutdown.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let connection = match accepted {
                Ok((connection, _)) => connection,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be taken");
                    tokio::time::sleep(BREATH).await;
                    continue;
                }
            };
            let (acceptor, ready) = (acceptor.clone(), ready.clone());
            tokio::spawn(async move {
                let _turn = turn;
                // Messages are small and answers are waited for.
                let _ = connection.set_nodelay(true);
                match tokio::time::timeout(HANDSHAKE, acceptor.accept(connection)).await {
                    Ok(Ok(stream)) => drop(ready.send(Ok(stream)).await),
                    Ok(Err(error)) => tracing::debug!(%error, "a handshake failed"),
                    Err(_) => tracing::debug!("a handshake took too long"),
                }
            });
        }
    });
    ReceiverStream::new(connections)
}
