//! A session in the protocol of vosk-server: a WebSocket over which the client sends sound in messages; the server answers
//! each message.
//!
//! | message | answer |
//! |---|---|
//! | `{"config": {"sample_rate", "words", "max_alternatives"}}` | none; the server in C++ treats it as sound and answers |
//! | a quarter of a second of 16-bit samples, repeated until the end | `{"partial"}`, or `{"result", "text"}` at a pause |
//! | `{"eof" : 1}`, exactly | `{"result", "text"}`: the words since the last pause |
//!
//! Times count from the beginning of the connection's sound. Each sound has its own connection, so no answer depends on
//! another sound. The HTTP client of the other protocols opens the connection, so the same addresses and the same certificate
//! authorities are permitted. The WebSocket library only runs the protocol on it and opens no connection.

mod answer;

use futures::{SinkExt as _, StreamExt as _};
use reqwest::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{RequestBuilder, StatusCode, Upgraded};
use serde_json::json;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{LARGEST, RecognizerError, refused};
use crate::piece::{Recognition, TimedWord};
use crate::wav;
use crate::web::WebError;
use answer::VoskMessage;
use undertone_worker_speech::audio::RATE;

/// Bytes of sound in a message: a quarter of a second, as in the server's own clients.
const PIECE: usize = RATE as usize / 2;
/// Largest accepted message, in bytes.
pub const MESSAGE: usize = 1 << 20;
/// Largest accepted number of messages: a minute of sound yields 241 answers, and a server may send pings.
pub const MESSAGES: usize = 1_000;
/// Size of the read buffer, in bytes.
const BUFFER: usize = 16 << 10;
/// Message that ends the sound. The server compares it literally.
const END: &str = r#"{"eof" : 1}"#;

/// Returns the HTTP address of a WebSocket address: `ws` becomes `http`, and `wss` becomes `https`.
pub(super) fn http(url: &str) -> String {
    match url.strip_prefix("ws") {
        Some(rest) if rest.starts_with("://") || rest.starts_with("s://") => format!("http{rest}"),
        _ => url.to_owned(),
    }
}

/// Returns the words in `audio`. `request` is addressed to the server. The caller limits the time.
///
/// # Errors
/// [`RecognizerError::Web`] when the server does not answer or sends more than a few million bytes,
/// [`RecognizerError::Status`] when the server opens no WebSocket, [`RecognizerError::Failed`] when the answer breaks off or
/// has another form.
pub(super) async fn transcribe(request: RequestBuilder, audio: &[f32]) -> Result<Recognition, RecognizerError> {
    let mut line = VoskSession::open(request).await?;
    let config = json!({ "config": { "sample_rate": RATE, "words": 1, "max_alternatives": 0 } });
    line.say(Message::text(config.to_string())).await?;
    let sound = wav::write(audio);
    let mut words = Vec::new();
    for piece in sound[wav::HEADER..].chunks(PIECE) {
        line.say(Message::binary(piece.to_vec())).await?;
        words.extend(line.words().await?.unwrap_or_default());
    }
    line.say(Message::text(END)).await?;
    // The answer to the end is never partial. A server that answered the configuration is one answer behind.
    let last = loop {
        if let Some(words) = line.words().await? {
            break words;
        }
    };
    words.extend(last);
    // All words have arrived, so a failure to close the connection does not matter.
    let _ = line.socket.close(None).await;
    Ok(Recognition { words })
}

/// A connection, and the amount of data received over it.
struct VoskSession {
    socket: WebSocketStream<Upgraded>,
    messages: usize,
    bytes: usize,
}

impl VoskSession {
    async fn open(request: RequestBuilder) -> Result<Self, RecognizerError> {
        let web = |error: reqwest::Error| RecognizerError::Web(error.into());
        let key = generate_key();
        let answer = request
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, key.as_str())
            .send()
            .await
            .map_err(web)?;
        let proof = derive_accept_key(key.as_bytes());
        let proven =
            answer.headers().get(SEC_WEBSOCKET_ACCEPT).is_some_and(|value| value.as_bytes() == proof.as_bytes());
        if answer.status() != StatusCode::SWITCHING_PROTOCOLS || !proven {
            return Err(refused(answer.status().as_u16()));
        }
        let stream = answer.upgrade().await.map_err(web)?;
        let limits = WebSocketConfig::default()
            .read_buffer_size(BUFFER)
            .max_message_size(Some(MESSAGE))
            .max_frame_size(Some(MESSAGE));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await;
        Ok(Self { socket, messages: 0, bytes: 0 })
    }

    async fn say(&mut self, message: Message) -> Result<(), RecognizerError> {
        self.socket.send(message).await.map_err(|error| broken(&error))
    }

    /// Returns the words of the next answer; `None` while they may still change.
    async fn words(&mut self) -> Result<Option<Vec<TimedWord>>, RecognizerError> {
        loop {
            let message = self.socket.next().await.unwrap_or(Err(Error::ConnectionClosed));
            let message = message.map_err(|error| broken(&error))?;
            self.messages += 1;
            self.bytes += message.len();
            if self.messages > MESSAGES {
                return Err(failed(&format!("answers with more than {MESSAGES} messages")));
            }
            if self.bytes > LARGEST {
                return Err(RecognizerError::Web(WebError::Large(LARGEST)));
            }
            let answer = match message {
                Message::Text(text) => answer::read(text.as_bytes()),
                // The server in C++ sends text in binary messages.
                Message::Binary(text) => answer::read(&text),
                Message::Close(_) => Err(broken(&Error::ConnectionClosed)),
                // The library answers pings.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            return Ok(match answer? {
                VoskMessage::Partial => None,
                VoskMessage::Words(words) => Some(words),
            });
        }
    }
}

fn failed(reason: &str) -> RecognizerError {
    RecognizerError::Failed(format!("the recognizer's server {reason}"))
}

fn broken(error: &Error) -> RecognizerError {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { .. }) => RecognizerError::Web(WebError::Large(MESSAGE)),
        Error::ConnectionClosed
        | Error::AlreadyClosed
        | Error::Io(_)
        | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => {
            failed("closed the connection before it had answered: look at its own log")
        }
        _ => failed("does not keep to the protocol of websockets: choose the `protocol` that it speaks"),
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
