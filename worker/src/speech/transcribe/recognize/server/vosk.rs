//! A conversation in the protocol of vosk-server: a websocket over which sound goes in pieces, each of which is answered.
//!
//! | sent | answered |
//! |---|---|
//! | `{"config": {"sample_rate", "words", "max_alternatives"}}` | nothing; the server in C++ takes it for sound and answers |
//! | a quarter of a second of 16-bit samples, until all are sent | `{"partial"}`, or `{"result", "text"}` where somebody paused |
//! | `{"eof" : 1}`, to the letter | `{"result", "text"}`: the words since the last pause |
//!
//! Times count from the beginning of the connection's sound. Each sound has a connection of its own, so none depends on
//! another. The connection is made by the client that asks other servers, so it leads to the same places, and TLS believes the
//! same authorities. The library speaks the protocol of websockets on it and opens nothing.

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
use crate::speech::audio::RATE;
use crate::speech::transcribe::piece::{Heard, Word};
use crate::speech::transcribe::wav;
use crate::speech::transcribe::web::WebError;
use answer::Answer;

/// Bytes of sound in a message: a quarter of a second, as the server's own clients send it.
const PIECE: usize = RATE as usize / 2;
/// Largest message that is read, bytes.
pub(crate) const MESSAGE: usize = 1 << 20;
/// Most messages that are read: a minute of sound is answered by 241, and a server may ask whether we are still there.
pub(crate) const MESSAGES: usize = 1_000;
/// Bytes that are read at a time.
const BUFFER: usize = 16 << 10;
/// Ends the sound. The server compares it letter by letter.
const END: &str = r#"{"eof" : 1}"#;

/// The address to which a websocket's request goes: `ws` is `http`, and `wss` is `https`.
pub(super) fn http(url: &str) -> String {
    match url.strip_prefix("ws") {
        Some(rest) if rest.starts_with("://") || rest.starts_with("s://") => format!("http{rest}"),
        _ => url.to_owned(),
    }
}

/// What the server heard in `audio`; `request` is for its address. Who waits says how long.
///
/// # Errors
/// [`RecognizerError::Web`] when nobody answers or with more than a few million bytes, [`RecognizerError::Status`] when it is no
/// websocket, [`RecognizerError::Failed`] when the answer breaks off or is none.
pub(super) async fn hear(request: RequestBuilder, audio: &[f32]) -> Result<Heard, RecognizerError> {
    let mut line = Line::open(request).await?;
    let config = json!({ "config": { "sample_rate": RATE, "words": 1, "max_alternatives": 0 } });
    line.say(Message::text(config.to_string())).await?;
    let sound = wav::write(audio);
    let mut words = Vec::new();
    for piece in sound[wav::HEADER..].chunks(PIECE) {
        line.say(Message::binary(piece.to_vec())).await?;
        words.extend(line.words().await?.unwrap_or_default());
    }
    line.say(Message::text(END)).await?;
    // What answers the end is never partial. A server that answered the configuration is one answer behind.
    let last = loop {
        if let Some(words) = line.words().await? {
            break words;
        }
    };
    words.extend(last);
    // All is said: whether the server still hears the farewell does not matter.
    let _ = line.socket.close(None).await;
    Ok(Heard { words })
}

/// A connection, and how much came over it.
struct Line {
    socket: WebSocketStream<Upgraded>,
    messages: usize,
    bytes: usize,
}

impl Line {
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
        let proven = answer.headers().get(SEC_WEBSOCKET_ACCEPT).is_some_and(|said| said.as_bytes() == proof.as_bytes());
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

    /// The words of the next answer; `None` while they may still change.
    async fn words(&mut self) -> Result<Option<Vec<Word>>, RecognizerError> {
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
                // The server in C++ answers text so.
                Message::Binary(text) => answer::read(&text),
                Message::Close(_) => Err(broken(&Error::ConnectionClosed)),
                // The library answers who asks whether we are there.
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => continue,
            };
            return Ok(match answer? {
                Answer::Partial => None,
                Answer::Words(words) => Some(words),
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
