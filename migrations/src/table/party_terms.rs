//! The answers of parties to the open terms of a proposed job: the last answer of each party.

use sea_orm_migration::schema::{string, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(crate) fn define() -> TableStep {
    TableStep::new("party_terms")
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(text("terms"))
        .column(string("by"))
        .column(timestamp_with_time_zone("at"))
        .primary_key(["job_id", "dataset_id"])
        .foreign_key("party_terms_job", ["job_id"], "job", ["id"])
}
