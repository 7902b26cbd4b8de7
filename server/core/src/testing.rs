//! Support for tests: a consortium on a new database, with a manual clock and seeded secrets.
//!
//! `on_both_with!` runs one test on SQLite and, if `UNDERTONE_TEST_DATABASE_URL` names a PostgreSQL server, on a separate
//! database there, which is always dropped at the end.

mod authenticator;
mod passkey;
mod people;
pub mod provider;
pub mod signer;
mod tamper;
mod template;
mod worker;

use sea_orm::{ConnectionTrait as _, Database};
use tempfile::TempDir;
use time::OffsetDateTime;
use time::macros::datetime;
use uuid::Uuid;

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
    database: Option<(String, String)>,
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
        let server = std::env::var("UNDERTONE_TEST_DATABASE_URL").ok()?;
        let name = format!("undertone_test_{}", Uuid::now_v7().simple());
        let admin = Database::connect(&server).await.expect("UNDERTONE_TEST_DATABASE_URL answers");
        admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.expect("a database can be made");
        admin.close().await.expect("closed");
        Some(Self::on(Some((server, name)), |_| ()).await)
    }

    /// Starts a server on SQLite with a changed configuration, at another time.
    pub async fn sqlite_at(start: OffsetDateTime, change: impl FnOnce(&mut Config)) -> Self {
        Self::on_at(None, start, change).await
    }

    async fn on(database: Option<(String, String)>, change: impl FnOnce(&mut Config)) -> Self {
        Self::on_at(database, datetime!(2026-11-20 12:00 UTC), change).await
    }

    async fn on_at(
        database: Option<(String, String)>,
        start: OffsetDateTime,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config {
            http: ([127, 0, 0, 1], 0).into(),
            grpc: ([127, 0, 0, 1], 0).into(),
            data_dir: dir.path().to_owned(),
            database_url: database.as_ref().map(|(server, name)| with_database(server, name)),
            ..Config::default()
        };
        change(&mut config);
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
        if let Some((server, name)) = self.database {
            let admin = Database::connect(&server).await.expect("UNDERTONE_TEST_DATABASE_URL answers");
            admin.execute_unprepared(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("dropped");
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

/// Returns `postgres://user@host/x?y` with `name` for `x`.
fn with_database(server: &str, name: &str) -> String {
    let (address, query) = server.split_once('?').map_or((server, None), |(address, query)| (address, Some(query)));
    let (scheme, rest) = address.split_once("://").expect("a URL");
    let host = rest.split('/').next().unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{host}/{name}{query}")
}

/// Defines one test for each database from `async fn claim(app: &TestApp) { ... }`; the first word is the type of the application.
#[macro_export]
macro_rules! on_both_with {
    ($application:path; $($(#[$attribute:meta])* async fn $name:ident($app:ident: &TestApp) $body:block)+) => {$(
        mod $name {
            use super::*;
            use $application;

            $(#[$attribute])*
            async fn claim($app: &TestApp) $body

            async fn check(app: TestApp) {
                let app = std::sync::Arc::new(app);
                let shared = std::sync::Arc::clone(&app);
                let outcome = tokio::spawn(async move { claim(&shared).await }).await;
                if let Ok(app) = std::sync::Arc::try_unwrap(app) {
                    app.close().await;
                }
                if let Err(failure) = outcome {
                    std::panic::resume_unwind(failure.into_panic());
                }
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                check(TestApp::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(app) = TestApp::postgres().await {
                    check(app).await;
                }
            }
        }
    )+};
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
