//! Decisions of the datasets' owners about jobs.

use sea_orm_migration::schema::{
    boolean, pk_uuid, string, string_null, text, text_null, timestamp_with_time_zone, uuid,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("decision")
        .column(pk_uuid("id"))
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(string("source"))
        .column(boolean("approve"))
        .column(string("by"))
        .column(text("reason"))
        .column(text_null("payload"))
        .column(string_null("signature"))
        .column(timestamp_with_time_zone("at"))
        .foreign_key("decision_job", ["job_id"], "job", ["id"])
        .index("decision_of", ["job_id", "dataset_id"])
        .append_only()
}
