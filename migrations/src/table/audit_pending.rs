//! Audit entries that await a position in the signed log.

use sea_orm_migration::schema::{big_integer, string, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("audit_pending")
        .column(string("place"))
        .column(uuid("place_id"))
        .column(big_integer("number"))
        .primary_key_with_name("audit_pending_pk", ["place", "place_id", "number"])
}
