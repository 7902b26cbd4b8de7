//! Pools of questions that sites release, one for each participant. Their texts are in the object store until the end
//! of the job.

use sea_orm_migration::schema::{big_integer, integer, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("pool")
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(string("series"))
        .column(integer("round"))
        .column(string("digest"))
        .column(string("object"))
        .column(big_integer("size"))
        .column(big_integer("questions"))
        .column(timestamp_with_time_zone("accepted_at"))
        .primary_key_with_name("pool_pk", ["job_id", "dataset_id", "series", "round"])
        .foreign_key("pool_participant", ["job_id", "dataset_id"], "participant", ["job_id", "dataset_id"])
        .append_only()
}
