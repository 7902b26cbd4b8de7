//! Cloud recognizers on loopback: real HTTP servers for the three protocols, which record every request.
//!
//! The record is the adversary's view: every request in the order of its arrival, with its sound. The caller provides
//! the recognition: an [`Ear`] may be PocketSphinx. Faults can be ordered, to test their handling. Run several servers
//! for several providers that do not collude.
//!
//! This file is part of two crates, the worker's own tests and the end-to-end tests, and so names neither.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Returns words with beginning and end, in seconds, for a WAV file. Called on a thread that may block, one or several
/// requests at a time.
pub type Ear = Arc<dyn Fn(&[u8]) -> Vec<(String, f64, f64)> + Send + Sync>;

/// The key that every server accepts.
pub const KEY: &str = "loopback-key";

/// A fault that a server returns instead of a recognition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudFault {
    /// Answer with this status.
    Status(u16),
    /// Answer with this status, and request a retry after so many seconds.
    Later(u16, u64),
    /// Answer 200 with an unexpected body.
    Nonsense,
    /// Redirect (302) to another address.
    Elsewhere,
    /// Close the connection.
    HangUp,
}

/// A request as received.
#[derive(Debug, Clone)]
pub struct CloudRequest {
    /// The time at which it was complete.
    pub at: Instant,
    /// `POST /v1/listen?..`.
    pub line: String,
    /// All headers.
    pub headers: HeaderMap,
    /// All fields of the request except the sound, as `name=value`, sorted.
    pub fields: Vec<String>,
    /// The sound as a WAV file (Google's protocol sends samples without a header; a canonical one is added).
    pub wav: Vec<u8>,
    /// The whole body.
    pub body: Vec<u8>,
}

#[derive(Default)]
struct CloudState {
    received: Vec<CloudRequest>,
    faults: VecDeque<CloudFault>,
    now: usize,
    most: usize,
}

/// A running server; stops when dropped.
pub struct FakeCloud {
    address: SocketAddr,
    state: Arc<Mutex<CloudState>>,
    serving: JoinHandle<()>,
}

