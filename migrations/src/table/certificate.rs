//! Certificates: the cost of a job and of all its releases, signed by the server after the end of the job.

use sea_orm_migration::schema::{pk_uuid, string, text, timestamp_with_time_zone};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("certificate")
        .column(pk_uuid("job_id"))
        .column(string("digest"))
        .column(text("payload"))
        .column(string("signature"))
        .column(timestamp_with_time_zone("issued_at"))
        .foreign_key("certificate_job", ["job_id"], "job", ["id"])
        .append_only()
}
