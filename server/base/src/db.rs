//! The database. Only [`Db::write`] and [`Db::write_concurrent`] open transactions that write.
//!
//! Writers run one at a time, on both databases: on SQLite by `BEGIN IMMEDIATE`, on PostgreSQL by one advisory lock
//! that is taken before the first read. So a rule may read, decide and write without regard to concurrency, and means
//! the same on both. (Row locks alone would leave "no row yet" unlocked, and serializable isolation would make fifty
//! reservations on one account retry one another.) Readers never wait for writers.
//!
//! Writes on which no rule depends need not wait for that turn: heartbeats, lease times and lines of a job's log use
//! [`Db::write_concurrent`], which states the conditions. Every charge, count, grant or refusal uses [`Db::write`].
//!
//! Within the process, writers queue for the single writing connection, which goes to the organization that was served
//! least (`FairQueue`); there is no busy waiting. So a transaction must never wait for another: do not call `write`
//! inside `write`. Replicas on one PostgreSQL are fair within each; among replicas, the advisory lock determines the
//! order.

mod address;
#[cfg(test)]
mod concurrent_writes;
#[cfg(any(test, feature = "testing"))]
mod counted;
mod examine;
#[cfg(test)]
mod limits;
mod options;
mod probe;
mod reach;
mod statements;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::{Duration, Instant};

use sea_orm::{
    AccessMode, ConnectOptions, ConnectionTrait, Database, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr,
    IsolationLevel, RuntimeErr, SqliteTransactionMode, Statement, TransactionOptions, TransactionTrait, sqlx,
};
use tokio::runtime::Handle;
use tokio::task::block_in_place;
use tracing::Instrument as _;
use uuid::Uuid;

use crate::error::Error;
use crate::fairness::{FairPermit, FairQueue, QueueLimits, WorkOwner};
use crate::fault;
use crate::metrics::Transactions;

pub(crate) use address::peer_proof;
pub use address::{PeerProof, sqlite_file};
pub use examine::{ServerFacts, connect_to_examine, probe_turn};
pub use undertone_migrations::translate_steps;

/// An open writing transaction.
pub type Tx = DatabaseTransaction;

/// The highest number of attempts of a transaction, if the database requests a retry.
pub const TRIES: u32 = 6;
/// The longest time that a writer waits for its turn.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// A wait for a turn that takes nothing noticeable from [`PATIENCE`].
const SOON: Duration = Duration::from_secs(1);
/// The advisory lock of the single writer on PostgreSQL: "underton" in ASCII. Locks are per database, so two servers on
/// two databases do not conflict. Migrations use the next number.
const WRITER_LOCK: i64 = 0x756E_6465_7274_6F6E;
/// With an id, the advisory lock of the lines of one job's log: "jlog" in ASCII. Locks of two numbers never equal those
/// of one.
const JOB_LOG_LOCK: i32 = 0x6A6C_6F67;

/// The highest number of waiting write transactions: in total, and for one organization.
pub const MOST_WAITING: (usize, usize) = (2048, 256);
/// The queue of the writer.
const WRITER_TURNS: QueueLimits = QueueLimits {
    name: "writer",
    turns: "writing transactions",
    at_a_time: 1,
    waiting: MOST_WAITING.0,
    waiting_of_owner: MOST_WAITING.1,
    patience: PATIENCE,
};
/// The queue of transactions concurrent with the writer.
const CONCURRENT_TURNS: QueueLimits =
    QueueLimits { name: "beside", at_a_time: CONCURRENT_WRITERS as usize, ..WRITER_TURNS };

/// Connections besides the writer's, to PostgreSQL: the number of concurrent transactions of [`Db::write_concurrent`].
pub const CONCURRENT_WRITERS: u32 = 4;
/// The number of reading connections.
pub const READERS: u32 = 8;

/// The database.
#[derive(Clone, Debug)]
pub struct Db {
    writer: DatabaseConnection,
    reader: DatabaseConnection,
    /// Present on PostgreSQL.
    concurrent_writer: Option<DatabaseConnection>,
    writer_turns: FairQueue,
    concurrent_turns: FairQueue,
    timings: Transactions,
    #[cfg(any(test, feature = "testing"))]
    statements: counted::Statements,
}

/// Opens connections. The library's future is large, so it is on the heap.
///
/// # Errors
/// If the address is invalid or the database does not answer.
pub(crate) async fn open_pool(options: impl Into<ConnectOptions>) -> Result<DatabaseConnection, DbErr> {
    Box::pin(Database::connect(options.into())).await
}

