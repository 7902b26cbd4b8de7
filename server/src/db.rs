//! The database. [`Db::write`] is the only place that opens a transaction.
//!
//! Writers come one at a time, on both databases: on SQLite by `BEGIN IMMEDIATE`, on PostgreSQL by one advisory lock
//! taken before the first read. So a rule may read, decide and write without thinking of others, and means the same on
//! both. (Row locks alone would leave "no row yet" unlocked, and serializable isolation would make fifty reservations on
//! one account retry one another.) Readers never wait for writers.
//!
//! Within the process writers queue for the one writing connection, first come first served: nothing spins. So a
//! transaction must never wait for another: do not call `write` inside `write`.

use std::time::{Duration, Instant};

use sea_orm::sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use sea_orm::{
    AccessMode, ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    IsolationLevel, RuntimeErr, SqliteTransactionMode, TransactionOptions, TransactionTrait,
};
use sea_orm_migration::MigratorTrait as _;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::error::Error;
use crate::fault;

/// An open writing transaction.
pub type Tx = DatabaseTransaction;

/// Times that a transaction is tried when the database asks for it.
const TRIES: u32 = 6;
/// How long a writer waits for its turn.
const PATIENCE: Duration = Duration::from_secs(20);
/// The advisory lock of the one writer on PostgreSQL: "underton" in ASCII. Locks are by database, so two servers on two
/// databases do not meet.
const WRITER_LOCK: i64 = 0x756E_6465_7274_6F6E;

/// The database.
#[derive(Clone, Debug)]
pub struct Db {
    writer: DatabaseConnection,
    reader: DatabaseConnection,
}

impl Db {
    /// Connects to `sqlite://...` or `postgres://...`.
    ///
    /// # Errors
    /// When the address cannot be read or nobody answers there.
    pub async fn connect(url: &str) -> Result<Self, DbErr> {
        let writer = Database::connect(options(url, false)).await?;
        let reader = Database::connect(options(url, true)).await?;
        Ok(Self { writer, reader })
    }

    /// Connects for looking only: the database must be there, and nothing can be written to it.
    ///
    /// # Errors
    /// As [`Db::connect`].
    pub async fn inspect(url: &str) -> Result<Self, DbErr> {
        let mut options = options(url, true);
        options.map_sqlx_sqlite_opts(|sqlite| {
            sqlite.create_if_missing(false).busy_timeout(PATIENCE).pragma("query_only", "ON")
        });
        let reader = Database::connect(options).await?;
        Ok(Self { writer: reader.clone(), reader })
    }

    /// Brings the tables up to date.
    ///
    /// # Errors
    /// When a migration fails; what it did is rolled back where the database can.
    pub async fn migrate(&self) -> Result<(), DbErr> {
        undertone_migrations::Migrator::up(&self.writer, None).await
    }

    /// For reading: what is written through it is refused by the database. Two statements may see two states; a rule
    /// that decides on what it reads belongs into [`Db::write`].
    pub const fn read(&self) -> &DatabaseConnection {
        &self.reader
    }

