//! The attacks. Each has a number of callers, from several addresses of this machine, and ends when it is dropped.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::{Method, Request};
use reqwest::Client;
use support::stage::{Stage, Staged};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use url::Url;

/// The number of the attackers' addresses, from 127.0.0.2 on. Honest callers have 127.0.0.1.
const ADDRESSES: usize = 9;
/// The requests of an attacker over one HTTP/2 connection.
const STREAMS: usize = 100;
/// The pause between two bytes of a slow attacker.
const DRIP: Duration = Duration::from_secs(1);
/// The announced bytes of a half-sent message, and the bytes that are sent at once.
const MESSAGE: usize = 15 << 20;
const PIECE: usize = 64 << 10;
/// The sign-in attempts of one caller per second.
const ATTEMPTS: usize = 10;

/// The server under attack.
#[derive(Debug, Clone)]
pub(super) struct Target {
    http: SocketAddr,
    grpc: SocketAddr,
    base: String,
    consortium: String,
    token: String,
}

impl Target {
    pub(super) fn new(stage: &Stage, token: &str) -> Staged<Self> {
        let base = stage.address();
        let port = Url::parse(&base)?.port().ok_or("the server's address has a port")?;
        let consortium = stage.consortium.to_string();
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        Ok(Self { http, grpc: stage.gateway(), base, consortium, token: token.to_owned() })
    }

    /// Returns the address that shows whether the server answers.
    pub(super) fn health(&self) -> String {
        format!("{}/health/live", self.base)
    }
}

/// An attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attack {
    IdleConnections,
    IdleConnectionsOfHonestAddress,
    SlowHeaders,
    SlowBodies,
    HalfMessages,
    SignIns,
    StalledExports,
    EventStreams,
}

impl Attack {
    /// Every attack, in the order in which they run.
    pub(super) const ALL: [Self; 8] = [
        Self::IdleConnections,
        Self::IdleConnectionsOfHonestAddress,
        Self::SlowHeaders,
        Self::SlowBodies,
        Self::HalfMessages,
        Self::SignIns,
        Self::StalledExports,
        Self::EventStreams,
    ];

    /// Returns the name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::IdleConnections => "idle_connections",
            Self::IdleConnectionsOfHonestAddress => "idle_connections_of_honest_address",
            Self::SlowHeaders => "slow_headers",
            Self::SlowBodies => "slow_bodies",
            Self::HalfMessages => "half_sent_messages",
            Self::SignIns => "sign_ins",
            Self::StalledExports => "stalled_exports",
            Self::EventStreams => "event_streams",
        }
    }

    /// Returns the number of connections, messages, attempts per second, exports or streams.
    pub(super) const fn callers(self, divisor: usize) -> usize {
        let whole = match self {
            Self::IdleConnections | Self::IdleConnectionsOfHonestAddress => 10_000,
            Self::SlowHeaders | Self::SlowBodies => 2_000,
            Self::HalfMessages => 1_000,
            Self::SignIns => 500,
            Self::StalledExports => 64,
            Self::EventStreams => 20_000,
        };
        whole / divisor
    }

    /// Begins the attack; it continues until the set is dropped.
    pub(super) fn begin(self, target: &Target, divisor: usize) -> JoinSet<()> {
        let mut attackers = JoinSet::new();
        let callers = self.callers(divisor);
        let tasks = match self {
            Self::HalfMessages | Self::StalledExports | Self::EventStreams => callers.div_ceil(STREAMS),
            Self::SignIns => callers.div_ceil(ATTEMPTS),
            _ => callers,
        };
        for number in 0..tasks {
            let target = target.clone();
            let streams = STREAMS.min(callers - (number * STREAMS).min(callers));
            attackers.spawn(async move {
                // A rejected attacker fails, which is the desired outcome.
                let _ = self.attack(&target, number, streams).await;
            });
        }
        attackers
    }

    async fn attack(self, target: &Target, number: usize, streams: usize) -> Staged<()> {
        let from = attacker(number);
        match self {
            Self::IdleConnections => wait_for_end(connect(from, target.http).await?).await,
            Self::IdleConnectionsOfHonestAddress => {
                wait_for_end(connect(Ipv4Addr::LOCALHOST, target.http).await?).await
            }
            Self::SlowHeaders => {
                drip(connect(from, target.http).await?, b"GET / HTTP/1.1\r\nhost: x\r\nx-slow: ").await
            }
            Self::SlowBodies => {
                let head = b"POST /ui/sign-in HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: 1000000\r\n\r\n";
                drip(connect(from, target.http).await?, head).await
            }
            Self::HalfMessages => half_messages(connect(from, target.grpc).await?, streams).await,
            Self::SignIns => sign_in(target, from, number).await,
            Self::StalledExports => {
                let path = format!("/api/v1/consortia/{}/ledger/bundle", target.consortium);
                stalled(target, from, &path, streams).await
            }
            Self::EventStreams => {
                let path = format!("/api/v1/consortia/{}/events", target.consortium);
                stalled(target, from, &path, streams).await
            }
        }
    }
}

