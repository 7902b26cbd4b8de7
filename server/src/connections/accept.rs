//! The accept loop: one task for each admitted connection, and a pause when the process is out of file descriptors.
//!
//! Few connections begin at a time, in turns of their networks; the others are pending. The runtime runs new tasks in the order of
//! their creation, so without turns a newcomer would wait until the connections of a whole flood have begun.
//!
//! The loop runs on a thread of its own. As a task beside those of the requests, it would accept some connections, then wait until
//! every other task had run. In a flood, new callers would wait in the system's queue for seconds.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::drive::Driver;
use super::limits::{BEGUN_AT_A_TIME, MOST_PENDING};
use super::listen::ListeningSocket;
use super::open_files::is_exhausted;
use super::pending::PendingConnections;
use super::registry::{Admission, ConnectionRegistry};
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

/// The queues of one listener, which are served in turn.
pub(super) struct ListenerQueues {
    queues: Vec<TcpListener>,
    next: AtomicUsize,
}

impl ListenerQueues {
    /// Takes over a listening socket.
    ///
    /// # Errors
    /// If the system refuses.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub(super) fn new(socket: ListeningSocket) -> io::Result<Self> {
        let queues = socket.into_queues().into_iter().map(TcpListener::from_std).collect::<io::Result<_>>()?;
        Ok(Self { queues, next: AtomicUsize::new(0) })
    }
}

impl ConnectionSource for ListenerQueues {
    async fn next(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let accepted = std::future::poll_fn(|context| {
            for place in 0..self.queues.len() {
                let accepted = self.queues[(first + place) % self.queues.len()].poll_accept(context);
                if accepted.is_ready() {
                    return accepted;
                }
            }
            Poll::Pending
        });
        let (stream, peer) = accepted.await?;
        // It is served on another runtime than that of the loop.
        Ok((stream.into_std()?, peer))
    }
}

/// An admitted connection that is not served yet.
struct PendingConnection {
    stream: TcpStream,
    peer: SocketAddr,
    admission: Admission,
}

/// Accepts connections on a thread of its own and serves them on the current runtime, as [`accept_until`].
///
/// # Errors
/// If the thread cannot be started, or the listener cannot be used.
pub(super) async fn accept_on_thread(
    socket: ListeningSocket,
    registry: Arc<ConnectionRegistry>,
    driver: Driver,
    grace: Duration,
) -> io::Result<()> {
    let own = Builder::new_current_thread().enable_all().build()?;
    let runtime = Handle::current();
    let (sender, result) = oneshot::channel();
    thread::Builder::new().name(format!("accept-{}", driver.name)).spawn(move || {
        let served = own.block_on(async {
            let source = ListenerQueues::new(socket)?;
            accept_until(&source, &registry, &driver, &runtime, grace).await;
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
    let turns = Arc::new(Semaphore::new(BEGUN_AT_A_TIME));
    let mut pending = PendingConnections::new();
    let mut logged = None;
    loop {
        let accepted = tokio::select! {
            biased;
            () = driver.shutdown.cancelled() => break,
            Ok(turn) = Arc::clone(&turns).acquire_owned(), if pending.count() > 0 => {
                if let Some(connection) = pending.pop() {
                    begin(connection, turn, driver, runtime, &cut_off, &running);
                }
                continue;
            }
            accepted = source.next(), if pending.count() < MOST_PENDING => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let Some(admission) = registry.admit(peer.ip()) else { continue };
                pending.push(admission.state.network, PendingConnection { stream, peer, admission });
            }
            Err(error) => recover(&error, registry, driver, &mut logged).await,
        }
    }
    drop(pending);
    drop(running);
    if tokio::time::timeout(grace, ended.recv()).await.is_err() {
        tracing::warn!(listener = driver.name, "aborted unfinished requests at shutdown");
        cut_off.cancel();
        ended.recv().await;
    }
}

/// Serves a connection on `runtime`, unless it was evicted meanwhile. Its turn ends when its task begins.
fn begin(
    connection: PendingConnection,
    turn: OwnedSemaphorePermit,
    driver: &Driver,
    runtime: &Handle,
    cut_off: &CancellationToken,
    running: &mpsc::Sender<()>,
) {
    let PendingConnection { stream, peer, admission } = connection;
    if admission.state.evicted.is_cancelled() {
        return;
    }
    let (driver, cut_off, running) = (driver.clone(), cut_off.clone(), running.clone());
    runtime.spawn(async move {
        drop(turn);
        driver.drive(stream, peer, &admission.state, &cut_off).await;
        drop((admission, running));
    });
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