impl Db {
    /// Connects to `sqlite://...` or `postgres://...`.
    ///
    /// # Errors
    /// If the address is invalid or the database does not answer.
    pub async fn connect(url: &str) -> Result<Self, DbErr> {
        reach::prepare(url).await?;
        let mut writer = open_pool(options::writer(url)).await?;
        let reader = open_pool(options::reader(url)).await?;
        #[cfg(any(test, feature = "testing"))]
        let (reader, statements) = counted::Statements::start_count(reader);
        writer.set_metric_callback(|_| statements::count());
        let concurrent_writer = if writer.get_database_backend() == DbBackend::Postgres {
            let mut connection = open_pool(options::concurrent_writer(url)).await?;
            connection.set_metric_callback(|_| statements::count());
            Some(connection)
        } else {
            None
        };
        let timings = Transactions::default();
        Ok(Self {
            writer,
            reader,
            concurrent_writer,
            writer_turns: FairQueue::new(WRITER_TURNS, timings.queues().clone()),
            concurrent_turns: FairQueue::new(CONCURRENT_TURNS, timings.queues().clone()),
            timings,
            #[cfg(any(test, feature = "testing"))]
            statements,
        })
    }

    /// Connects for reading only: the database must exist, and nothing can be written to it.
    ///
    /// # Errors
    /// As [`Db::connect`].
    pub async fn inspect(url: &str) -> Result<Self, DbErr> {
        let mut options = options::reader(url);
        options.map_sqlx_sqlite_opts(|sqlite| {
            sqlite.create_if_missing(false).busy_timeout(PATIENCE).pragma("query_only", "ON")
        });
        let reader = open_pool(options).await?;
        #[cfg(any(test, feature = "testing"))]
        let (reader, statements) = counted::Statements::start_count(reader);
        let timings = Transactions::default();
        Ok(Self {
            writer: reader.clone(),
            reader,
            concurrent_writer: None,
            writer_turns: FairQueue::new(WRITER_TURNS, timings.queues().clone()),
            concurrent_turns: FairQueue::new(CONCURRENT_TURNS, timings.queues().clone()),
            timings,
            #[cfg(any(test, feature = "testing"))]
            statements,
        })
    }

    /// Runs the pending migrations. Replicas may start concurrently.
    ///
    /// # Errors
    /// If a migration fails, which is rolled back then, or if the tables are not of this program.
    pub async fn migrate(&self) -> Result<(), DbErr> {
        // On PostgreSQL too there is one writing connection, as the lock of migrations requires.
        undertone_migrations::migrate(&self.writer).await
    }

    /// Returns a connection for reading: the database refuses writes through it. Two statements may see two states; a
    /// rule that decides on data must read it in [`Db::write`].
    pub const fn read(&self) -> &DatabaseConnection {
        &self.reader
    }

    /// Opens a snapshot of all tables, for reading by many statements that must agree, whatever their duration and
    /// concurrent writes. It ends when it is rolled back or dropped.
    ///
    /// # Errors
    /// If the database does not answer.
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

