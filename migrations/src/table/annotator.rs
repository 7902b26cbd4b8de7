//! The annotator numbers of a job, each for a member or a named import.

use sea_orm_migration::schema::{integer, string_null, timestamp_with_time_zone, uuid, uuid_null};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("annotator")
        .column(uuid("job_id"))
        .column(integer("number"))
        .column(uuid_null("member_id"))
        .column(string_null("name"))
        .column(timestamp_with_time_zone("joined_at"))
        .primary_key_with_name("annotator_pk", ["job_id", "number"])
        .foreign_key("annotator_job", ["job_id"], "job", ["id"])
        .unique_index("annotator_member", ["job_id", "member_id"])
        .unique_index("annotator_name", ["job_id", "name"])
        .append_only()
}
