//! Submissions to rounds of averaging. The vectors are objects, named by digest.

use sea_orm_migration::schema::{big_integer, boolean, integer, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("submission")
        .column(uuid("job_id"))
        .column(string("series"))
        .column(integer("round"))
        .column(uuid("dataset_id"))
        .column(string("digest"))
        .column(string("object"))
        .column(big_integer("length"))
        .column(boolean("counted"))
        .column(timestamp_with_time_zone("accepted_at"))
        .primary_key(["job_id", "series", "round", "dataset_id"])
        .foreign_key("submission_job", ["job_id"], "job", ["id"])
}