    /// One state of all tables, for reading many statements that must agree, however long it takes and whoever writes
    /// meanwhile. Ends when it is rolled back or dropped.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn snapshot(&self) -> Result<Tx, DbErr> {
        let postgres = self.reader.get_database_backend() == DbBackend::Postgres;
        let options = TransactionOptions {
            isolation_level: postgres.then_some(IsolationLevel::RepeatableRead),
            access_mode: postgres.then_some(AccessMode::ReadOnly),
            sqlite_transaction_mode: Some(SqliteTransactionMode::Deferred),
        };
        #[expect(clippy::disallowed_methods, reason = "the one place that opens a transaction; it reads only")]
        self.reader.begin_with_options(options).await
    }

    /// Runs `work` as the one writer and commits what it did, or rolls it back when it fails. When the database asks
    /// for it, `work` runs again from the start, so it must have no effect besides `tx`.
    ///
    /// # Errors
    /// What `work` says, or [`Error::Database`].
    pub async fn write<T, F>(&self, name: &'static str, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&Tx) -> Result<T, Error>,
    {
        let asked = Instant::now();
        for attempt in 1.. {
            match self.attempt(name, asked, &work).await {
                Err(Error::Database(error)) if attempt < TRIES && is_transient(&error) => {
                    tracing::debug!(
                        transaction.name = name,
                        transaction.attempt = attempt,
                        "the transaction is tried again"
                    );
                    tokio::time::sleep(Duration::from_millis(5 << attempt)).await;
                }
                result => return result,
            }
        }
        unreachable!("the loop ends by returning")
    }

    async fn attempt<T, F>(&self, name: &'static str, asked: Instant, work: &F) -> Result<T, Error>
    where
        F: AsyncFn(&Tx) -> Result<T, Error>,
    {
        let tx = self.begin().await?;
        let began = Instant::now();
        // A future made by an async closure cannot be shown to be `Send` (its lifetimes are higher-ranked), so it is driven
        // here, where it stands, instead of becoming part of a future that may move between threads. The runtime hands this
        // thread's other tasks on meanwhile; there is one writer at a time, so one thread at most. It also means that a
        // caller who hangs up does not cut a transaction in two.
        let result = block_in_place(|| Handle::current().block_on(work(&tx)));
        match &result {
            Ok(_) => {
                failing(fault::BEFORE_COMMIT)?;
                tx.commit().await?;
                failing(fault::AFTER_COMMIT)?;
            }
            Err(_) => tx.rollback().await?,
        }
        tracing::debug!(
            transaction.name = name,
            transaction.committed = result.is_ok(),
            waited_ms = began.duration_since(asked).as_millis() as u64,
            duration_ms = began.elapsed().as_millis() as u64,
            "a transaction ended"
        );
        result
    }

    async fn begin(&self) -> Result<Tx, DbErr> {
        let options = TransactionOptions {
            isolation_level: None,
            access_mode: None,
            sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
        };
        #[expect(clippy::disallowed_methods, reason = "the one place that opens a transaction")]
        let tx = self.writer.begin_with_options(options).await?;
        if tx.get_database_backend() == DbBackend::Postgres {
            let wait = PATIENCE.as_millis();
            tx.execute_unprepared(&format!("SET LOCAL lock_timeout = {wait}")).await?;
            tx.execute_unprepared(&format!("SELECT pg_advisory_xact_lock({WRITER_LOCK})")).await?;
        }
        Ok(tx)
    }

    /// Lets a SQLite file grow to no more than `pages` pages from now on: a disk that is full, for the simulation. Elsewhere it
    /// does nothing.
    ///
    /// # Errors
    /// When the database fails.
    pub async fn bound(&self, pages: u32) -> Result<(), DbErr> {
        if self.writer.get_database_backend() == DbBackend::Sqlite {
            self.writer.execute_unprepared(&format!("PRAGMA max_page_count = {pages}")).await?;
        }
        Ok(())
    }

    /// Asks the database whether it is there.
    ///
    /// # Errors
    /// When it is not.
    pub async fn ping(&self) -> Result<(), DbErr> {
        self.reader.ping().await
    }

    /// Ends the connections.
    ///
    /// # Errors
    /// When a connection does not end well.
    pub async fn close(self) -> Result<(), DbErr> {
        self.reader.close().await?;
        self.writer.close().await
    }
}

/// A point at which the simulation may have the disk, or the way to the database, fail.
fn failing(point: &'static str) -> Result<(), DbErr> {
    fault::disk(point).map_err(|error| DbErr::Custom(error.to_string()))
}

fn options(url: &str, reading: bool) -> ConnectOptions {
    let mut options = ConnectOptions::new(url.to_owned());
    options.max_connections(if reading { 8 } else { 1 }).acquire_timeout(PATIENCE).sqlx_logging(false);
    options.map_sqlx_sqlite_opts(move |sqlite| {
        let sqlite = sqlite
            .create_if_missing(true)
            .foreign_keys(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(PATIENCE);
        if reading { sqlite.pragma("query_only", "ON") } else { sqlite }
    });
    options.map_sqlx_postgres_opts(move |postgres| {
        if reading { postgres.options([("default_transaction_read_only", "on")]) } else { postgres }
    });
    options
}

/// Whether the database rolled back and asks to try again: serialization failure, deadlock (PostgreSQL), busy (SQLite,
/// with its extended codes).
fn is_transient(error: &DbErr) -> bool {
    let (DbErr::Exec(RuntimeErr::SqlxError(cause))
    | DbErr::Query(RuntimeErr::SqlxError(cause))
    | DbErr::Conn(RuntimeErr::SqlxError(cause))) = error
    else {
        return false;
    };
    let code = cause.as_database_error().and_then(sea_orm::sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("40001" | "40P01" | "5" | "261" | "517"))
}

#[cfg(test)]
mod tests {
    use sea_orm::{ConnectionTrait as _, DbErr};
    use undertone_api::problem::Code;

    use crate::error::Error;
    use crate::testing::on_both;

    const MAKE: &str = "CREATE TABLE counter (n INTEGER NOT NULL)";

    async fn count(connection: &impl sea_orm::ConnectionTrait) -> Result<i32, DbErr> {
        let row = connection
            .query_one_raw(sea_orm::Statement::from_string(connection.get_database_backend(), "SELECT n FROM counter"));
        row.await?.expect("one row").try_get("", "n")
    }

    on_both! {
        /// Read, think, write: without one writer at a time some of the forty would be lost.
        async fn writers_come_one_at_a_time(app: &TestApp) {
            app.ctx.db.write("make", async |tx| {
                tx.execute_unprepared(MAKE).await?;
                tx.execute_unprepared("INSERT INTO counter VALUES (0)").await?;
                Ok(())
            }).await.expect("made");
            // A second server on the same database.
            let other = crate::db::Db::connect(&app.ctx.config.database()).await.expect("connected");
            let writers = (0..40).map(|number| {
                let db = if number % 2 == 0 { app.ctx.db.clone() } else { other.clone() };
                tokio::spawn(async move {
                    db.write("count", async |tx| {
                        let n = count(tx).await?;
                        tokio::task::yield_now().await;
                        tx.execute_unprepared(&format!("UPDATE counter SET n = {}", n + 1)).await?;
                        Ok(())
                    }).await
                })
            });
            for writer in futures::future::join_all(writers).await {
                writer.expect("no panic").expect("written");
            }
            assert_eq!(count(app.ctx.db.read()).await.expect("read"), 40);
            other.close().await.expect("closed");
        }

        async fn a_failed_rule_leaves_nothing_behind(app: &TestApp) {
            let failed: Result<(), Error> = app.ctx.db.write("fail", async |tx| {
                tx.execute_unprepared(MAKE).await?;
                Err(Error::wrong_state("no"))
            }).await;
            assert_eq!(failed.expect_err("it said no").code(), Code::WrongState);
            app.ctx.db.write("make", async |tx| Ok(tx.execute_unprepared(MAKE).await?)).await.expect("it was not there");
        }

        async fn readers_cannot_write(app: &TestApp) {
            assert!(app.ctx.db.read().execute_unprepared(MAKE).await.is_err());
        }
    }
}
