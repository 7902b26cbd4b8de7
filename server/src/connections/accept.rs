//! The accept loop: one task for each admitted connection, and a pause when the process is out of file descriptors.
//!
//! The loop runs on a thread of its own. As a task beside those of the requests, it would accept some connections, then wait until
//! every other task had run. In a flood, new callers would wait in the system's queue for seconds.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::drive::Driver;
use super::open_files::is_exhausted;
use super::registry::ConnectionRegistry;
use undertone_server_core::metrics::Limit;

/// The pause after an error that the next attempt would meet again.
pub(super) const BACK_OFF: Duration = Duration::from_millis(100);
/// The least time between two log lines about such errors.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// A source of connections; the sources of tests also return errors.
pub(super) trait ConnectionSource: Sync {
    /// Waits for the next connection.
    fn next(&self) -> impl Future<Output = io::Result<(TcpStream, SocketAddr)>> + Send;
}

impl ConnectionSource for TcpListener {
    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = self.accept().await?;
        // It is served on another runtime than that of the loop.
        Ok((stream.into_std()?, peer))
    }
}

/// Accepts connections on a thread of its own and serves them on the current runtime, as [`accept_until`].
///
/// # Errors
/// If the thread cannot be started, or the listener cannot be used.
pub(super) async fn accept_on_thread(
    listener: std::net::TcpListener,
    registry: Arc<ConnectionRegistry>,
    driver: Driver,
    grace: Duration,
) -> io::Result<()> {
    let own = Builder::new_current_thread().enable_all().build()?;
    let runtime = Handle::current();
    let (sender, result) = oneshot::channel();
    thread::Builder::new().name(format!("accept-{}", driver.name)).spawn(move || {
        let served = own.block_on(async {
            let listener = TcpListener::from_std(listener)?;
            accept_until(&listener, &registry, &driver, &runtime, grace).await;
            Ok(())
        });
        // The receiver is gone if the caller was dropped.
        let _ = sender.send(served);
    })?;
    result.await.unwrap_or_else(|_| Err(io::Error::other("the thread that accepts connections panicked")))
}

/// Accepts connections and serves them on `runtime`, until the driver's shutdown is cancelled. Open requests then get
/// `grace` to finish; the rest are aborted.
pub(super) async fn accept_until(
    source: &impl ConnectionSource,
    registry: &Arc<ConnectionRegistry>,
    driver: &Driver,
    runtime: &Handle,
    grace: Duration,
) {
    let (running, mut ended) = mpsc::channel::<()>(1);
    let cut_off = CancellationToken::new();
    let mut logged = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = driver.shutdown.cancelled() => break,
            accepted = source.next() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(admission) = registry.admit(peer.ip()) else { continue };
                let driver = driver.clone();
                let cut_off = cut_off.clone();
                let running = running.clone();
                runtime.spawn(async move {
                    driver.drive(stream, peer, &admission.state, &cut_off).await;
                    drop((admission, running));
                });
            }
            Err(error) => recover(&error, registry, driver, &mut logged).await,
        }
    }
    drop(running);
    if tokio::time::timeout(grace, ended.recv()).await.is_err() {
        tracing::warn!(listener = driver.name, "aborted unfinished requests at shutdown");
        cut_off.cancel();
        ended.recv().await;
    }
}

/// Pauses after an error of the listener. An error of a single, already closed connection needs no pause.
async fn recover(error: &io::Error, registry: &Arc<ConnectionRegistry>, driver: &Driver, logged: &mut Option<Instant>) {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted) {
        return;
    }
    let is_due = logged.is_none_or(|logged| logged.elapsed() >= LOG_EVERY);
    if is_due {
        *logged = Some(Instant::now());
    }
    if is_exhausted(error) {
        driver.metrics.reach(Limit::OpenFiles);
        registry.make_room();
        if is_due {
            tracing::error!(
                listener = driver.name,
                %error,
                "too many open files, cannot accept connections: raise LimitNOFILE of the service"
            );
        }
    } else if is_due {
        tracing::warn!(listener = driver.name, %error, "cannot accept a connection");
    }
    tokio::time::sleep(BACK_OFF).await;
}
