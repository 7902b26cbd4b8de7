//! The positions of audit entries in the signed log. The table is not append-only: an entry and its salt can be erased
//! together, and the leaf remains by its hash.

use sea_orm_migration::schema::{big_integer, string, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("audit_seal")
        .column(big_integer("position").primary_key())
        .column(string("place"))
        .column(uuid("place_id"))
        .column(big_integer("number"))
        .column(string("salt"))
        .unique_index("audit_seal_entry", ["place", "place_id", "number"])
}
