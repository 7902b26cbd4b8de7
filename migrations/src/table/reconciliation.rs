//! The workers that have reconciled with the server since a restoration.

use sea_orm_migration::schema::{big_integer, timestamp_with_time_zone_null, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("reconciliation")
        // The position of the statement.
        .column(big_integer("restoration"))
        .column(uuid("worker_id"))
        .column(big_integer("receipts"))
        .column(timestamp_with_time_zone_null("finished_at"))
        .primary_key_with_name("reconciliation_pk", ["restoration", "worker_id"])
        .foreign_key("reconciliation_restoration", ["restoration"], "restoration", ["position"])
        .foreign_key("reconciliation_worker", ["worker_id"], "worker", ["id"])
}
