//! Tables of evidence: the database itself rejects any change or deletion of a row, for every caller.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{ConnectionTrait, DbBackend};

/// Makes every UPDATE and DELETE on `table` (and TRUNCATE, where there is one) fail with "<table> is append-only".
///
/// # Errors
/// [`DbErr`] when the triggers cannot be created.
pub(crate) async fn append_only(manager: &SchemaManager<'_>, table: &str) -> Result<(), DbErr> {
    let statements = match manager.get_database_backend() {
        DbBackend::Postgres => vec![
            format!(
                "CREATE FUNCTION {table}_append_only() RETURNS trigger LANGUAGE plpgsql AS \
                 $$ BEGIN RAISE EXCEPTION '{table} is append-only'; END $$"
            ),
            format!(
                "CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} \
                 FOR EACH ROW EXECUTE FUNCTION {table}_append_only()"
            ),
            format!(
                "CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} \
                 FOR EACH STATEMENT EXECUTE FUNCTION {table}_append_only()"
            ),
        ],
        _ => ["UPDATE", "DELETE"]
            .map(|action| {
                format!(
                    "CREATE TRIGGER {table}_no_{} BEFORE {action} ON {table} \
                     BEGIN SELECT RAISE(ABORT, '{table} is append-only'); END",
                    action.to_lowercase()
                )
            })
            .to_vec(),
    };
    for statement in statements {
        manager.get_connection().execute_unprepared(&statement).await?;
    }
    Ok(())
}