impl Drop for FakeCloud {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl FakeCloud {
    /// Starts a server that recognizes with `ear`.
    ///
    /// # Errors
    /// When loopback has no free port.
    pub async fn start(ear: Ear) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let state = Arc::new(Mutex::new(CloudState::default()));
        let shared = Arc::clone(&state);
        let serving = tokio::spawn(async move {
            // Connections end with the task that owns them.
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (state, ear) = (Arc::clone(&shared), Arc::clone(&ear));
                let service = hyper::service::service_fn(move |request| {
                    let (state, ear) = (Arc::clone(&state), Arc::clone(&ear));
                    async move { answer(request, state, ear).await }
                });
                connections.spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new();
                    // The client has closed the connection, or a fault has.
                    drop(connection.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Ok(Self { address, state, serving })
    }

    /// Returns the server's address: `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Orders these faults for the next requests, in this order, before any further recognition.
    pub fn order(&self, faults: impl IntoIterator<Item = CloudFault>) {
        lock(&self.state).faults.extend(faults);
    }

    /// Returns all received requests.
    pub fn received(&self) -> Vec<CloudRequest> {
        lock(&self.state).received.clone()
    }

    /// Returns the highest number of concurrent requests.
    pub fn most_at_a_time(&self) -> usize {
        lock(&self.state).most
    }
}

fn lock(state: &Mutex<CloudState>) -> MutexGuard<'_, CloudState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The protocol of a request.
#[derive(Clone, Copy)]
enum CloudProtocol {
    OpenAi,
    Google,
    Deepgram,
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<CloudState>>,
    ear: Ear,
) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let line = format!("{} {}", parts.method, parts.uri);
    let (protocol, understood) = match parts.uri.path() {
        "/v1/audio/transcriptions" => (CloudProtocol::OpenAi, form(&parts.headers, &body).await),
        "/v1/speech:recognize" => (CloudProtocol::Google, google(&body)),
        "/v1/listen" => {
            (CloudProtocol::Deepgram, Some((parts.uri.query().map(str::to_owned).into_iter().collect(), body.to_vec())))
        }
        _ => return Ok(status(404)),
    };
    let Some((mut fields, wav)) = understood else { return Ok(status(400)) };
    fields.sort();
    let is_authorized = knows(protocol, &parts.headers);
    let fault = {
        let mut state = lock(&state);
        let headers = parts.headers;
        state.received.push(CloudRequest {
            at: Instant::now(),
            line,
            headers,
            fields,
            wav: wav.clone(),
            body: body.to_vec(),
        });
        state.faults.pop_front()
    };
    match fault {
        Some(CloudFault::Status(code)) => return Ok(status(code)),
        Some(CloudFault::Later(code, seconds)) => {
            let mut answer = status(code);
            answer.headers_mut().insert("retry-after", seconds.into());
            return Ok(answer);
        }
        Some(CloudFault::Nonsense) => return Ok(Response::new(Full::from("busy, says the proxy"))),
        Some(CloudFault::Elsewhere) => {
            let mut answer = status(302);
            answer.headers_mut().insert("location", hyper::header::HeaderValue::from_static("/elsewhere"));
            return Ok(answer);
        }
        Some(CloudFault::HangUp) => return Err(std::io::Error::other("hung up")),
        None if !is_authorized => return Ok(status(401)),
        None => {}
    }
    {
        let mut state = lock(&state);
        state.now += 1;
        state.most = state.most.max(state.now);
    }
    let words = tokio::task::spawn_blocking(move || ear(&wav)).await;
    lock(&state).now -= 1;
    let words = words.map_err(std::io::Error::other)?;
    let mut answer = Response::new(Full::from(recognition_body(protocol, &words).to_string()));
    answer.headers_mut().insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static("application/json"));
    // A provider may set a cookie; clients should not keep it.
    answer.headers_mut().insert("set-cookie", hyper::header::HeaderValue::from_static("visitor=1; Path=/"));
    Ok(answer)
}

fn status(code: u16) -> Response<Full<Bytes>> {
    let mut answer =
        Response::new(Full::from(json!({ "error": { "code": code, "message": "as ordered" } }).to_string()));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

/// Returns whether the key is in the protocol's header.
fn knows(protocol: CloudProtocol, headers: &HeaderMap) -> bool {
    let has = |name: &str, value: String| headers.get(name).is_some_and(|found| found.as_bytes() == value.as_bytes());
    match protocol {
        CloudProtocol::OpenAi => has("authorization", format!("Bearer {KEY}")),
        CloudProtocol::Google => has("x-goog-api-key", KEY.to_owned()),
        CloudProtocol::Deepgram => has("authorization", format!("Token {KEY}")),
    }
}

/// Returns fields and file of a form; each part's own headers are fields too.
async fn form(headers: &HeaderMap, body: &Bytes) -> Option<(Vec<String>, Vec<u8>)> {
    let boundary = multer::parse_boundary(headers.get(CONTENT_TYPE)?.to_str().ok()?).ok()?;
    let body = body.clone();
    let stream = futures::stream::once(async move { Ok::<_, Infallible>(body) });
    let mut form = multer::Multipart::new(stream, boundary);
    let (mut fields, mut file) = (Vec::new(), None);
    while let Some(field) = form.next_field().await.ok()? {
        let name = field.name()?.to_owned();
        if name == "file" {
            for (header, value) in field.headers() {
                fields.push(format!("file.{header}={}", value.to_str().ok()?));
            }
            file = Some(field.bytes().await.ok()?.to_vec());
        } else {
            fields.push(format!("{name}={}", field.text().await.ok()?));
        }
    }
    Some((fields, file?))
}

/// Returns configuration and samples of a request to Google.
fn google(body: &[u8]) -> Option<(Vec<String>, Vec<u8>)> {
    let request: Value = serde_json::from_slice(body).ok()?;
    let mut fields: Vec<String> =
        request.get("config")?.as_object()?.iter().map(|(name, value)| format!("config.{name}={value}")).collect();
    let others = request.as_object()?.keys().filter(|name| !matches!(name.as_str(), "config" | "audio"));
    fields.extend(others.map(|name| format!("{name}=...")));
    let samples = STANDARD.decode(request.get("audio")?.get("content")?.as_str()?).ok()?;
    let rate = u32::try_from(request.get("config")?.get("sampleRateHertz")?.as_u64()?).ok()?;
    let length = u32::try_from(samples.len()).ok()?;
    let mut wav = Vec::with_capacity(44 + samples.len());
    wav.extend(b"RIFF");
    wav.extend((length + 36).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    wav.extend([1, 0, 1, 0]);
    wav.extend(rate.to_le_bytes());
    wav.extend((2 * rate).to_le_bytes());
    wav.extend([2, 0, 16, 0]);
    wav.extend(b"data");
    wav.extend(length.to_le_bytes());
    wav.extend(samples);
    Some((fields, wav))
}

/// Returns words in the form of the protocol.
fn recognition_body(protocol: CloudProtocol, words: &[(String, f64, f64)]) -> Value {
    let text = words.iter().map(|(word, ..)| word.as_str()).collect::<Vec<_>>().join(" ");
    match protocol {
        CloudProtocol::OpenAi => {
            let words: Vec<_> =
                words.iter().map(|(word, start, end)| json!({ "word": word, "start": start, "end": end })).collect();
            json!({ "task": "transcribe", "language": "english", "text": text, "words": words })
        }
        CloudProtocol::Google if words.is_empty() => json!({ "totalBilledTime": "1s" }),
        CloudProtocol::Google => {
            let time = |seconds: &f64| format!("{seconds:.3}s");
            let words: Vec<_> = words
                .iter()
                .map(|(word, start, end)| json!({ "word": word, "startTime": time(start), "endTime": time(end) }))
                .collect();
            json!({ "results": [{ "alternatives": [{ "transcript": text, "confidence": 0.9, "words": words }] }] })
        }
        CloudProtocol::Deepgram => {
            let words: Vec<_> = words
                .iter()
                .map(|(word, start, end)| json!({ "word": word, "start": start, "end": end, "confidence": 0.9 }))
                .collect();
            json!({
                "metadata": { "channels": 1 },
                "results": { "channels": [{ "alternatives": [{ "transcript": text, "confidence": 0.9, "words": words }] }] },
            })
        }
    }
}
