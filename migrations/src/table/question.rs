//! Selected questions. `place` is the position in the round's queue, from 0.

use sea_orm_migration::schema::{big_integer_null, double, integer, pk_uuid, text, timestamp_with_time_zone, uuid};

use crate::table_step::TableStep;

pub(super) fn define() -> TableStep {
    TableStep::new("question")
        .column(pk_uuid("id"))
        .column(uuid("job_id"))
        .column(uuid("dataset_id"))
        .column(integer("round"))
        .column(integer("place"))
        .column(double("uncertainty"))
        .column(text("text"))
        .column(big_integer_null("count"))
        .column(timestamp_with_time_zone("chosen_at"))
        .foreign_key("question_job", ["job_id"], "job", ["id"])
        .unique_index("question_queue", ["job_id", "round", "place"])
        .append_only()
}
