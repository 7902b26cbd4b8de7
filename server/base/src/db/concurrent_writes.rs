//! Writes concurrent with the single writer, on PostgreSQL: they wait for no writer, their number is limited, and each
//! job's log has one writer at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sea_orm::{ConnectionTrait as _, DbBackend, DbErr, Statement};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use uuid::Uuid;

use super::{CONCURRENT_WRITERS, Db, Tx, lock_job_log};
use crate::error::Error;
use crate::testing::on_both;

const MAKE: &str = "CREATE TABLE counter (n INTEGER NOT NULL)";

/// Returns the sum of the table's numbers.
async fn sum(connection: &impl sea_orm::ConnectionTrait) -> Result<i64, DbErr> {
    let sum = Statement::from_string(connection.get_database_backend(), "SELECT SUM(n) AS n FROM counter");
    let row = connection.query_one_raw(sum).await?.expect("one row");
    Ok(row.try_get::<Option<i64>>("", "n")?.unwrap_or(0))
}

async fn make_table(db: &Db) {
    db.write("make", async |tx| Ok(tx.execute_unprepared(MAKE).await?)).await.expect("made");
}

on_both! {
    async fn concurrent_write_does_not_wait_for_the_writer(app: &TestDatabase) {
        let db = &app.db;
        if db.read().get_database_backend() != DbBackend::Postgres {
            return;
        }
        make_table(db).await;
        db.write("hold", async |tx| {
            tx.execute_unprepared("INSERT INTO counter VALUES (10)").await?;
            let other = db.clone();
            let write = tokio::spawn(async move {
                other.write_concurrent("note", async |tx| Ok(tx.execute_unprepared("INSERT INTO counter VALUES (1)").await?)).await
            });
            write.await.expect("no panic")?;
            assert_eq!(sum(db.read()).await?, 1, "that is committed, and this is not yet");
            Ok(())
        }).await.expect("written");
        assert_eq!(sum(db.read()).await.expect("read"), 11);
    }

    async fn failed_concurrent_write_is_rolled_back(app: &TestDatabase) {
        let db = &app.db;
        make_table(db).await;
        let failed: Result<(), Error> = db.write_concurrent("fail", async |tx| {
            tx.execute_unprepared("INSERT INTO counter VALUES (1)").await?;
            Err(Error::wrong_state("no"))
        }).await;
        assert!(failed.is_err());
        assert_eq!(sum(db.read()).await.expect("read"), 0);
    }

    async fn four_concurrent_writes_run_and_a_fifth_waits(app: &TestDatabase) {
        let db = &app.db;
        if db.read().get_database_backend() != DbBackend::Postgres {
            return;
        }
        let inside = Arc::new(AtomicU32::new(0));
        let end = Arc::new(Semaphore::new(0));
        let five: Vec<_> = (0..=CONCURRENT_WRITERS).map(|_| {
            let db = db.clone();
            let inside = Arc::clone(&inside);
            let end = Arc::clone(&end);
            tokio::spawn(async move {
                db.write_concurrent("stay", async |_| {
                    inside.fetch_add(1, Ordering::Relaxed);
                    end.acquire().await.expect("it stays open").forget();
                    Ok(())
                }).await
            })
        }).collect();
        while inside.load(Ordering::Relaxed) < CONCURRENT_WRITERS {
            yield_now().await;
        }
        for _ in 0..20 {
            db.reader.ping().await.expect("the database answers");
            assert_eq!(inside.load(Ordering::Relaxed), CONCURRENT_WRITERS, "the fifth waits");
        }
        end.add_permits(five.len());
        for one in five {
            one.await.expect("no panic").expect("its turn came");
        }
        assert_eq!(inside.load(Ordering::Relaxed), CONCURRENT_WRITERS + 1);
    }

    /// Read, yield, write, by the writer and concurrently: without the lock some of the forty increments would be lost.
    async fn job_log_has_one_writer_at_a_time(app: &TestDatabase) {
        let db = &app.db;
        make_table(db).await;
        db.write("begin", async |tx| Ok(tx.execute_unprepared("INSERT INTO counter VALUES (0)").await?)).await.expect("begun");
        let other = Db::connect(&app.url).await.expect("connected");
        let job = Uuid::from_u128(u128::MAX);
        let writers = (0..40).map(|number| {
            let db = if number % 4 < 2 { db.clone() } else { other.clone() };
            tokio::spawn(async move {
                let count = async |tx: &Tx| {
                    lock_job_log(tx, job).await?;
                    let n = sum(tx).await?;
                    tokio::task::yield_now().await;
                    tx.execute_unprepared(&format!("UPDATE counter SET n = {}", n + 1)).await?;
                    Ok::<_, Error>(())
                };
                if number % 2 == 0 { db.write_concurrent("count", count).await } else { db.write("count", count).await }
            })
        });
        for writer in futures::future::join_all(writers).await {
            writer.expect("no panic").expect("written");
        }
        assert_eq!(sum(db.read()).await.expect("read"), 40);
        other.close().await.expect("closed");
    }
}
