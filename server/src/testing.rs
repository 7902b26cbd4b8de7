//! Support for this crate's tests: a complete server on a new database, with a manual clock and seeded secrets.
//!
//! [`on_both!`] runs one test on SQLite and, if `UNDERTONE_TEST_DATABASE_URL` names a PostgreSQL server, on a separate
//! database there, which is always dropped at the end.

mod authenticator;
mod people;
pub(crate) mod provider;
pub(crate) mod signer;
mod tamper;

use axum_test::TestServer;
use sea_orm::{ConnectionTrait as _, Database};
use tempfile::TempDir;
use time::macros::datetime;
use uuid::Uuid;

use crate::config::Config;
use crate::ctx::{Ctx, ManualClock, Random};
use crate::{App, build};

/// A complete server that tests call in process.
pub(crate) struct TestApp {
    /// The context of the service layer.
    pub(crate) ctx: Ctx,
    /// Its clock: 2026-11-20 12:00 UTC until a test advances it.
    pub(crate) clock: ManualClock,
    /// Its REST and dashboard interfaces.
    pub(crate) server: TestServer,
    /// The same router, for requests that must run in the caller's own task.
    pub(crate) router: axum::Router,
    dir: TempDir,
    database: Option<(String, String)>,
}

impl TestApp {
    /// Starts a server on SQLite.
    pub(crate) async fn sqlite() -> Self {
        Self::on(None, |_| ()).await
    }

    /// Starts a server on SQLite with a changed configuration.
    pub(crate) async fn sqlite_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::on(None, change).await
    }

    /// Starts a server on PostgreSQL; `None` if `UNDERTONE_TEST_DATABASE_URL` is not set.
    pub(crate) async fn postgres() -> Option<Self> {
        let server = std::env::var("UNDERTONE_TEST_DATABASE_URL").ok()?;
        let name = format!("undertone_test_{}", Uuid::now_v7().simple());
        let admin = Database::connect(&server).await.expect("UNDERTONE_TEST_DATABASE_URL answers");
        admin.execute_unprepared(&format!("CREATE DATABASE {name}")).await.expect("a database can be made");
        admin.close().await.expect("closed");
        Some(Self::on(Some((server, name)), |_| ()).await)
    }

    async fn on(database: Option<(String, String)>, change: impl FnOnce(&mut Config)) -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        let mut config = Config {
            http: ([127, 0, 0, 1], 0).into(),
            grpc: ([127, 0, 0, 1], 0).into(),
            data_dir: dir.path().to_owned(),
            database_url: database.as_ref().map(|(server, name)| with_database(server, name)),
            ..Config::default()
        };
        change(&mut config);
        let clock = ManualClock::starting_at(datetime!(2026-11-20 12:00 UTC));
        let App { ctx, router, .. } = build(config, clock.clock(), Random::seeded(1)).await.expect("the server starts");
        let server = TestServer::new(router.clone());
        Self { ctx, clock, server, router, dir, database }
    }

    /// Builds a second server on the same data, as after a restart: without the state in memory.
    pub(crate) async fn restarted(&self) -> App {
        build(self.ctx.config.clone(), self.clock.clock(), Random::seeded(2)).await.expect("the server starts again")
    }

    /// Builds a second server with another configuration.
    pub(crate) async fn restarted_with(&self, config: Config) -> App {
        build(config, self.clock.clock(), Random::seeded(2)).await.expect("the server starts again")
    }

    /// Returns the data folder.
    pub(crate) fn data_dir(&self) -> &std::path::Path {
        self.dir.path()
    }

    /// Closes the connections and drops the database.
    pub(crate) async fn close(self) {
        self.ctx.shutdown.cancel();
        self.ctx.db.clone().close().await.expect("closed");
        if let Some((server, name)) = self.database {
            let admin = Database::connect(&server).await.expect("UNDERTONE_TEST_DATABASE_URL answers");
            admin.execute_unprepared(&format!("DROP DATABASE {name} WITH (FORCE)")).await.expect("dropped");
        }
    }
}

/// Returns `postgres://user@host/x?y` with `name` for `x`.
fn with_database(server: &str, name: &str) -> String {
    let (address, query) = server.split_once('?').map_or((server, None), |(address, query)| (address, Some(query)));
    let (scheme, rest) = address.split_once("://").expect("a URL");
    let host = rest.split('/').next().unwrap_or_default();
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    format!("{scheme}://{host}/{name}{query}")
}

/// Defines one test for each database from `async fn claim(app: &TestApp) { ... }`.
macro_rules! on_both {
    ($($(#[$attribute:meta])* async fn $name:ident($app:ident: &TestApp) $body:block)+) => {$(
        mod $name {
            use super::*;
            use $crate::testing::TestApp;

            $(#[$attribute])*
            async fn claim($app: &TestApp) $body

            async fn check(app: TestApp) {
                let app = std::sync::Arc::new(app);
                let shared = std::sync::Arc::clone(&app);
                let held = tokio::spawn(async move { claim(&shared).await }).await;
                if let Ok(app) = std::sync::Arc::try_unwrap(app) {
                    app.close().await;
                }
                if let Err(failure) = held {
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

pub(crate) use on_both;

pub(crate) use authenticator::code;
pub(crate) use people::{Founded, HERE, PASSWORD, Person, newcomer};
pub(crate) use tamper::{refuse_entries, tamper};
