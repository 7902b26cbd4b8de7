//! The datasets of each job. `limit_id` is the standing limit that approved the part, `consent` the form of the
//! consent.

use sea_orm_migration::schema::{big_integer, boolean, integer, string, string_null, text_null, uuid, uuid_null};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("participant")
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(integer("position"))
        .column(uuid("lineage_id"))
        .column(uuid("organization_id"))
        .column(uuid("worker_id"))
        .column(string("dataset_name"))
        .column(string("organization_name"))
        .column(string("visibility"))
        .column(string("purpose"))
        .column(text_null("charge"))
        .column(string("approval"))
        .column(string_null("approval_by"))
        .column(text_null("approval_reason"))
        .column(boolean("steward_approved"))
        .column(boolean("site_answered"))
        .column(string("state"))
        .column(big_integer("releases"))
        .column(uuid_null("limit_id"))
        .column(text_null("consent"))
        .primary_key(["job_id", "dataset_id"])
        .foreign_key("participant_job", ["job_id"], "job", ["id"])
        .index("participant_worker", ["worker_id"])
        .index("participant_by_limit", ["limit_id"])
}
