//! The longest silence of a connection during a call, by a clock that advances when all tasks are idle.

use std::time::Duration;

use axum::Router;
use axum::routing::any;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::time::Instant;

use crate::connections::{ConnectionLimits, KEEPALIVE, serve_stream};
use undertone_server_core::config::ConnectionConfig;

/// The type of a ping frame (RFC 9113, 6.7), and the flag of its reply.
const PING: u8 = 6;
const ACK: u8 = 1;
/// A request of stream 1 without a body: `POST http:/`, from the static table of HPACK (RFC 7541, appendix A).
const REQUEST: [u8; 12] = [0, 0, 3, 1, 0x5, 0, 0, 0, 1, 0x83, 0x86, 0x84];

/// Returns the next frame's type and payload; `None` after the connection was closed.
async fn frame(connection: &mut DuplexStream) -> Option<(u8, Vec<u8>)> {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await.ok()?;
    let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
    connection.read_exact(&mut payload).await.ok()?;
    Some((head[3], payload))
}

/// Returns the times of the first ping and of the close of a connection that replies once after `answers`, or never.
async fn life(answers: Option<Duration>) -> (Duration, Duration) {
    let (mut connection, served) = tokio::io::duplex(1 << 16);
    let limits = ConnectionLimits::new(ConnectionConfig::default(), false, true);
    let router = Router::new().fallback(any(std::future::pending::<()>));
    let server = tokio::spawn(serve_stream(router, limits, served));
    let began = Instant::now();
    // A client's preface, and settings without changes (RFC 9113, 3.4).
    connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    connection.write_all(&REQUEST).await.unwrap();
    let mut ping_time = None;
    while let Some((kind, payload)) = frame(&mut connection).await {
        if kind != PING || ping_time.is_some() {
            continue;
        }
        ping_time = Some(began.elapsed());
        if let Some(after) = answers {
            tokio::time::sleep(after).await;
            let head = [0, 0, 8, PING, ACK, 0, 0, 0, 0];
            connection.write_all(&[&head[..], &payload].concat()).await.unwrap();
        }
    }
    server.abort();
    (ping_time.expect("it was asked"), began.elapsed())
}

#[tokio::test(start_paused = true)]
async fn silent_connection_is_pinged_and_closed_after_twenty_seconds() {
    let (asked, closed) = life(None).await;
    assert_eq!((asked.as_secs(), closed.as_secs()), (KEEPALIVE.as_secs(), 2 * KEEPALIVE.as_secs()));
}

#[tokio::test(start_paused = true)]
async fn connection_that_answers_pings_stays_open() {
    let instant = Duration::from_millis(5);
    let (_, closed) = life(Some(KEEPALIVE.saturating_sub(instant))).await;
    assert!(closed > 3 * KEEPALIVE, "{closed:?}");
}
