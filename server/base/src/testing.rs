//! Support for tests: new databases on SQLite and PostgreSQL.
//!
//! `on_both_with!` runs one test on SQLite and, if `UNDERTONE_TEST_DATABASE_URL` names a PostgreSQL server, on a separate
//! database there, which is always dropped at the end.

mod tables;

use sea_orm::ConnectionTrait as _;
use tempfile::TempDir;
use uuid::Uuid;

use crate::db::{Db, open_pool};

pub use tables::write_sqlite;

/// A new database on the PostgreSQL server of the tests.
#[derive(Debug)]
pub struct PostgresDatabase {
    server: String,
    name: String,
}

impl PostgresDatabase {
    /// Creates a database with the server's tables; `None` if `UNDERTONE_TEST_DATABASE_URL` is not set.
    pub async fn create() -> Option<Self> {
        let server = std::env::var("UNDERTONE_TEST_DATABASE_URL").ok()?;
        let name = format!("undertone_test_{}", Uuid::now_v7().simple());
        let template = tables::postgres_template(&server).await;
        administer(&server, &format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        Some(Self { server, name })
    }

    /// Returns its address: `postgres://user@host/x?y` of the server, with its own name for `x`.
    pub fn url(&self) -> String {
        let server = self.server.as_str();
        let (address, query) = server.split_once('?').map_or((server, None), |(address, query)| (address, Some(query)));
        let (scheme, rest) = address.split_once("://").expect("a URL");
        let host = rest.split('/').next().unwrap_or_default();
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        format!("{scheme}://{host}/{}{query}", self.name)
    }

    /// Drops the database, even if connections to it are open.
    pub async fn delete(self) {
        administer(&self.server, &format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

/// Runs a statement on the PostgreSQL server `server` as its superuser.
async fn administer(server: &str, statement: &str) {
    let admin = open_pool(server).await.expect("UNDERTONE_TEST_DATABASE_URL answers");
    admin.execute_unprepared(statement).await.expect("the statement is valid");
    admin.close().await.expect("closed");
}

/// A new database with the server's tables, without keys, files or rows.
pub struct TestDatabase {
    /// The connections.
    pub db: Db,
    /// The address, for further connections.
    pub url: String,
    _folder: TempDir,
    postgres: Option<PostgresDatabase>,
}

impl TestDatabase {
    /// Makes a database on SQLite.
    pub async fn sqlite() -> Self {
        Self::new(None).await
    }

    /// Makes a database on PostgreSQL; `None` if `UNDERTONE_TEST_DATABASE_URL` is not set.
    pub async fn postgres() -> Option<Self> {
        Some(Self::new(Some(PostgresDatabase::create().await?)).await)
    }

    async fn new(postgres: Option<PostgresDatabase>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let url = if let Some(postgres) = &postgres {
            postgres.url()
        } else {
            let path = folder.path().join("undertone.sqlite");
            write_sqlite(&path).await;
            format!("sqlite://{}?mode=rwc", path.display())
        };
        let db = Db::connect(&url).await.expect("the database answers");
        Self { db, url, _folder: folder, postgres }
    }

    /// Closes the connections and drops the database.
    pub async fn close(self) {
        self.db.close().await.expect("closed");
        if let Some(postgres) = self.postgres {
            postgres.delete().await;
        }
    }
}

/// Defines one test for each database from `async fn claim(app: &TestApp) { ... }`; the first word is the path of the fixture's
/// type, whose name the functions repeat.
#[macro_export]
macro_rules! on_both_with {
    ($path:path; $($(#[$attribute:meta])* async fn $name:ident($app:ident: &$fixture:ident) $body:block)+) => {$(
        mod $name {
            use super::*;
            use $path;

            $(#[$attribute])*
            async fn claim($app: &$fixture) $body

            async fn check(app: $fixture) {
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
                check($fixture::sqlite().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                if let Some(app) = $fixture::postgres().await {
                    check(app).await;
                }
            }
        }
    )+};
}

/// Defines one test for each database, with its tables only.
#[cfg(test)]
macro_rules! on_both {
    ($($tests:tt)*) => { $crate::on_both_with! { $crate::testing::TestDatabase; $($tests)* } };
}

#[cfg(test)]
pub(crate) use on_both;
