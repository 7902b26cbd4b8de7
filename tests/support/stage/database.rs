//! The database of a stage's server.

use std::env;
use std::process::Command;

use super::TestResult;

/// The kind of database.
#[derive(Debug)]
pub enum TestDatabase {
    /// A SQLite file in the stage's folder.
    Sqlite,
    /// A PostgreSQL database of its own, dropped at the end.
    Postgres {
        /// The server's address for an administrator.
        administrator: String,
        /// The database.
        name: String,
    },
}

impl TestDatabase {
    /// Creates a fresh database on the PostgreSQL server of `UNDERTONE_TEST_DATABASE_URL`; returns `None` when that is
    /// not set.
    ///
    /// # Errors
    /// When the database cannot be created.
    pub fn postgres() -> TestResult<Option<Self>> {
        let Ok(administrator) = env::var("UNDERTONE_TEST_DATABASE_URL") else { return Ok(None) };
        Self::create(&administrator).map(Some)
    }

    /// Creates a fresh database on the PostgreSQL server at an administrator's address.
    ///
    /// # Errors
    /// When the database cannot be created.
    pub fn create(administrator: &str) -> TestResult<Self> {
        let name = format!("undertone_stage_{}", uuid::Uuid::now_v7().simple());
        psql(administrator, &format!("CREATE DATABASE {name}"))?;
        Ok(Self::Postgres { administrator: administrator.to_owned(), name })
    }

    /// Creates another database with the same content; no connection to this one may be open. The owner of an SQLite
    /// file copies the file.
    ///
    /// # Errors
    /// When the database cannot be created.
    pub fn copy(&self) -> TestResult<Self> {
        let Self::Postgres { administrator, name } = self else { return Ok(Self::Sqlite) };
        let copy = format!("undertone_stage_{}", uuid::Uuid::now_v7().simple());
        psql(administrator, &format!("CREATE DATABASE {copy} TEMPLATE {name}"))?;
        Ok(Self::Postgres { administrator: administrator.clone(), name: copy })
    }

    /// Runs a statement as the database's owner, behind the servers' backs.
    ///
    /// # Errors
    /// When PostgreSQL refuses it, and on SQLite.
    pub fn execute(&self, statement: &str) -> TestResult<()> {
        psql(&self.url().ok_or("a statement needs PostgreSQL")?, statement)
    }

    /// Returns the server's setting; `None` for SQLite, which is its default.
    pub fn url(&self) -> Option<String> {
        match self {
            Self::Sqlite => None,
            Self::Postgres { administrator, name } => {
                let server = administrator.rsplit_once('/').map_or(administrator.as_str(), |(server, _)| server);
                Some(format!("{server}/{name}"))
            }
        }
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        if let Self::Postgres { administrator, name } = self {
            // The whole cluster is removed after the run; a database left by an aborted run does no harm.
            let _ = psql(administrator, &format!("DROP DATABASE {name} WITH (FORCE)"));
        }
    }
}

fn psql(server: &str, statement: &str) -> TestResult<()> {
    let output = Command::new("psql").args(["--no-psqlrc", "--quiet", "--command", statement, server]).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("psql: {}", String::from_utf8_lossy(&output.stderr)).into())
}
