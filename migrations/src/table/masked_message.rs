//! The messages of masked rounds, until the rounds close.

use sea_orm_migration::schema::{integer, string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(crate) fn define() -> TableStep {
    TableStep::new("masked_message")
        .column(uuid("job_id"))
        .column(string("series"))
        .column(integer("round"))
        .column(string("step"))
        .column(integer("site"))
        .column(text("body"))
        .column(timestamp_with_time_zone("received_at"))
        .primary_key(["job_id", "series", "round", "step", "site"])
        .foreign_key("masked_message_job", ["job_id"], "job", ["id"])
}
