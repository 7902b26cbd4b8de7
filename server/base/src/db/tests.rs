use std::sync::{Arc, Mutex};

use sea_orm::{ConnectionTrait as _, DbBackend, DbErr};
use undertone_api::id::OrganizationId;
use undertone_api::problem::Code;
use uuid::Uuid;

use crate::error::Error;
use crate::fairness::WorkOwner;
use crate::testing::on_both;

const MAKE: &str = "CREATE TABLE counter (n INTEGER NOT NULL)";

async fn count(connection: &impl sea_orm::ConnectionTrait) -> Result<i32, DbErr> {
    let row = connection
        .query_one_raw(sea_orm::Statement::from_string(connection.get_database_backend(), "SELECT n FROM counter"));
    row.await?.expect("one row").try_get("", "n")
}

on_both! {
    /// Read, yield, write: without a single writer some of the forty increments would be lost.
    async fn writers_come_one_at_a_time(app: &TestDatabase) {
        app.db.write("make", async |tx| {
            tx.execute_unprepared(MAKE).await?;
            tx.execute_unprepared("INSERT INTO counter VALUES (0)").await?;
            Ok(())
        }).await.expect("made");
        // A second server on the same database.
        let other = crate::db::Db::connect(&app.url).await.expect("connected");
        let writers = (0..40).map(|number| {
            let db = if number % 2 == 0 { app.db.clone() } else { other.clone() };
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
        assert_eq!(count(app.db.read()).await.expect("read"), 40);
        other.close().await.expect("closed");
    }

    async fn writer_of_another_organization_passes_a_greedy_one(app: &TestDatabase) {
        let organization = |number| WorkOwner::Organization(OrganizationId(Uuid::from_u128(number)));
        let (greedy, honest) = (organization(1), organization(2));
        let db = &app.db;
        let (turn, tx) = db.begin(greedy).await.expect("its turn");
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut writers = Vec::new();
        for owner in std::iter::repeat_n(greedy, 20).chain([honest]) {
            let (db, order, waiting) = (db.clone(), Arc::clone(&order), db.writer_turns.waiting());
            let write = async move {
                db.write("order", async |_| {
                    order.lock().expect("no panic").push(owner);
                    Ok(())
                }).await
            };
            writers.push(tokio::spawn(owner.scope(write)));
            while app.db.writer_turns.waiting() == waiting {
                tokio::task::yield_now().await;
            }
        }
        tx.rollback().await.expect("rolled back");
        drop(turn);
        for writer in writers {
            writer.await.expect("no panic").expect("written");
        }
        let order = order.lock().expect("no panic").clone();
        assert_eq!((order.len(), order[0]), (21, honest));
    }

    async fn failed_write_is_rolled_back(app: &TestDatabase) {
        let failed: Result<(), Error> = app.db.write("fail", async |tx| {
            tx.execute_unprepared(MAKE).await?;
            Err(Error::wrong_state("no"))
        }).await;
        assert_eq!(failed.expect_err("it said no").code(), Code::WrongState);
        app.db.write("make", async |tx| Ok(tx.execute_unprepared(MAKE).await?)).await.expect("it was not there");
    }

    /// Only SQLite rolls back by itself, and only its file size can be limited.
    async fn commit_after_a_full_disk_is_stored(app: &TestDatabase) {
        let db = &app.db;
        if db.read().get_database_backend() != DbBackend::Sqlite {
            return;
        }
        db.write("make", async |tx| {
            tx.execute_unprepared(MAKE).await?;
            tx.execute_unprepared("CREATE TABLE wide (bytes BLOB)").await?;
            tx.execute_unprepared("INSERT INTO counter VALUES (0)").await?;
            Ok(())
        }).await.expect("made");
        db.bound(1).await.expect("bounded");
        for _ in 0..2 {
            let full: Result<(), Error> = db.write("fill", async |tx| {
                tx.execute_unprepared("INSERT INTO wide VALUES (zeroblob(10000000))").await?;
                Ok(())
            }).await;
            assert!(format!("{:?}", full.expect_err("no page is left")).contains("full"));
        }
        db.bound(u32::MAX - 1).await.expect("room again");
        let refused: Result<(), Error> = db.write("refuse", async |_| Err(Error::wrong_state("no"))).await;
        assert_eq!(refused.expect_err("it said no").code(), Code::WrongState);
        db.write("count", async |tx| Ok(tx.execute_unprepared("UPDATE counter SET n = 1").await?)).await.expect("written");
        assert_eq!(count(db.read()).await.expect("read"), 1);
    }

    async fn readers_cannot_write(app: &TestDatabase) {
        assert!(app.db.read().execute_unprepared(MAKE).await.is_err());
    }
}
