//! The closed phases of masked rounds: sets of sites, as bits.

use sea_orm_migration::schema::{big_integer_null, integer, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(crate) fn define() -> TableStep {
    TableStep::new("masked_round")
        .column(uuid("job_id"))
        .column(string("series"))
        .column(integer("round"))
        .column(big_integer_null("listed"))
        .column(big_integer_null("members"))
        .column(big_integer_null("survivors"))
        .column(timestamp_with_time_zone("phase_at"))
        .primary_key(["job_id", "series", "round"])
        .foreign_key("masked_round_job", ["job_id"], "job", ["id"])
}
