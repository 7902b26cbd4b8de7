//! Rounds of questions. Round 0 is that of the pools, and has a row once it is closed.

use sea_orm_migration::schema::{big_integer, integer, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("asking")
        .column(uuid("job_id"))
        .column(integer("round"))
        .column(big_integer("questions"))
        .column(timestamp_with_time_zone("opened_at"))
        .column(timestamp_with_time_zone("deadline"))
        .column(timestamp_with_time_zone_null("closed_at"))
        .primary_key_with_name("asking_pk", ["job_id", "round"])
        .foreign_key("asking_job", ["job_id"], "job", ["id"])
}
