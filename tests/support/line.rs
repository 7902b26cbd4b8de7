//! A slow or unreliable line: a proxy on loopback between two programs, which passes on what it gets, late, no faster than it is
//! told, and breaks where a scenario wants it to.

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

/// Bytes that are passed on together.
const PIECE: usize = 8 << 10;
/// Pieces on their way in one direction, beyond which the sender is not heard.
const UNDER_WAY: usize = 256;

/// How a line is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quality {
    /// Bits a second in each direction; as fast as the machine without.
    pub bits_per_second: Option<u64>,
    /// How long anything is on its way, in each direction.
    pub delay: Duration,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From whoever connects.
    Up,
    /// To whoever connects.
    Down,
}

/// A line; it is cut for good when dropped.
#[derive(Debug)]
pub struct Line {
    /// Where it begins.
    pub address: SocketAddr,
    state: Arc<State>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    to: SocketAddr,
    quality: Quality,
    up: Way,
    down: Way,
    /// What went up, by connection, where that is kept.
    heard: Option<Mutex<Vec<Heard>>>,
    /// Counts the times that it was cut: every connection ends with the next.
    cuts: watch::Sender<u64>,
}

/// What one connection sent up so far.
type Heard = Arc<Mutex<Vec<u8>>>;

#[derive(Debug, Default)]
struct Way {
    carried: AtomicU64,
    /// After how many carried bytes it is to be cut, once.
    cut_after: Mutex<Option<u64>>,
    /// When the last piece has left: the next one queues behind it.
    free: Mutex<Option<Instant>>,
}

impl Line {
    /// A line to `to`.
    ///
    /// # Errors
    /// When loopback has no port left.
    pub async fn lay(to: SocketAddr, quality: Quality) -> io::Result<Self> {
        Self::laid(to, quality, None).await
    }

    /// A line to `to` that keeps every byte that goes up.
    ///
    /// # Errors
    /// When loopback has no port left.
    pub async fn tap(to: SocketAddr) -> io::Result<Self> {
        Self::laid(to, Quality::default(), Some(Mutex::default())).await
    }

    async fn laid(to: SocketAddr, quality: Quality, heard: Option<Mutex<Vec<Heard>>>) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (up, down) = (Way::default(), Way::default());
        let state = Arc::new(State { to, quality, up, down, heard, cuts: watch::Sender::new(0) });
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

    /// Bytes that were passed on in a direction.
    pub fn carried(&self, direction: Direction) -> u64 {
        self.state.way(direction).carried.load(Ordering::SeqCst)
    }

    /// Every byte that went up so far, by connection, in the order in which they were made; nothing of a line that is no tap.
    pub fn heard(&self) -> Vec<Vec<u8>> {
        let Some(heard) = &self.state.heard else { return Vec::new() };
        let all = heard.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|one| one.lock().unwrap_or_else(PoisonError::into_inner).clone()).collect()
    }

    /// How often it was cut.
    pub fn cuts(&self) -> u64 {
        *self.state.cuts.borrow()
    }

    /// Breaks every connection, once, as soon as so many bytes have been passed on in a direction; new ones can be made.
    pub fn cut_after(&self, direction: Direction, bytes: u64) {
        *self.state.way(direction).cut_after.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.accepting.abort();
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }
}

impl State {
    const fn way(&self, direction: Direction) -> &Way {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Where to keep what a new connection sends up.
    fn ear(&self) -> Option<Heard> {
        let all = self.heard.as_ref()?;
        let heard = Heard::default();
        all.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&heard));
        Some(heard)
    }

    /// Counts bytes; cuts the line when it is time.
    fn carry(&self, direction: Direction, bytes: usize) {
        let way = self.way(direction);
        let carried = way.carried.fetch_add(bytes as u64, Ordering::SeqCst) + bytes as u64;
        let mut cut = way.cut_after.lock().unwrap_or_else(PoisonError::into_inner);
        if cut.is_some_and(|after| carried >= after) {
            *cut = None;
            self.cuts.send_modify(|cuts| *cuts += 1);
        }
    }

    /// When the next `bytes` have left, at the line's speed.
    fn leaves(&self, direction: Direction, bytes: usize) -> Instant {
        let now = Instant::now();
        let Some(speed) = self.quality.bits_per_second else { return now };
        let mut free = self.way(direction).free.lock().unwrap_or_else(PoisonError::into_inner);
        let begins = free.filter(|free| *free > now).unwrap_or(now);
        let ends = begins + Duration::from_secs_f64(bytes as f64 * 8.0 / speed as f64);
        *free = Some(ends);
        ends
    }
}

async fn connection(near: TcpStream, state: Arc<State>) {
    let mut cuts = state.cuts.subscribe();
    let Ok(far) = TcpStream::connect(state.to).await else { return };
    if near.set_nodelay(true).and_then(|()| far.set_nodelay(true)).is_err() {
        return;
    }
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let ear = state.ear();
    // Whatever ends first, the other direction is drained as long as the line is whole.
    tokio::select! {
        _ = async { tokio::join!(pass(near_in, far_out, Direction::Up, &state, ear), pass(far_in, near_out, Direction::Down, &state, None)) } => {}
        _ = cuts.changed() => {}
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    direction: Direction,
    state: &State,
    ear: Option<Heard>,
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
        // The end is passed on too; that there is nobody to hear it is no matter.
        let _ = to.shutdown().await;
    };
    tokio::join!(read, write);
}
