//! Support for this crate's tests: a complete server on a new database, with a manual clock and seeded secrets.

use std::ops::Deref;

use axum_test::TestServer;
use undertone_server_core::config::Config;
use undertone_server_core::ctx::Random;
use undertone_server_core::testing::TestApp as TestCore;

use crate::{App, build};

pub(crate) use undertone_server_core::testing::*;

/// A complete server that tests call in process.
pub(crate) struct TestApp {
    core: TestCore,
    /// Its REST and dashboard interfaces.
    pub(crate) server: TestServer,
    /// The same router, for requests that must run in the caller's own task.
    pub(crate) router: axum::Router,
}

impl Deref for TestApp {
    type Target = TestCore;

    fn deref(&self) -> &TestCore {
        &self.core
    }
}

impl TestApp {
    /// Starts a server on SQLite.
    pub(crate) async fn sqlite() -> Self {
        Self::with_interfaces(TestCore::sqlite().await)
    }

    /// Starts a server on SQLite with a changed configuration.
    pub(crate) async fn sqlite_with(change: impl FnOnce(&mut Config)) -> Self {
        Self::with_interfaces(TestCore::sqlite_with(change).await)
    }

    /// Starts a server on PostgreSQL; `None` if `UNDERTONE_TEST_DATABASE_URL` is not set.
    pub(crate) async fn postgres() -> Option<Self> {
        TestCore::postgres().await.map(Self::with_interfaces)
    }

    fn with_interfaces(core: TestCore) -> Self {
        let router = crate::app::router(&core.ctx).expect("the server starts");
        let server = TestServer::new(router.clone());
        Self { core, server, router }
    }

    /// Builds a second server on the same data, as after a restart: without the state in memory.
    pub(crate) async fn restarted(&self) -> App {
        self.restarted_with(self.ctx.config.clone()).await
    }

    /// Builds a second server with another configuration.
    pub(crate) async fn restarted_with(&self, config: Config) -> App {
        build(config, self.clock.clock(), Random::seeded(2)).await.expect("the server starts again")
    }

    /// Closes the connections and drops the database.
    pub(crate) async fn close(self) {
        self.core.close().await;
    }
}

/// Defines one test for each database on a complete server.
macro_rules! on_both {
    ($($tests:tt)*) => { undertone_server_core::on_both_with! { $crate::testing::TestApp; $($tests)* } };
}

pub(crate) use on_both;