/// Returns the address of an attacker.
fn attacker(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + (number % ADDRESSES) as u8)
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> Staged<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    Ok(socket.connect(to).await?)
}

/// Sends nothing until the server closes the connection.
async fn wait_for_end(mut stream: TcpStream) -> Staged<()> {
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Sends the beginning of a request, and then a byte per second.
async fn drip(mut stream: TcpStream, begin: &[u8]) -> Staged<()> {
    stream.write_all(begin).await?;
    loop {
        tokio::time::sleep(DRIP).await;
        stream.write_all(b"x").await?;
    }
}

/// Sends most of the bytes of messages with the largest permitted size, without a key, and keeps them open.
async fn half_messages(stream: TcpStream, streams: usize) -> Staged<()> {
    let (sender, connection) = h2::client::handshake(stream).await?;
    let mut connection = JoinSet::from_iter([connection]);
    let mut open = JoinSet::new();
    for _ in 0..streams {
        let mut sender = sender.clone().ready().await?;
        let uri = "http://x/undertone.v1.Control/WhoAmI";
        let request = Request::builder().method(Method::POST).uri(uri).header("content-type", "application/grpc");
        let (answer, mut body) = sender.send_request(request.body(())?, false)?;
        open.spawn(async move {
            let mut head = vec![0_u8];
            head.extend((MESSAGE as u32).to_be_bytes());
            let mut left = MESSAGE - PIECE;
            let mut sent = body.send_data(head.into(), false).is_ok();
            while sent && left > 0 {
                body.reserve_capacity(PIECE);
                let room = std::future::poll_fn(|context| body.poll_capacity(context)).await;
                let Some(Ok(room)) = room else { break };
                let bytes = room.min(left);
                left -= bytes;
                sent = body.send_data(vec![0_u8; bytes].into(), false).is_ok();
            }
            let _ = answer.await;
            std::future::pending::<()>().await;
        });
    }
    connection.join_next().await.ok_or("the connection is driven")???;
    Ok(())
}

/// Begins responses that are never read: the flow-control window of each is closed.
async fn stalled(target: &Target, from: Ipv4Addr, path: &str, streams: usize) -> Staged<()> {
    let stream = connect(from, target.http).await?;
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0);
    let (sender, connection) = builder.handshake::<_, hyper::body::Bytes>(stream).await?;
    let mut connection = JoinSet::from_iter([connection]);
    let mut answers = Vec::new();
    for _ in 0..streams {
        let mut sender = sender.clone().ready().await?;
        let request =
            Request::get(format!("http://x{path}")).header("authorization", format!("Bearer {}", target.token));
        let (answer, _) = sender.send_request(request.body(())?, true)?;
        answers.push(answer);
    }
    // Response headers are read, bodies are not.
    let mut bodies = Vec::new();
    for answer in answers {
        bodies.extend(answer.await.map(http::Response::into_body));
    }
    connection.join_next().await.ok_or("the connection is driven")???;
    drop(bodies);
    Ok(())
}

/// Tries passwords of accounts that do not exist.
async fn sign_in(target: &Target, from: Ipv4Addr, number: usize) -> Staged<()> {
    let client = Client::builder().local_address(Some(from.into())).build()?;
    let mut every = tokio::time::interval(Duration::from_secs(1) / ATTEMPTS as u32);
    let mut attempts = JoinSet::new();
    for attempt in 0_u64.. {
        every.tick().await;
        let body =
            serde_json::json!({ "email": format!("{number}-{attempt}@example.org"), "password": "a wrong password" });
        let request = client.post(format!("{}/api/v1/session", target.base)).json(&body);
        attempts.spawn(async move { drop(request.send().await) });
        while attempts.try_join_next().is_some() {}
    }
    Ok(())
}
