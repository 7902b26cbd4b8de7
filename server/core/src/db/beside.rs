//! Writes concurrent with the single writer, on PostgreSQL: they wait for no writer, their number is limited, and each
//! job's log has one writer at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sea_orm::{ConnectionTrait as _, DbBackend, DbErr, Statement};
use tokio::sync::Semaphore;
use tokio::task::yield_now;
use uuid::Uuid;

use super::{BESIDE, Db, Tx, lock_job_log};
use crate::error::Error;
use crate::testing::on_both;

const MAKE: &str = "CREATE TABLE counter (n INTEGER NOT NULL)";

/// Returns the sum of the table's numbers.
async fn sum(connection: &impl sea_orm::ConnectionTrait) -> Result<i64, DbErr> {
    let sum = Statement::from_string(connection.get_database_backend(), "SELECT SUM(n) AS n FROM counter");
    let row = connection.query_one_raw(sum).await?.expect("one row");
    Ok(row.try_get::<Option<i64>>("", "n")?.unwrap_or(0))
}

async fn made(db: &Db) {
    db.write("make", async |tx| Ok(tx.execute_unprepared(MAKE).await?)).await.expect("made");
}

on_both! {
    async fn what_is_written_beside_the_writer_does_not_wait_for_its_turn(app: &TestApp) {
        let db = &app.ctx.db;
        if db.read().get_database_backend() != DbBackend::Postgres {
            return;
        }
        made(db).await;
        db.write("hold", async |tx| {
            tx.execute_unprepared("INSERT INTO counter VALUES (10)").await?;
            let other = db.clone();
            let beside = tokio::spawn(async move {
                other.beside("note", async |tx| Ok(tx.execute_unprepared("INSERT INTO counter VALUES (1)").await?)).await
            });
            beside.await.expect("no panic")?;
            assert_eq!(sum(db.read()).await?, 1, "that is committed, and this is not yet");
            Ok(())
        }).await.expect("written");
        assert_eq!(sum(db.read()).await.expect("read"), 11);
    }

    async fn what_fails_beside_the_writer_leaves_nothing_behind(app: &TestApp) {
        let db = &app.ctx.db;
        made(db).await;
        let failed: Result<(), Error> = db.beside("fail", async |tx| {
            tx.execute_unprepared("INSERT INTO counter VALUES (1)").await?;
            Err(Error::wrong_state("no"))
        }).await;
        assert!(failed.is_err());
        assert_eq!(sum(db.read()).await.expect("read"), 0);
    }

    async fn four_are_beside_the_writer_at_once_and_a_fifth_waits(app: &TestApp) {
        let db = &app.ctx.db;
        if db.read().get_database_backend() != DbBackend::Postgres {
            return;
        }
        let (inside, done) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
        let five: Vec<_> = (0..=BESIDE).map(|_| {
            let (db, inside, done) = (db.clone(), Arc::clone(&inside), Arc::clone(&done));
            tokio::spawn(async move {
                db.beside("stay", async |_| {
                    inside.fetch_add(1, Ordering::Relaxed);
                    done.acquire().await.expect("it stays open").forget();
                    Ok(())
                }).await
            })
        }).collect();
        while inside.load(Ordering::Relaxed) < BESIDE {
            yield_now().await;
        }
        for _ in 0..20 {
            db.ping().await.expect("the database answers");
            assert_eq!(inside.load(Ordering::Relaxed), BESIDE, "the fifth waits");
        }
        done.add_permits(five.len());
        for one in five {
            one.await.expect("no panic").expect("its turn came");
        }
        assert_eq!(inside.load(Ordering::Relaxed), BESIDE + 1);
    }

    /// Read, yield, write, by the writer and concurrently: without the lock some of the forty increments would be lost.
    async fn whoever_writes_in_a_jobs_log_is_alone_with_it(app: &TestApp) {
        let db = &app.ctx.db;
        made(db).await;
        db.write("begin", async |tx| Ok(tx.execute_unprepared("INSERT INTO counter VALUES (0)").await?)).await.expect("begun");
        let other = Db::connect(&app.ctx.config.database()).await.expect("connected");
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
                if number % 2 == 0 { db.beside("count", count).await } else { db.write("count", count).await }
            })
        });
        for writer in futures::future::join_all(writers).await {
            writer.expect("no panic").expect("written");
        }
        assert_eq!(sum(db.read()).await.expect("read"), 40);
        other.close().await.expect("closed");
    }
}
