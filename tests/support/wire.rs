//! Parses the bytes that a site sent to its server: every call with its headers and messages.
//!
//! An HTTP/2 server without answers processes the recorded bytes again, so that nothing is overlooked: bytes that
//! belong to no call are an error.

use std::io::Cursor;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::poll;
use h2::server::Builder;
use tokio::io::{AsyncRead, ReadBuf};

/// One call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireCall {
    /// `/undertone.v1.WorkerGateway/Ask`.
    pub path: String,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// Its messages, in order, unpacked from their frames.
    pub messages: Vec<Vec<u8>>,
    /// The bytes after the last complete message, for an interrupted call.
    pub rest: Vec<u8>,
}

/// Reasons why bytes cannot be parsed as calls.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The bytes are not HTTP/2.
    #[error("what went over the line is not HTTP/2")]
    Protocol(#[from] h2::Error),
    /// A message is compressed by gRPC itself, which the product never does.
    #[error("a message of {0} is packed")]
    Packed(String),
}

/// The recorded bytes, followed by an endless pause: at the end of a connection h2 discards everything that was not
/// accepted yet.
struct RecordedBytes(Cursor<Vec<u8>>);

impl AsyncRead for RecordedBytes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.0.position() == self.0.get_ref().len() as u64 {
            return Poll::Pending;
        }
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

/// Returns the calls of one connection, in the order in which they began.
///
/// # Errors
/// [`WireError`] when the bytes are not those of a gRPC client.
pub async fn calls(bytes: Vec<u8>) -> Result<Vec<WireCall>, WireError> {
    const WIDE: u32 = (1 << 31) - 1;
    // The real server's windows limited the client; these must not be smaller.
    let mut server = Builder::new();
    server.initial_window_size(WIDE).initial_connection_window_size(WIDE).max_concurrent_streams(WIDE);
    server.max_frame_size((1 << 24) - 1).max_header_list_size(1 << 24);
    let line = tokio::io::join(RecordedBytes(Cursor::new(bytes)), tokio::io::sink());
    let mut handshake = std::pin::pin!(server.handshake::<_, Cursor<Vec<u8>>>(line));
    // All bytes are available, so a pending future will never complete.
    let Poll::Ready(connection) = poll!(&mut handshake) else { return Ok(Vec::new()) };
    let mut connection = connection?;
    let mut streams = Vec::new();
    loop {
        let next = poll!(std::pin::pin!(connection.accept()));
        let Poll::Ready(Some(next)) = next else { break };
        // The responses are kept: dropping one would reset its call.
        streams.push(next?);
    }
    let mut calls = Vec::new();
    for (request, _answer) in &mut streams {
        let mut data = Vec::new();
        while let Poll::Ready(Some(piece)) = poll!(std::pin::pin!(request.body_mut().data())) {
            data.extend_from_slice(&piece?);
        }
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        let headers = request.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let path = request.uri().path().to_owned();
        let (messages, rest) = messages(&path, &data)?;
        calls.push(WireCall { path, headers, messages, rest });
    }
    Ok(calls)
}

/// Splits gRPC's frames: a byte for compression, four for the length, the message.
fn messages(path: &str, data: &[u8]) -> Result<(Vec<Vec<u8>>, Vec<u8>), WireError> {
    let (mut all, mut rest) = (Vec::new(), data);
    while let Some((head, body)) = rest.split_at_checked(5) {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let Some((message, after)) = body.split_at_checked(length) else { break };
        if head[0] != 0 {
            return Err(WireError::Packed(path.to_owned()));
        }
        all.push(message.to_vec());
        rest = after;
    }
    Ok((all, rest.to_vec()))
}
