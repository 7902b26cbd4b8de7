//! The attacks. Each has a number of callers, from several addresses of this machine. Who is disconnected comes again after a pause, so an
//! attack lasts until it is dropped; the pauses bound how often anything is tried.

mod target;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use http::{Method, Request};
use hyper::body::Bytes;
use reqwest::Client;
use support::stage::TestResult;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub(super) use target::TargetServer;

/// The number of the attackers' addresses, from 127.0.0.2 on. Honest callers have 127.0.0.1.
const ADDRESSES: usize = 9;
/// Of these, addresses of strangers who leave answers unread.
const UNREAD_ADDRESSES: usize = 8;
/// Requests of an attacker over one HTTP/2 connection; of exports, which are few and come from several addresses all the same.
const STREAMS: usize = 100;
const EXPORTS: usize = 8;
/// Pause of an attacker between the end of a connection and the next.
const PAUSE: Duration = Duration::from_secs(2);
/// Pause of an attacker between a refused request and the next over the same connection.
const PAUSE_OF_REFUSED: Duration = Duration::from_secs(5);
/// The pause between two bytes of a slow attacker.
const DRIP: Duration = Duration::from_secs(1);
/// The announced bytes of a half-sent message, and the bytes that are sent at once.
const MESSAGE: usize = 15 << 20;
const PIECE: usize = 64 << 10;
/// Calls whose message is half sent: one that needs a proof, and one of a stranger.
const HALF_SENT: [&str; 2] = ["Control/WhoAmI", "WorkerGateway/Enroll"];
/// The sign-in attempts of one caller per second.
const ATTEMPTS: usize = 10;
/// How long one of them waits for its answer.
const ATTEMPT_PATIENCE: Duration = Duration::from_secs(10);
/// A page that anybody may read.
const PUBLIC_PAGE: &str = "/sign-in";

/// An attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostileAttack {
    IdleConnections,
    IdleConnectionsOfHonestAddress,
    SlowHeaders,
    SlowBodies,
    HalfMessages,
    SignIns,
    UnreadAnswers,
    StalledExports,
    EventStreams,
}

impl HostileAttack {
    /// Every attack, in the order in which they run.
    pub(super) const ALL: [Self; 9] = [
        Self::IdleConnections,
        Self::IdleConnectionsOfHonestAddress,
        Self::SlowHeaders,
        Self::SlowBodies,
        Self::HalfMessages,
        Self::SignIns,
        Self::UnreadAnswers,
        Self::StalledExports,
        Self::EventStreams,
    ];

    /// Returns the attacks with these names, in the order in which they run; every attack for an empty text.
    ///
    /// # Errors
    /// For a name that no attack has.
    pub(super) fn choose(names: &str) -> TestResult<Vec<Self>> {
        let names: Vec<&str> = names.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        if let Some(unknown) = names.iter().find(|name| Self::ALL.iter().all(|attack| attack.name() != **name)) {
            let known: Vec<_> = Self::ALL.iter().map(|attack| attack.name()).collect();
            return Err(format!("UNDERTONE_HOSTILE_ATTACKS={unknown}: one of {}", known.join(", ")).into());
        }
        let is_chosen = |attack: &Self| names.is_empty() || names.contains(&attack.name());
        Ok(Self::ALL.into_iter().filter(is_chosen).collect())
    }

    /// Returns the name in the report.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::IdleConnections => "idle_connections",
            Self::IdleConnectionsOfHonestAddress => "idle_connections_of_honest_address",
            Self::SlowHeaders => "slow_headers",
            Self::SlowBodies => "slow_bodies",
            Self::HalfMessages => "half_sent_messages",
            Self::SignIns => "sign_ins",
            Self::UnreadAnswers => "unread_answers",
            Self::StalledExports => "stalled_exports",
            Self::EventStreams => "event_streams",
        }
    }

    /// Returns the number of connections, messages, attempts per second, exports or streams.
    pub(super) const fn callers(self, divisor: usize) -> usize {
        let whole = match self {
            Self::IdleConnections | Self::IdleConnectionsOfHonestAddress => 10_000,
            Self::UnreadAnswers => 5_000,
            Self::SlowHeaders | Self::SlowBodies => 2_000,
            Self::HalfMessages => 1_000,
            Self::SignIns => 500,
            Self::StalledExports => 64,
            Self::EventStreams => 20_000,
        };
        whole / divisor
    }

    /// Returns how many of its callers share a connection, or a client that guesses.
    const fn callers_per_connection(self) -> usize {
        match self {
            Self::HalfMessages | Self::EventStreams => STREAMS,
            Self::StalledExports => EXPORTS,
            Self::SignIns => ATTEMPTS,
            _ => 1,
        }
    }

    /// Returns whether its callers have accounts.
    pub(super) const fn needs_sessions(self) -> bool {
        matches!(self, Self::StalledExports | Self::EventStreams)
    }

    /// Begins the attack on the attackers' runtime; it continues until the set is dropped.
    pub(super) fn begin(self, target: &TargetServer, divisor: usize, runtime: &Handle) -> JoinSet<()> {
        let mut attackers = JoinSet::new();
        let (callers, callers_per_connection) = (self.callers(divisor), self.callers_per_connection());
        for number in 0..callers.div_ceil(callers_per_connection) {
            let target = target.clone();
            let streams = callers_per_connection.min(callers - number * callers_per_connection);
            let attacker = async move {
                loop {
                    // An attacker that is refused has failed, which is what is hoped for.
                    let _ = self.attack(&target, number, streams).await;
                    tokio::time::sleep(PAUSE).await;
                }
            };
            attackers.spawn_on(attacker, runtime);
        }
        attackers
    }

    /// Attacks over one connection, until it ends.
    async fn attack(self, target: &TargetServer, number: usize, streams: usize) -> TestResult<()> {
        let from = attacker(number % ADDRESSES);
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
            Self::HalfMessages => send_halves(connect(from, target.grpc).await?, streams).await,
            Self::SignIns => guess(target, from, number).await,
            Self::UnreadAnswers => {
                let from = attacker(number % UNREAD_ADDRESSES);
                leave_unread(connect(from, target.http).await?, PUBLIC_PAGE, vec![None]).await
            }
            Self::StalledExports | Self::EventStreams => {
                let what = if self == Self::StalledExports { "ledger/bundle" } else { "events" };
                let path = format!("/api/v1/consortia/{}/{what}", target.consortium);
                let first = number * self.callers_per_connection();
                let tokens = (first..first + streams).map(|stream| target.token(stream)).collect();
                leave_unread(connect(from, target.http).await?, &path, tokens).await
            }
        }
    }
}

