//! The server's countersignatures of receipts.

use sea_orm_migration::schema::{big_integer, string, text, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("countersignature")
        .column(uuid("worker_id"))
        .column(big_integer("sequence"))
        .column(string("receipt"))
        .column(big_integer("position"))
        .column(text("payload"))
        .column(string("signature"))
        .primary_key(["worker_id", "sequence"])
        .foreign_key("countersignature_receipt", ["worker_id", "sequence"], "receipt", ["worker_id", "sequence"])
        .unique_index("countersignature_position", ["position"])
        .append_only()
}