    /// Runs `work` as the single writer and commits its changes, or rolls them back if it fails. If the database
    /// requests a retry, `work` runs again from the start, so it must have no effect besides `tx`.
    ///
    /// # Errors
    /// The error of `work`, or [`Error::Database`]; `rate_limited` or `unavailable` if there is no turn.
    pub async fn write<T, F>(&self, name: &'static str, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&Tx) -> Result<T, Error>,
    {
        self.write_with_retries(false, name, work).await
    }

    /// Runs like [`Db::write`], but on PostgreSQL it does not wait for the single writer's turn, nor the writer for it.
    /// On SQLite, which permits only one writer, it is the same.
    ///
    /// Other transactions, of either kind, commit between the statements of `work`, so `work` may do only one of two
    /// things. It may change rows by their key in one statement, which decides (`WHERE`) on those rows only. Its effect
    /// must equal that of a run before or after the writer's transaction: the row's own lock orders the two. Or it may
    /// write rows that are always written, here and in `write`, under their own lock, which is taken before the first
    /// of them is read (`lock_job_log`). A transaction with such a lock takes no other here, and waits for nothing
    /// outside the database.
    ///
    /// # Errors
    /// As [`Db::write`].
    pub async fn write_concurrent<T, F>(&self, name: &'static str, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&Tx) -> Result<T, Error>,
    {
        self.write_with_retries(true, name, work).await
    }

    async fn write_with_retries<T, F>(&self, is_concurrent: bool, name: &'static str, work: F) -> Result<T, Error>
    where
        F: AsyncFn(&Tx) -> Result<T, Error>,
    {
        let start = Instant::now();
        for attempt in 1.. {
            let span = tracing::debug_span!("transaction", transaction.name = name);
            match self.attempt(is_concurrent, name, start, &work).instrument(span).await {
                Err(Error::Database(error)) if attempt < TRIES && is_transient(&error) => {
                    self.timings.count_retry(name);
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

    async fn attempt<T, F>(&self, is_concurrent: bool, name: &'static str, start: Instant, work: &F) -> Result<T, Error>
    where
        F: AsyncFn(&Tx) -> Result<T, Error>,
    {
        let owner = WorkOwner::current();
        // The turn ends after the transaction, whatever its outcome.
        let (_turn, tx) = if is_concurrent { self.begin_concurrent(owner).await? } else { self.begin(owner).await? };
        let began = Instant::now();
        // A future made by an async closure cannot be shown to be `Send` (its lifetimes are higher-ranked), so it is
        // driven here, on this thread, instead of becoming part of a future that may move between threads. The runtime
        // moves this thread's other tasks meanwhile. With one writer and `CONCURRENT_WRITERS` others, the number of such threads is
        // bounded. A caller that disconnects therefore does not interrupt a transaction either.
        let (result, statements) = block_in_place(|| statements::during(|| Handle::current().block_on(work(&tx))));
        match &result {
            Ok(_) => {
                failing(fault::BEFORE_COMMIT)?;
                tx.commit().await?;
                failing(fault::AFTER_COMMIT)?;
            }
            Err(_) => roll_back(tx).await?,
        }
        let waited = began.duration_since(start);
        let took = began.elapsed();
        self.timings.record_end(name, result.is_ok(), waited, took, statements);
        tracing::debug!(
            transaction.name = name,
            transaction.committed = result.is_ok(),
            transaction.statements = statements,
            waited_ms = waited.as_millis() as u64,
            duration_ms = took.as_millis() as u64,
            "a transaction ended"
        );
        result
    }

    /// Begins a transaction concurrent with the writer; with one connection only, it takes the writer's turn.
    async fn begin_concurrent(&self, owner: WorkOwner) -> Result<(FairPermit, Tx), Error> {
        let Some(connection) = &self.concurrent_writer else { return self.begin(owner.liveness()).await };
        let start = Instant::now();
        let turn = self.concurrent_turns.acquire(owner).await?;
        let tx = open(connection).await?;
        // The connection waits for a row's lock for all of `PATIENCE`, which is right where the turn came soon.
        if start.elapsed() >= SOON {
            tx.execute_unprepared(&format!("SET LOCAL lock_timeout = {}", lock_timeout(start.elapsed()))).await?;
        }
        Ok((turn, tx))
    }

    async fn begin(&self, owner: WorkOwner) -> Result<(FairPermit, Tx), Error> {
        let start = Instant::now();
        let turn = self.writer_turns.acquire(owner).await?;
        let tx = open(&self.writer).await?;
        if tx.get_database_backend() == DbBackend::Postgres {
            let wait = lock_timeout(start.elapsed());
            // Both in one message. The following statements are separate, so they see all that was committed before
            // this turn.
            let advisory = format!("SET LOCAL lock_timeout = {wait}; SELECT pg_advisory_xact_lock({WRITER_LOCK})");
            tx.execute_unprepared(&advisory).await?;
        }
        Ok((turn, tx))
    }

    /// Limits a SQLite file to `pages` pages from now on: a full disk, for the simulation. It has no effect on
    /// PostgreSQL.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn bound(&self, pages: u32) -> Result<(), DbErr> {
        if self.writer.get_database_backend() == DbBackend::Sqlite {
            self.writer.execute_unprepared(&format!("PRAGMA max_page_count = {pages}")).await?;
        }
        Ok(())
    }

    /// Returns the timings of transactions.
    pub const fn timings(&self) -> &Transactions {
        &self.timings
    }

    /// Copies all tables in their current state into a new or empty SQLite file, during concurrent writes. PostgreSQL
    /// refuses it.
    ///
    /// # Errors
    /// If the file is not empty or cannot be written.
    pub async fn copy_into(&self, path: &Path) -> Result<(), DbErr> {
        let path = path.display().to_string().replace('\'', "''");
        self.writer.execute_unprepared(&format!("VACUUM INTO '{path}'")).await?;
        Ok(())
    }

    /// Returns whether the database has no table of the server.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn has_no_tables(&self) -> Result<bool, DbErr> {
        let text = "SELECT 1 FROM information_schema.tables WHERE table_name = 'seaql_migrations'";
        let row = self.reader.query_one_raw(Statement::from_string(self.reader.get_database_backend(), text)).await?;
        Ok(row.is_none())
    }

    /// Returns the applied migrations.
    ///
    /// # Errors
    /// If the database does not answer, or no migration ever ran on it.
    pub async fn migrations(&self) -> Result<Vec<String>, DbErr> {
        undertone_migrations::load_applied_steps(&self.reader).await
    }

    /// Returns the migrations that this program knows.
    pub fn list_migrations() -> Vec<String> {
        undertone_migrations::list_steps()
    }

    /// Returns whether the tables match this program: no migration is pending, and none is unknown.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn is_current(&self) -> Result<bool, DbErr> {
        let applied = self.migrations().await?;
        let expected = Self::list_migrations();
        Ok(applied.len() == expected.len() && applied.iter().all(|one| expected.contains(one)))
    }

    /// Closes the connections.
    ///
    /// # Errors
    /// If a connection does not close cleanly.
    pub async fn close(self) -> Result<(), DbErr> {
        self.reader.close().await?;
        if let Some(connection) = self.concurrent_writer {
            connection.close().await?;
        }
        self.writer.close().await
    }
}

/// Waits until no other transaction writes lines of this job's log, and excludes all others until this one ends. SQLite
/// has only one writer anyway.
///
/// # Errors
/// If the database does not answer, or the turn does not come within [`PATIENCE`].
pub async fn lock_job_log(tx: &Tx, job: Uuid) -> Result<(), DbErr> {
    if tx.get_database_backend() == DbBackend::Postgres {
        // The low bits of an id are random, and 31 fit. Two jobs that share them wait for one another, without other
        // effects.
        let low = (job.as_u128() as u32) >> 1;
        tx.execute_unprepared(&format!("SELECT pg_advisory_xact_lock({JOB_LOG_LOCK}, {low})")).await?;
    }
    Ok(())
}

/// Returns the milliseconds for which a transaction that waited for its turn waits for a lock of PostgreSQL: both waits together take
/// [`PATIENCE`]. At least one, since zero means without end.
fn lock_timeout(waited: Duration) -> u128 {
    PATIENCE.saturating_sub(waited).as_millis().max(1)
}

/// Opens a transaction, on PostgreSQL without any lock.
async fn open(connection: &DatabaseConnection) -> Result<Tx, DbErr> {
    let options = TransactionOptions {
        isolation_level: None,
        access_mode: None,
        sqlite_transaction_mode: Some(SqliteTransactionMode::Immediate),
    };
    #[expect(clippy::disallowed_methods, reason = "the one place that opens a transaction")]
    connection.begin_with_options(options).await
}

/// Rolls back. On a full disk SQLite rolls back by itself and then refuses `ROLLBACK`. The connection would keep
/// counting the ended transaction, and every later one would nest in it as a savepoint. After the first rollback of
/// such a savepoint, no reported commit would take effect.
async fn roll_back(tx: Tx) -> Result<(), DbErr> {
    if tx.get_database_backend() == DbBackend::Sqlite {
        // Begins a transaction to roll back if none is left; if one is open, SQLite refuses this without effect.
        tx.execute_unprepared("BEGIN").await.ok();
    }
    tx.rollback().await
}

/// Marks a point at which the simulation may let the disk or the database connection fail.
fn failing(point: &'static str) -> Result<(), DbErr> {
    fault::disk(point).map_err(|error| DbErr::Exec(RuntimeErr::SqlxError(sqlx::Error::Io(error).into())))
}

/// Returns whether the database rolled back and requests a retry: serialization failure, deadlock (PostgreSQL), busy
/// (SQLite, with its extended codes).
fn is_transient(error: &DbErr) -> bool {
    let (DbErr::Exec(RuntimeErr::SqlxError(cause))
    | DbErr::Query(RuntimeErr::SqlxError(cause))
    | DbErr::Conn(RuntimeErr::SqlxError(cause))) = error
    else {
        return false;
    };
    let code = cause.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(code.as_deref(), Some("40001" | "40P01" | "5" | "261" | "517"))
}
