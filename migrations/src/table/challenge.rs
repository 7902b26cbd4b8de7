//! Challenges that await a worker's answer, so that any replica can check it.

use sea_orm_migration::schema::{pk_uuid, string, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("challenge")
        .column(pk_uuid("worker_id"))
        .column(string("challenge"))
        .column(timestamp_with_time_zone("asked_at"))
        .foreign_key("challenge_worker", ["worker_id"], "worker", ["id"])
}
