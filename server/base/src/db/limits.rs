//! The limits of the writing transaction, each at its value and one beyond.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use sea_orm::{ConnectOptions, ConnectionTrait as _, DbBackend, DbErr, Statement};
use tokio::task::yield_now;
use tokio::time::advance;
use undertone_api::problem::Code;

use super::{Db, PATIENCE, READERS, TRIES, Tx, lock_timeout, open, open_pool};
use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::testing::on_both;

const INSTANT: Duration = Duration::from_millis(1);

/// Returns the database's own error that requests a retry.
async fn retry_error(tx: &Tx, url: &str) -> DbErr {
    if tx.get_database_backend() == DbBackend::Postgres {
        let raise = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$";
        return tx.execute_unprepared(raise).await.expect_err("it was raised");
    }
    let mut options = ConnectOptions::new(url.to_owned());
    options.max_connections(1).sqlx_logging(false);
    options.map_sqlx_sqlite_opts(|sqlite| sqlite.busy_timeout(Duration::ZERO));
    let other = open_pool(options).await.expect("connected");
    let busy = other.execute_unprepared("BEGIN IMMEDIATE").await.expect_err("there is one writer");
    other.close().await.expect("closed");
    busy
}

on_both! {
    async fn a_transaction_is_tried_six_times_and_no_more(app: &TestDatabase) {
        let url = app.url.as_str();
        for (failing, succeeds) in [(TRIES - 1, true), (TRIES, false)] {
            let tries = AtomicU32::new(0);
            let result: Result<(), Error> = app.db.write("try", async |tx| {
                if tries.fetch_add(1, Ordering::Relaxed) < failing {
                    return Err(retry_error(tx, url).await.into());
                }
                Ok(())
            }).await;
            assert_eq!((result.is_ok(), tries.load(Ordering::Relaxed)), (succeeds, TRIES), "{failing} times");
            if let Err(error) = result {
                assert_eq!(error.code(), Code::Unavailable, "{error:?}");
            }
        }
    }

    async fn lock_and_time_limits_of_postgres_are_unavailable(app: &TestDatabase) {
        if app.db.read().get_database_backend() != DbBackend::Postgres {
            return;
        }
        const HELD: i64 = 4711;
        let holder = open_pool(app.url.as_str()).await.expect("connected");
        let holding_tx = open(&holder).await.expect("open");
        holding_tx.execute_unprepared(&format!("SELECT pg_advisory_xact_lock({HELD})")).await.expect("nobody has it");
        let turn = format!("SELECT pg_advisory_xact_lock({HELD})");
        for (limit, statement) in [("lock_timeout", turn.as_str()), ("statement_timeout", "SELECT pg_sleep(10)")] {
            let result: Result<(), Error> = app.db.write("wait", async |tx| {
                tx.execute_unprepared(&format!("SET LOCAL {limit} = 50")).await?;
                tx.execute_unprepared(statement).await?;
                Ok(())
            }).await;
            assert_eq!(result.expect_err("it took too long").code(), Code::Unavailable, "{limit}");
        }
        holding_tx.rollback().await.expect("rolled back");
        app.db.write("after", async |_| Ok(())).await.expect("the connection is used again");
    }

    async fn eight_read_at_once_and_a_ninth_waits(app: &TestDatabase) {
        let db = &app.db;
        let mut reading = Vec::new();
        for _ in 0..READERS {
            reading.push(db.snapshot().await.expect("a connection"));
        }
        let other = db.clone();
        let ninth = tokio::spawn(async move { other.snapshot().await });
        for _ in 0..100 {
            yield_now().await;
        }
        assert!(!ninth.is_finished());
        for one in reading {
            one.rollback().await.expect("rolled back");
        }
        ninth.await.expect("no panic").expect("its turn came").rollback().await.expect("rolled back");
    }

    async fn writer_waits_for_another_server_the_remaining_time(app: &TestDatabase) {
        let backend = app.db.read().get_database_backend();
        if backend != DbBackend::Postgres {
            return;
        }
        let wait: String = app.db.write("ask", async |tx| {
            let ask = "SELECT setting AS wait FROM pg_settings WHERE name = 'lock_timeout'";
            let row = tx.query_one_raw(Statement::from_string(backend, ask)).await?;
            Ok(row.expect("one row").try_get("", "wait")?)
        }).await.expect("answered");
        let wait = Duration::from_millis(wait.parse().expect("milliseconds"));
        assert!(wait <= PATIENCE && wait > PATIENCE / 2, "{wait:?} after a turn that came at once");
    }
}

#[test]
fn waits_for_turn_and_lock_are_twenty_seconds_together() {
    for (waited, left) in [(0, 20_000), (500, 19_500), (19_999, 1), (20_000, 1), (60_000, 1)] {
        assert_eq!(lock_timeout(Duration::from_millis(waited)), left, "after {waited} ms");
    }
}

/// Uses a manual clock; the queue of writers does not depend on the database.
#[tokio::test]
#[expect(clippy::async_yields_async, reason = "what was asked for is awaited later")]
async fn writer_waits_twenty_seconds_for_its_turn() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let db = Db::connect(&format!("sqlite://{}", dir.path().join("one.db").display())).await.expect("connected");
    let (turn, first) = db.begin(WorkOwner::System).await.expect("its turn");
    tokio::time::pause();
    // Until this is dropped, the clock does not advance by itself while the database works.
    let (still, ended) = mpsc::channel::<()>();
    tokio::task::spawn_blocking(move || ended.recv());
    let ask = async || {
        let db = db.clone();
        let waiting = tokio::spawn(async move { db.begin(WorkOwner::System).await });
        for _ in 0..100 {
            yield_now().await;
        }
        waiting
    };
    let second = ask().await;
    advance(PATIENCE.saturating_sub(INSTANT)).await;
    assert!(!second.is_finished());
    first.rollback().await.expect("rolled back");
    drop(turn);
    let (turn, second) = second.await.expect("no panic").expect("its turn came in time");
    let third = ask().await;
    advance(PATIENCE + INSTANT).await;
    let late = third.await.expect("no panic").expect_err("no turn came");
    assert_eq!(late.code(), Code::Unavailable);
    second.rollback().await.expect("rolled back");
    drop(turn);
    drop(still);
}
