//! Receipts as signed by the sites: one unbroken chain for each worker.

use sea_orm_migration::schema::{big_integer, integer, string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("receipt")
        .column(uuid("worker_id"))
        .column(big_integer("sequence"))
        .column(string("digest"))
        .column(text("payload"))
        .column(string("signature"))
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(string("series"))
        .column(integer("round"))
        .column(integer("attempt"))
        .column(timestamp_with_time_zone("received_at"))
        .primary_key(["worker_id", "sequence"])
        .foreign_key("receipt_job", ["job_id"], "job", ["id"])
        .unique_index("receipt_digest", ["digest"])
        .append_only()
}
