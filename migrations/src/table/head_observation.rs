//! The newest head of the log that each worker has verified and signed, for the workers of its peers.

use sea_orm_migration::schema::{big_integer, pk_uuid, text, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("head_observation")
        .column(pk_uuid("worker_id"))
        .column(big_integer("size"))
        .column(text("payload"))
        .column(text("signature"))
        .column(timestamp_with_time_zone("observed_at"))
        .foreign_key("head_observation_worker", ["worker_id"], "worker", ["id"])
}
