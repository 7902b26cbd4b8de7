//! The ledger: reservations, payments and settlements, hash-chained by account.

use sea_orm_migration::schema::{big_integer, integer_null, string, string_null, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("ledger_entry")
        .column(uuid("account_id"))
        .column(big_integer("sequence"))
        .column(string("kind"))
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(string_null("series"))
        .column(integer_null("round"))
        .column(integer_null("attempt"))
        .column(text("event"))
        .column(big_integer("count"))
        .column(string("evaluator"))
        .column(string_null("receipt"))
        .column(string("previous"))
        .column(string("hash"))
        .column(timestamp_with_time_zone("at"))
        .primary_key(["account_id", "sequence"])
        .foreign_key("ledger_entry_account", ["account_id"], "account", ["id"])
        .index("ledger_entry_job", ["job_id", "dataset_id"])
        .unique_index("ledger_entry_receipt", ["receipt"])
        .index("ledger_entry_at", ["at", "sequence", "account_id"])
        .append_only()
}
