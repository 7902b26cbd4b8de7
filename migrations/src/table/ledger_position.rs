//! The newest position of each site's ledger, as the site signed it.

use sea_orm_migration::schema::{big_integer, pk_uuid, text};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("ledger_position")
        .column(pk_uuid("worker_id"))
        .column(big_integer("receipts"))
        .column(text("payload"))
        .column(text("signature"))
        .foreign_key("ledger_position_worker_id", ["worker_id"], "worker", ["id"])
}
