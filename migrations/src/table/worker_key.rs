//! Changes of sites' keys, signed by the old and the new key. They permanently identify the key of every receipt.

use sea_orm_migration::schema::{big_integer, integer, string, string_uniq, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("worker_key")
        .column(uuid("worker_id"))
        .column(integer("number"))
        .column(string_uniq("public_key"))
        .column(big_integer("receipts"))
        .column(text("payload"))
        .column(string("by_old"))
        .column(string("by_new"))
        .column(timestamp_with_time_zone("recorded_at"))
        .primary_key(["worker_id", "number"])
        .foreign_key("worker_key_worker", ["worker_id"], "worker", ["id"])
        .append_only()
}
