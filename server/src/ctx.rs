//! What every rule may use: database, clock, randomness, keys, files. One value, cheap to clone, made once in `build`.

mod board;
mod clock;
mod random;
mod wake;
mod watchers;

use std::sync::Arc;

use ed25519_dalek::SigningKey;
use time::OffsetDateTime;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::auth::{Passwords, Provider};
use crate::config::Config;
use crate::db::Db;
use crate::exchange::object::Store;
use crate::keys::{FactorKey, TokenKey};
use crate::metrics::Metrics;
use crate::tls::Shown;

pub use board::{Board, Due, Posted};
pub use clock::{Clock, ManualClock};
pub use random::{Random, fingerprint};
pub use wake::{Waiter, Wake};
pub use watchers::{Desk, MOST_STREAMS, News, Seat, Seen, Subject, Watchers};

/// What every rule may use.
#[derive(Clone)]
pub struct Ctx(Arc<Parts>, Wake, Arc<Watchers>, Arc<Board>);

/// The parts of a [`Ctx`].
pub struct Parts {
    /// Configuration in force.
    pub config: Config,
    /// The tables.
    pub db: Db,
    /// The time.
    pub clock: Clock,
    /// Secrets and ids.
    pub random: Random,
    /// Signs manifests; its public half is in every enrolment token.
    pub signer: SigningKey,
    /// Signs access tokens.
    pub token_key: TokenKey,
    /// Seals members' second factors.
    pub factor_key: FactorKey,
    /// Signs people in, beside passwords.
    pub provider: Option<Provider>,
    /// Vectors and files.
    pub store: Store,
    /// The certificate of both faces, when the server speaks TLS itself.
    pub tls: Option<Shown>,
    /// What is counted and timed.
    pub metrics: Metrics,
    /// By which address people and workers reach the server.
    pub addresses: Addresses,
    /// Hashes and checks passwords.
    pub passwords: Passwords,
    /// Cancelled when the server stops; every loop listens to it.
    pub shutdown: CancellationToken,
}

/// By which address people and workers reach the server, without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// For browsers: `https://undertone.example.org`.
    pub http: String,
    /// For workers: `https://undertone.example.org:8421`.
    pub grpc: String,
}

impl Ctx {
    /// Puts the parts together.
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts), Wake::new(), Arc::default(), Arc::default())
    }

    /// Wakes those who wait for something to change.
    pub const fn wake(&self) -> &Wake {
        &self.1
    }

    /// What is being watched.
    pub const fn watchers(&self) -> &Arc<Watchers> {
        &self.2
    }

    /// What waits for workers.
    pub const fn board(&self) -> &Arc<Board> {
        &self.3
    }

    /// The present time, UTC, to the microsecond.
    pub fn now(&self) -> OffsetDateTime {
        self.clock.now()
    }

    /// A new id of version 7: ids made later sort later, to the millisecond.
    pub fn id<T: From<Uuid>>(&self) -> T {
        let millis = self.now().unix_timestamp_nanos() / 1_000_000;
        let random: [u8; 10] = self.random.bytes();
        T::from(uuid::Builder::from_unix_timestamp_millis(millis.max(0) as u64, &random).into_uuid())
    }
}

impl std::ops::Deref for Ctx {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
