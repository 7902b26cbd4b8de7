//! The events of workers' keys, by their positions in the signed log.

use sea_orm_migration::schema::{big_integer, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("key_event")
        .column(big_integer("position").primary_key())
        .column(uuid("worker_id"))
        .column(uuid("organization_id"))
        .column(big_integer("number"))
        .column(string("event"))
        .column(string("public_key"))
        .column(timestamp_with_time_zone("at"))
        .foreign_key("key_event_worker", ["worker_id"], "worker", ["id"])
        .unique_index("key_event_of_worker", ["worker_id", "number"])
        .append_only()
}
