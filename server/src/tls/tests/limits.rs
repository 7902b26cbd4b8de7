//! The limits of handshakes, each at its value and one beyond, by a clock that is moved by hand.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::yield_now;
use tokio::time::advance;
use tokio_stream::StreamExt as _;
use tokio_util::sync::CancellationToken;

use super::{gets, shakes, speaking};
use crate::tls::incoming::{HANDSHAKE, bounded};
use crate::tls::{Shown, TlsIdentity};

const INSTANT: Duration = Duration::from_millis(1);

/// Where handshakes are done, so many at a time, and the certificate that is shown.
async fn door(dir: &std::path::Path, under_way: usize) -> (SocketAddr, String) {
    // Certificates are checked against the real clock by who connects.
    let now = crate::ctx::Clock::system().now();
    let config = speaking(dir);
    let certificate = TlsIdentity::of(&config, now).expect("made").expect("there is one").certificate;
    let shown = Shown::begin(&config, now).expect("usable").expect("there is one");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let handshake = shown.handshake(&[b"h2"]).expect("TLS");
    let mut connections = Box::pin(bounded(listener, handshake, CancellationToken::new(), under_way));
    tokio::spawn(async move { while connections.next().await.is_some() {} });
    (address, certificate)
}

/// Until this is dropped the clock does not move by itself while bytes are on their way.
fn still() -> mpsc::Sender<()> {
    let (held, ended) = mpsc::channel();
    tokio::task::spawn_blocking(move || ended.recv());
    held
}

async fn connection(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("connected")
}

#[tokio::test(start_paused = true)]
async fn a_handshake_has_ten_seconds_and_no_more() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let _still = still();
    let (address, certificate) = door(dir.path(), 3).await;
    let (slow, silent) = (connection(address).await, connection(address).await);
    assert!(gets(address, &certificate).await, "the two before it were taken");
    advance(HANDSHAKE.saturating_sub(INSTANT)).await;
    assert!(shakes(slow, &certificate).await, "in time");
    advance(INSTANT * 2).await;
    let mut closed = false;
    for _ in 0..100_000 {
        closed = matches!(silent.try_read(&mut [0]), Ok(0));
        if closed {
            break;
        }
        yield_now().await;
    }
    assert!(closed, "it said nothing");
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_while_all_turns_are_taken_waits() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let _still = still();
    let (address, certificate) = door(dir.path(), 3).await;
    let _two = (connection(address).await, connection(address).await);
    assert!(gets(address, &certificate).await, "a third has its turn");
    let _third = connection(address).await;
    let late = tokio::spawn(async move { gets(address, &certificate).await });
    for _ in 0..10_000 {
        yield_now().await;
    }
    assert!(!late.is_finished(), "a fourth has none");
    advance(HANDSHAKE + INSTANT).await;
    assert!(late.await.expect("no panic"), "the silent ones were sent away");
}
