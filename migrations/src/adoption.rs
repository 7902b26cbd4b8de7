//! Adoption of databases from before the first release.
//!
//! Until then the tables were made by the steps below. One step for each table has replaced them, with the same schema.
//! A database that has all earlier steps is adopted: their names are replaced by those of the tables' steps, in one
//! transaction, and no table changes. A database that has only some of them is refused.
//!
//! The module and `tests/data` can be deleted once no database from before the first release is in use.

use sea_orm_migration::prelude::*;
use sea_orm_migration::sea_orm::{
    ActiveValue, ColumnTrait as _, DatabaseConnection, EntityTrait as _, QueryFilter as _,
};
use sea_orm_migration::seaql_migrations::{ActiveModel, Column, Entity};

use crate::table;

/// The steps before the first release, in the order in which they ran.
const EARLIER_STEPS: [&str; 57] = [
    "m20261120_000001_create_member",
    "m20261120_000002_create_organization",
    "m20261120_000003_create_consortium",
    "m20261120_000004_create_role",
    "m20261120_000005_create_session",
    "m20261120_000006_create_invitation",
    "m20261120_000007_create_worker",
    "m20261120_000008_create_dataset",
    "m20261120_000100_create_account",
    "m20261120_000101_create_job",
    "m20261120_000102_create_ledger",
    "m20261120_000103_create_lease",
    "m20261120_000104_create_round",
    "m20261120_000105_create_receipt",
    "m20261120_000106_create_result",
    "m20261120_000200_create_log",
    "m20261120_000220_create_overlap",
    "m20261120_000221_create_certificate",
    "m20261120_000230_create_audit",
    "m20261120_000231_create_freeze",
    "m20261120_000310_add_dataset_users",
    "m20261121_000400_add_dataset_content",
    "m20261121_000401_create_question",
    "m20261121_000402_add_job_asks",
    "m20261122_000101_create_second_factor",
    "m20261122_000102_create_reset",
    "m20261122_000103_create_attempt",
    "m20261122_000104_add_session_origin",
    "m20261122_000105_add_invitation_withdrawn",
    "m20261122_000201_create_api_key",
    "m20261122_000202_create_identity",
    "m20261122_000301_create_draft",
    "m20261122_000302_create_job_hold",
    "m20261122_000303_add_job_times",
    "m20261122_000304_create_approval_limit",
    "m20261122_000400_create_worker_key",
    "m20261122_000501_create_notification",
    "m20261122_000502_create_job_log",
    "m20261122_000600_create_audit_log",
    "m20261122_000701_create_idempotency",
    "m20261122_000800_create_challenge",
    "m20261122_000900_add_dataset_seconds",
    "m20261122_000910_add_approval_total",
    "m20261122_000920_index_ledger_time",
    "m20261123_000100_charge_every_unit",
    "m20261123_000500_add_consent",
    "m20261123_000510_create_approval_key",
    "m20261123_000520_create_credential_notice",
    "m20261123_000600_add_retirement",
    "m20261123_000700_create_head_observation",
    "m20261123_000810_add_attempt_end",
    "m20261123_000820_create_passkey",
    "m20261123_000830_create_notice_delivery",
    "m20261123_000840_create_restoration",
    "m20261123_000841_create_audit_seal",
    "m20261123_000842_create_key_event",
    "m20261126_000900_create_ledger_position",
];

/// Replaces the names of the earlier steps by those of the tables' steps, if the database has the earlier ones.
///
/// # Errors
/// [`DbErr::Migration`] if the database has only some of the earlier steps, or another step besides them; it is not
/// changed then.
pub(crate) async fn adopt_earlier_database(connection: &DatabaseConnection) -> Result<(), DbErr> {
    if !SchemaManager::new(connection).has_table("seaql_migrations").await? {
        return Ok(());
    }
    let rows = Entity::find().all(connection).await?;
    // The tables have been as they are since the newest of the earlier steps.
    let Some(applied_at) = rows.iter().map(|row| row.applied_at).max() else { return Ok(()) };
    let (earlier, others) = split_steps(rows.into_iter().map(|row| row.version).collect());
    if earlier.is_empty() {
        return Ok(());
    }
    check_earlier_steps(&earlier, &others)?;
    let transaction = SchemaManager::new(connection).begin().await?;
    let delete = Entity::delete_many().filter(Column::Version.is_in(EARLIER_STEPS));
    if delete.exec(transaction.get_connection()).await?.rows_affected == 0 {
        // Another process has adopted the database since the names were read.
        return Ok(());
    }
    let tables = table::steps().into_iter().map(|step| ActiveModel {
        version: ActiveValue::Set(step.name().to_owned()),
        applied_at: ActiveValue::Set(applied_at),
    });
    Entity::insert_many(tables).exec(transaction.get_connection()).await?;
    transaction.commit().await
}

/// Translates the names of applied steps into those of this program, sorted: the complete list of earlier steps becomes
/// the steps of the tables, an incomplete list becomes no step. Other names remain.
pub fn translate_steps(applied: Vec<String>) -> Vec<String> {
    let (earlier, mut others) = split_steps(applied);
    if earlier.len() == EARLIER_STEPS.len() {
        others.extend(table::steps().iter().map(|step| step.name().to_owned()));
    }
    others.sort();
    others
}

/// Splits the names of steps into the earlier ones and all others.
fn split_steps(applied: Vec<String>) -> (Vec<String>, Vec<String>) {
    applied.into_iter().partition(|name| EARLIER_STEPS.contains(&name.as_str()))
}

fn check_earlier_steps(earlier: &[String], others: &[String]) -> Result<(), DbErr> {
    let last = EARLIER_STEPS[EARLIER_STEPS.len() - 1];
    if let Some(missing) = EARLIER_STEPS.iter().find(|step| !earlier.iter().any(|name| name == *step)) {
        return Err(DbErr::Migration(format!(
            "the tables are older than this program can adopt: step {missing} is missing; run `undertone-server migrate` \
             of the last program before it, whose newest step is {last}, then start this program"
        )));
    }
    if let Some(unknown) = others.first() {
        return Err(DbErr::Migration(format!(
            "the tables have step {unknown}, which this program does not know: use the program that made them"
        )));
    }
    Ok(())
}
