//! The database schema: the only source of the tables, for SQLite and PostgreSQL alike.
//!
//! [`migrate`] brings a database up to date by steps in a fixed order; the table `seaql_migrations` holds the names of
//! the applied ones. First come the steps in the folder `table`, one for each table. [`migrate`] also adopts a database
//! that was made before the first release, by other steps (module `adoption`).
//!
//! # To change the schema
//! A step is never changed once a database has run it: a change of the schema is a new step.
//!
//! * A change of a table: a file `src/m<date>_<number>_<verb>_<subject>.rs` with a type that derives
//!   `DeriveMigrationName` and implements [`MigrationTrait`].
//! * A new table: a file `src/table/<table>.rs` with a `TableStep`.
//!
//! Add the step to the end of `later_steps`, not to the list of the folder `table`. During an upgrade older programs use
//! the new tables. So a step adds, and a column is removed by the version after the last program that uses it. SQLite
//! adds one column with each statement.
//!
//! # Conventions
//! The server generates ids, as UUIDs. Times are UTC with a time zone. A table is named by one noun.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{DatabaseConnection, DbBackend, EntityTrait as _, QueryOrder as _};
use sea_orm_migration::seaql_migrations::{Column, Entity};

mod adoption;
mod m20261127_000100_add_artifact_deletion;
mod m20261127_000100_add_entry_certificate;
mod m20261128_000100_add_table_schema;
mod m20261129_000100_add_masked_refusals;
mod table;
mod table_step;

pub use adoption::translate_steps;

/// The advisory lock of migrations on PostgreSQL: one more than "underton" in ASCII, which is that of the single
/// writer.
const MIGRATION_LOCK: i64 = 0x756E_6465_7274_6F6F;

/// The list of all steps.
struct SchemaMigrator;

#[async_trait::async_trait]
impl MigratorTrait for SchemaMigrator {
    fn migrations() -> Vec<Box<dyn MigrationTrait>> {
        let tables = table::steps().into_iter().map(|step| Box::new(step) as Box<dyn MigrationTrait>);
        tables.chain(later_steps()).collect()
    }
}

/// Returns the steps that were added after those of the tables; a new step is the last one.
fn later_steps() -> Vec<Box<dyn MigrationTrait>> {
    vec![
        Box::new(m20261127_000100_add_artifact_deletion::Migration),
        Box::new(m20261127_000100_add_entry_certificate::Migration),
        Box::new(table::departure::define()),
        Box::new(table::party_terms::define()),
        Box::new(m20261128_000100_add_table_schema::Migration),
        Box::new(table::change::define()),
        Box::new(table::masked_round::define()),
        Box::new(table::masked_message::define()),
        Box::new(m20261129_000100_add_masked_refusals::Migration),
    ]
}

/// Runs the pending steps. On PostgreSQL several replicas may call it at once: an advisory lock of the session orders
/// them, so `connection` must be a pool of one connection there.
///
/// # Errors
/// If a step fails, which is rolled back then; if the tables are of another program, or older than this program can
/// adopt.
pub async fn migrate(connection: &DatabaseConnection) -> Result<(), DbErr> {
    if connection.get_database_backend() != DbBackend::Postgres {
        return run_pending_steps(connection).await;
    }
    if connection.get_postgres_connection_pool().options().get_max_connections() != 1 {
        return Err(DbErr::Migration("migrations need a pool of one connection".to_owned()));
    }
    connection.execute_unprepared(&format!("SELECT pg_advisory_lock({MIGRATION_LOCK})")).await?;
    let result = run_pending_steps(connection).await;
    connection.execute_unprepared(&format!("SELECT pg_advisory_unlock({MIGRATION_LOCK})")).await?;
    result
}

async fn run_pending_steps(connection: &DatabaseConnection) -> Result<(), DbErr> {
    adoption::adopt_earlier_database(connection).await?;
    SchemaMigrator::up(connection, None).await
}

/// Returns the names of the steps that a database has, as [`translate_steps`] gives them; a connection for reading only
/// suffices.
///
/// # Errors
/// If the database does not answer, or no step ever ran on it.
pub async fn load_applied_steps(connection: &DatabaseConnection) -> Result<Vec<String>, DbErr> {
    // The migrator would first create its table if missing, and PostgreSQL refuses that to a reader even if the table
    // exists.
    let rows = Entity::find().order_by_asc(Column::Version).all(connection).await?;
    Ok(translate_steps(rows.into_iter().map(|row| row.version).collect()))
}

/// Returns the names of the steps that this program knows.
pub fn list_steps() -> Vec<String> {
    SchemaMigrator::migrations().iter().map(|step| step.name().to_owned()).collect()
}
