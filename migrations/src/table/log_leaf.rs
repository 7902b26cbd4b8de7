//! The transparency log: one Merkle tree with a leaf for every ledger entry, account and limit.

use sea_orm_migration::schema::{big_integer, big_integer_null, string, text, uuid, uuid_null};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("log_leaf")
        .column(big_integer("position").primary_key())
        .column(string("kind"))
        .column(uuid("account_id"))
        .column(big_integer_null("sequence"))
        .column(uuid_null("budget_id"))
        // Hex of the roots of all complete subtrees that end with this leaf, the leaf's own hash first.
        .column(text("nodes"))
        .unique_index("log_leaf_entry", ["account_id", "sequence"])
        .unique_index("log_leaf_limit", ["account_id", "budget_id"])
        .append_only()
}
