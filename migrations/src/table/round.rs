//! Rounds of averaging.

use sea_orm_migration::schema::{
    big_integer_null, integer, string, string_null, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("round")
        .column(uuid("job_id"))
        .column(string("series"))
        .column(integer("round"))
        .column(timestamp_with_time_zone("opened_at"))
        .column(timestamp_with_time_zone("deadline"))
        .column(timestamp_with_time_zone_null("closed_at"))
        .column(integer("contributors"))
        .column(big_integer_null("length"))
        .column(string_null("digest"))
        .column(string_null("object"))
        .primary_key(["job_id", "series", "round"])
        .foreign_key("round_job", ["job_id"], "job", ["id"])
}
