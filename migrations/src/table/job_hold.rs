//! Holds of jobs, with origin, time and reason. Rows are ended, never removed.

use sea_orm_migration::schema::{
    pk_uuid, string, string_null, text, text_null, timestamp_with_time_zone, timestamp_with_time_zone_null, uuid,
    uuid_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("job_hold")
        .column(pk_uuid("id"))
        .column(uuid("job_id"))
        .column(uuid_null("dataset_id"))
        .column(string("holder"))
        .column(string("by"))
        .column(text("reason"))
        .column(text_null("payload"))
        .column(string_null("signature"))
        .column(timestamp_with_time_zone("since"))
        .column(timestamp_with_time_zone_null("ended_at"))
        .column(string_null("ended_by"))
        .foreign_key("job_hold_job", ["job_id"], "job", ["id"])
        .index("job_hold_of", ["job_id"])
}
