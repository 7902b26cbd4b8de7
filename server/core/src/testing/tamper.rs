//! An attacker who can write to the database directly, without its triggers.

use sea_orm::{ConnectionTrait as _, DbBackend};

use crate::ctx::Ctx;

/// Runs a statement on an append-only table as its owner could: without its triggers.
pub async fn tamper(ctx: &Ctx, table: &str, statement: &str) {
    let disarm = |backend| match backend {
        DbBackend::Postgres => vec![format!("ALTER TABLE {table} DISABLE TRIGGER ALL")],
        _ => ["update", "delete"].map(|action| format!("DROP TRIGGER IF EXISTS {table}_no_{action}")).to_vec(),
    };
    ctx.db
        .write("tamper", async |tx| {
            if tx.get_database_backend() == DbBackend::Sqlite {
                tx.execute_unprepared("PRAGMA defer_foreign_keys = ON").await?;
            }
            for statement in disarm(tx.get_database_backend()) {
                tx.execute_unprepared(&statement).await?;
            }
            tx.execute_unprepared(statement).await?;
            Ok(())
        })
        .await
        .expect("nobody stops the owner of a database");
}

/// Lets the database refuse entries of the audit log with the action `what`.
pub async fn refuse_entries(ctx: &Ctx, what: &str) {
    let refuse = |backend| match backend {
        DbBackend::Postgres => {
            format!("ALTER TABLE audit_log ADD CONSTRAINT no_{what} CHECK (what <> '{what}') NOT VALID")
        }
        _ => format!(
            "CREATE TRIGGER no_{what} BEFORE INSERT ON audit_log WHEN NEW.what = '{what}' \
             BEGIN SELECT RAISE(ABORT, 'refused'); END"
        ),
    };
    ctx.db
        .write("refuse entries", async |tx| {
            tx.execute_unprepared(&refuse(tx.get_database_backend())).await?;
            Ok(())
        })
        .await
        .expect("nobody stops the owner of a database");
}
