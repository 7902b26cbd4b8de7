//! The departures of parties from jobs, with author, reason and time; `payload` and `signature` are a site's statement.
//! A party leaves a job once.

use sea_orm_migration::schema::{integer, string, string_null, text, text_null, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(crate) fn define() -> TableStep {
    TableStep::new("departure")
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(string("origin"))
        .column(string("by"))
        .column(text("reason"))
        .column(integer("rounds_done"))
        .column(text_null("payload"))
        .column(string_null("signature"))
        .column(timestamp_with_time_zone("at"))
        .primary_key(["job_id", "dataset_id"])
        .foreign_key("departure_job", ["job_id"], "job", ["id"])
        .append_only()
}
