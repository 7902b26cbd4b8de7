//! A slow or unreliable line: a loopback proxy between two programs, with a delay, a limited speed, and interruptions
//! that a scenario orders.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The number of bytes passed on together.
const PIECE: usize = 8 << 10;
/// The highest number of pieces in transit in one direction; beyond it, the sender blocks.
const UNDER_WAY: usize = 256;

/// The quality of a line.
#[derive(Debug, Clone, Copy, Default)]
pub struct LineQuality {
    /// The speed in each direction, bits per second; unlimited without.
    pub bits_per_second: Option<u64>,
    /// The delay in each direction.
    pub delay: Duration,
}

/// A direction of transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineDirection {
    /// From the connecting program.
    Up,
    /// To the connecting program.
    Down,
}

/// A line; cut permanently when dropped.
#[derive(Debug)]
pub struct LineProxy {
    /// The address to connect to.
    pub address: SocketAddr,
    state: Arc<LineState>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct LineState {
    to: SocketAddr,
    quality: LineQuality,
    up: LineTransfer,
    down: LineTransfer,
    /// The recorded upload of each connection, if recording is on.
    heard: Option<Mutex<Vec<UploadBuffer>>>,
    /// The number of cuts; an increment ends every connection.
    cuts: watch::Sender<u64>,
}

/// The upload of one connection so far.
type UploadBuffer = Arc<Mutex<Vec<u8>>>;

#[derive(Debug, Default)]
struct LineTransfer {
    carried: AtomicU64,
    /// The number of carried bytes after which it is cut, once.
    cut_after: Mutex<Option<u64>>,
    /// The time at which the last piece has left: the next one queues behind it.
    free: Mutex<Option<Instant>>,
}

impl LineProxy {
    /// Starts a line to `to`.
    ///
    /// # Errors
    /// When loopback has no free port.
    pub async fn lay(to: SocketAddr, quality: LineQuality) -> io::Result<Self> {
        Self::laid(to, quality, None).await
    }

    /// Starts a line to `to` that records every uploaded byte.
    ///
    /// # Errors
    /// When loopback has no free port.
    pub async fn tap(to: SocketAddr) -> io::Result<Self> {
        Self::laid(to, LineQuality::default(), Some(Mutex::default())).await
    }

    async fn laid(to: SocketAddr, quality: LineQuality, heard: Option<Mutex<Vec<UploadBuffer>>>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (up, down) = (LineTransfer::default(), LineTransfer::default());
        let state = Arc::new(LineState { to, quality, up, down, heard, cuts: watch::Sender::new(0) });
        let accepting = tokio::spawn({
            let state = Arc::clone(&state);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(connection(stream, Arc::clone(&state)));
                }
            }
        });
        Ok(Self { address, state, accepting })
    }

    /// Returns the number of bytes passed on in a direction.
    pub fn carried(&self, direction: LineDirection) -> u64 {
        self.state.way(direction).carried.load(Ordering::SeqCst)
    }

    /// Returns the uploaded bytes of every connection, in the order of the connections; nothing for a line without
    /// recording.
    pub fn uploads(&self) -> Vec<Vec<u8>> {
        let Some(heard) = &self.state.heard else { return Vec::new() };
        let all = heard.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    /// Returns the number of cuts.
    pub fn cuts(&self) -> u64 {
        *self.state.cuts.borrow()
    }

    /// Breaks every connection, once, as soon as so many bytes have been passed on in a direction; new connections are
    /// possible.
    pub fn schedule_cut(&self, direction: LineDirection, bytes: u64) {
        *self.state.way(direction).cut_after.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }
}

impl Drop for LineProxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl LineState {
    const fn way(&self, direction: LineDirection) -> &LineTransfer {
        match direction {
            LineDirection::Up => &self.up,
            LineDirection::Down => &self.down,
        }
    }

    /// Returns the buffer for a new connection's upload.
    fn ear(&self) -> Option<UploadBuffer> {
        let all = self.heard.as_ref()?;
        let heard = UploadBuffer::default();
        all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&heard));
        Some(heard)
    }

    /// Counts bytes, and cuts the line when the limit is reached.
    fn carry(&self, direction: LineDirection, bytes: usize) {
        let way = self.way(direction);
        let carried = way.carried.fetch_add(bytes as u64, Ordering::SeqCst) + bytes as u64;
        let mut limit = way.cut_after.lock().unwrap_or_else(PoisonError::into_inner);
        if limit.is_some_and(|after| carried >= after) {
            *limit = None;
            self.cuts.send_modify(|cuts| *cuts += 1);
        }
    }

    /// Returns the time at which the next `bytes` have left, at the line's speed.
    fn leaves(&self, direction: LineDirection, bytes: usize) -> Instant {
        let now = Instant::now();
        let Some(speed) = self.quality.bits_per_second else { return now };
        let mut free = self.way(direction).free.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = free.filter(|free| *free > now).unwrap_or(now);
        let ends = begins + Duration::from_secs_f64(bytes as f64 * 8.0 / speed as f64);
        *free = Some(ends);
        ends
    }
}

async fn connection(near: TcpStream, state: Arc<LineState>) {
    let mut cuts = state.cuts.subscribe();
    let Ok(far) = TcpStream::connect(state.to).await else { return };
    if near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).is_err() {
        return;
    }
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let ear = state.ear();
    // After the end of one direction, the other is drained as long as the line is intact.
    tokio::select! {
        _ = async { tokio::join!(pass(near_in, far_out, LineDirection::Up, &state, ear), pass(far_in, near_out, LineDirection::Down, &state, None)) } => {}
        _ = cuts.changed() => {}
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    direction: LineDirection,
    state: &LineState,
    ear: Option<UploadBuffer>,
) {
    let (sender, mut queue) = mpsc::channel::<(Instant, Vec<u8>)>(UNDER_WAY);
    let read = async move {
        let mut piece = vec![0; PIECE];
        while let Ok(count @ 1..) = from.read(&mut piece).await {
            let leaves = state.leaves(direction, count);
            tokio::time::sleep_until(leaves).await;
            state.carry(direction, count);
            if let Some(ear) = &ear {
                ear.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&piece[..count]);
            }
            if sender.send((leaves + state.quality.delay, piece[..count].to_vec())).await.is_err() {
                break;
            }
        }
    };
    let write = async move {
        while let Some((at, piece)) = queue.recv().await {
            tokio::time::sleep_until(at).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The end is passed on too; a missing receiver does not matter.
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