/// Returns an address of attackers.
fn attacker(number: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 2 + number as u8)
}

async fn connect(from: Ipv4Addr, to: SocketAddr) -> TestResult<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    Ok(socket.connect(to).await?)
}

/// Sends nothing until the server closes the connection.
async fn wait_for_end(mut stream: TcpStream) -> TestResult<()> {
    stream.read_to_end(&mut Vec::new()).await?;
    Ok(())
}

/// Sends the beginning of a request, and then a byte per second.
async fn drip(mut stream: TcpStream, begin: &[u8]) -> TestResult<()> {
    stream.write_all(begin).await?;
    loop {
        tokio::time::sleep(DRIP).await;
        stream.write_all(b"x").await?;
    }
}

/// Sends most of messages that are as large as any may be, without a key, and holds them: half of them to a call that needs a proof,
/// half to one of strangers.
async fn send_halves(stream: TcpStream, streams: usize) -> TestResult<()> {
    let (sender, connection) = h2::client::handshake(stream).await?;
    let mut connection = JoinSet::from_iter([connection]);
    let mut open = JoinSet::new();
    for number in 0..streams {
        let (sender, call) = (sender.clone(), HALF_SENT[number % HALF_SENT.len()]);
        open.spawn(async move {
            // Until the connection ends.
            while send_half(sender.clone(), call).await.is_ok() {
                tokio::time::sleep(PAUSE_OF_REFUSED).await;
            }
        });
    }
    connection.join_next().await.ok_or("the connection is driven")???;
    Ok(())
}

/// Sends most of a message, and waits until the server gives it up.
async fn send_half(sender: h2::client::SendRequest<Bytes>, call: &str) -> TestResult<()> {
    let mut sender = sender.ready().await?;
    let uri = format!("http://x/undertone.v1.{call}");
    let request = Request::builder().method(Method::POST).uri(uri).header("content-type", "application/grpc");
    let (answer, mut body) = sender.send_request(request.body(())?, false)?;
    let mut head = vec![0_u8];
    head.extend((MESSAGE as u32).to_be_bytes());
    let mut remaining = MESSAGE - PIECE;
    let mut is_taken = body.send_data(head.into(), false).is_ok();
    while is_taken && remaining > 0 {
        body.reserve_capacity(PIECE.min(remaining));
        let room = std::future::poll_fn(|context| body.poll_capacity(context)).await;
        let Some(Ok(room)) = room else { break };
        let bytes = room.min(remaining);
        remaining -= bytes;
        is_taken = body.send_data(vec![0_u8; bytes].into(), false).is_ok();
    }
    // A stream that is reset is refused; the connection may go on.
    let _ = answer.await;
    Ok(())
}

/// Asks for a path once for each token, and never reads what is answered: the window of each answer is closed.
async fn leave_unread(stream: TcpStream, path: &str, tokens: Vec<Option<String>>) -> TestResult<()> {
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0);
    let (sender, connection) = builder.handshake::<_, Bytes>(stream).await?;
    let mut connection = JoinSet::from_iter([connection]);
    let mut open = JoinSet::new();
    for token in tokens {
        let (sender, uri) = (sender.clone(), format!("http://x{path}"));
        open.spawn(async move {
            // Until the connection ends.
            while ask_and_leave(sender.clone(), &uri, token.as_deref()).await.is_ok() {
                tokio::time::sleep(PAUSE_OF_REFUSED).await;
            }
        });
    }
    connection.join_next().await.ok_or("the connection is driven")???;
    Ok(())
}

/// Asks, takes the head of the answer, and waits until the server gives its body up.
async fn ask_and_leave(sender: h2::client::SendRequest<Bytes>, uri: &str, token: Option<&str>) -> TestResult<()> {
    let mut sender = sender.ready().await?;
    let mut request = Request::get(uri);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let (answer, _) = sender.send_request(request.body(())?, true)?;
    if let Ok(answer) = answer.await {
        // Nothing comes through a closed window but the end.
        let _ = answer.into_body().data().await;
    }
    Ok(())
}

/// Tries passwords of accounts that do not exist.
async fn guess(target: &TargetServer, from: Ipv4Addr, number: usize) -> TestResult<()> {
    let client = Client::builder().local_address(Some(from.into())).timeout(ATTEMPT_PATIENCE).build()?;
    let mut every = tokio::time::interval(Duration::from_secs(1) / ATTEMPTS as u32);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut attempts = JoinSet::new();
    for attempt in 0_u64.. {
        every.tick().await;
        let body =
            serde_json::json!({ "email": format!("{number}-{attempt}@example.org"), "password": "a wrong password" });
        let request = client.post(target.sessions()).json(&body);
        attempts.spawn(async move { drop(request.send().await) });
        while attempts.try_join_next().is_some() {}
    }
    Ok(())
}
