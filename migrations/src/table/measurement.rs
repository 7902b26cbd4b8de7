//! Results of jobs: measurements on public data.

use sea_orm_migration::schema::{big_integer, double, integer, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("measurement")
        .column(uuid("job_id"))
        .column(string("series"))
        .column(integer("round"))
        .column(string("test"))
        .column(big_integer("frames"))
        .column(double("accuracy"))
        .column(double("loss"))
        .column(timestamp_with_time_zone("at"))
        .primary_key(["job_id", "series", "round", "test"])
        .foreign_key("measurement_job", ["job_id"], "job", ["id"])
}
