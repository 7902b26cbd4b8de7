//! Results of jobs: files.

use sea_orm_migration::schema::{big_integer, pk_uuid, string, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("artifact")
        .column(pk_uuid("id"))
        .column(uuid("job_id"))
        .column(string("name"))
        .column(big_integer("size"))
        .column(string("digest"))
        .column(timestamp_with_time_zone("created_at"))
        .foreign_key("artifact_job", ["job_id"], "job", ["id"])
        .unique_index("artifact_name", ["job_id", "name"])
}
