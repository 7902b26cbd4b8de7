//! Audit findings: each site's signed statement, and the server's verdict on it.

use sea_orm_migration::schema::{string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("audit")
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(string("digest"))
        .column(text("payload"))
        .column(string("signature"))
        .column(text("assessment"))
        .column(string("verdict"))
        .column(timestamp_with_time_zone("received_at"))
        .primary_key_with_name("audit_pk", ["job_id", "dataset_id"])
        .foreign_key("audit_participant", ["job_id", "dataset_id"], "participant", ["job_id", "dataset_id"])
        .append_only()
}
