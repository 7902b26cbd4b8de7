//! Support for tests: a consortium on a new database, with a manual clock and seeded secrets.
//!
//! `on_both!` runs one test on SQLite and, if `UNDERTONE_TEST_DATABASE_URL` names a PostgreSQL server, on a separate
//! database there, which is always dropped at the end.

mod authenticator;
mod passkey;
mod people;
pub mod provider;
pub mod signer;
mod tamper;
mod template;
mod worker;

use tempfile::TempDir;
use time::OffsetDateTime;
use time::macros::datetime;
use undertone_server_base::testing::{PostgresDatabase, write_sqlite};

use crate::config::Config;
use crate::ctx::Addresses;
use crate::ctx::{Ctx, ManualClock, Random};
use crate::tls::ServedCertificate;
use crate::{StartError, data_folder, open};

/// A consortium that tests call in process.
pub struct TestApp {
    /// The context of the service layer.
    pub ctx: Ctx,
    /// Its clock: 2026-11-20 12:00 UTC until a test advances it.
    pub clock: ManualClock,
    dir: TempDir,
    database: Option<PostgresDatabase>,
}

impl TestApp {
    /// Starts a server on SQLite.
    pub async fn sqlite() -> Self {
        Self::on(None, |_| ()).await
    }

    /// Starts a server on SQLite with a changed configuration.
    pub async fn sqlite_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::on(None, change).await
    }

    /// Starts a server on PostgreSQL; `None` if `UNDERTONE_TEST_DATABASE_URL` is not set.
    pub async fn postgres() -> Option<Self> {
        let database = PostgresDatabase::create().await?;
        Some(Self::on(Some(database), |_| ()).await)
    }

    /// Starts a server on SQLite with a changed configuration, at another time.
    pub async fn sqlite_at(start: OffsetDateTime, change: impl FnOnce(&mut Config)) -> Self {
        Self::on_at(None, start, change).await
    }

    async fn on(database: Option<PostgresDatabase>, change: impl FnOnce(&mut Config)) -> Self {
        Self::on_at(database, datetime!(2026-11-20 12:00 UTC), change).await
    }

    async fn on_at(
        database: Option<PostgresDatabase>,
        start: OffsetDateTime,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config {
            http: ([127, 0, 0, 1], 0).into(),
            grpc: ([127, 0, 0, 1], 0).into(),
            data_dir: dir.path().to_owned(),
            database_url: database.as_ref().map(PostgresDatabase::url),
            ..Config::default()
        };
        change(&mut config);
        if config.database_url.is_none() {
            data_folder(&config).expect("a data folder");
            let file = config.data_dir.join("undertone.sqlite");
            // The folder of a test that sets its own may have one.
            if !file.exists() {
                write_sqlite(&file).await;
            }
        }
        let clock = ManualClock::starting_at(start);
        let ctx = open_for_tests(config, &clock, 1).await.expect("the consortium opens");
        Self { ctx, clock, dir, database }
    }

    /// Opens the same data a second time, as after a restart: without the state in memory.
    pub async fn restarted(&self) -> Ctx {
        self.restarted_with(self.ctx.config.clone()).await
    }

    /// Opens the same data a second time, with another configuration.
    pub async fn restarted_with(&self, config: Config) -> Ctx {
        open_for_tests(config, &self.clock, 2).await.expect("the consortium opens again")
    }

    /// Returns the data folder.
    pub fn data_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Closes the connections and drops the database.
    pub async fn close(self) {
        self.ctx.shutdown.cancel();
        self.ctx.db.clone().close().await.expect("closed");
        if let Some(database) = self.database {
            database.delete().await;
        }
    }
}

/// Opens a consortium as a server that listens on loopback does, without its listeners.
///
/// # Errors
/// [`StartError`] names the part that cannot be used.
pub async fn open_for_tests(config: Config, clock: &ManualClock, seed: u64) -> Result<Ctx, StartError> {
    // The process may already have a default provider, which is also ring.
    let _ = rustls::crypto::ring::default_provider().install_default();
    data_folder(&config)?;
    let tls = ServedCertificate::begin(&config, clock.clock().now())?;
    let address = |public: &Option<String>, default: &str| public.clone().unwrap_or_else(|| default.to_owned());
    let http = address(&config.public_url, "http://127.0.0.1:8080");
    let addresses = Addresses { http, grpc: address(&config.public_grpc, "http://127.0.0.1:8081") };
    open(config, clock.clock(), Random::seeded(seed), tls, addresses).await
}

/// Defines one test for each database on a consortium without interfaces.
#[cfg(test)]
macro_rules! on_both {
    ($($tests:tt)*) => { $crate::on_both_with! { $crate::testing::TestApp; $($tests)* } };
}

#[cfg(test)]
pub(crate) use on_both;

pub use crate::service::world::freeze_dataset;
pub use authenticator::code;
pub use passkey::SoftwarePasskey;
pub use people::{FoundedConsortium, HERE, PASSWORD, Person, newcomer};
pub use tamper::{refuse_entries, tamper};
pub use template::AppTemplate;
pub use worker::{TestPart, TestWorker};
