//! The log of job parts, in a closed vocabulary. It is not evidence: the oldest lines of a part are removed when there
//! are many.

use sea_orm_migration::schema::{
    big_integer, big_integer_null, string, text, timestamp_with_time_zone, uuid, uuid_null,
};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("job_log")
        .column(uuid("job_id"))
        .column(big_integer("number"))
        .column(uuid_null("dataset_id"))
        .column(big_integer_null("sequence"))
        .column(string("level"))
        .column(text("event"))
        .column(big_integer_null("skew_seconds"))
        .column(timestamp_with_time_zone("at"))
        .primary_key_with_name("job_log_pk", ["job_id", "number"])
        .foreign_key("job_log_job", ["job_id"], "job", ["id"])
        .index("job_log_part", ["job_id", "dataset_id", "number"])
}
